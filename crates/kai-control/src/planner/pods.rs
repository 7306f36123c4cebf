//! Pods: what the cluster says of them, and what only we know.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kai_api::names::gpu;
use kai_api::view::Pod as GroupingView;
use kai_client::kinds::Kind;
use kai_core::input::pod::{Backoff, PodRole, RetryAfter};
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, PodSpec, Text};
use kai_core::status::Status;
use kai_core::time::Timestamp;
use kai_translate::{pod, pod_group, time};
use kai_workloads::write::planned_group;
use kai_workloads::{Decision, PodGroupPlan, group_pod};

use super::{Planner, Publish, Wait};
use crate::grouper::{Grouped, Grouping, for_its_author};
use crate::orders::Order;
use crate::status::problems::summary;

/// A pod.
pub(super) struct PodEntry {
    /// What the cluster says of it.
    pub(super) base: PodSpec,
    /// What grouping looks at.
    pub(super) view: GroupingView,
    /// Its claims: name in the pod to name of the object.
    pub(super) claims: BTreeMap<String, String>,
    /// Names of its containers, init containers first, while it has no node.
    pub(super) containers: Vec<Text>,
    /// To which group it belongs.
    pub(super) group: Membership,
    /// The node that a plan nominated it to.
    pub(super) nominated: Option<Text>,
    /// Since when it counts as started: its node took it, else it was bound, else a plan decided to bind it.
    started: Option<Timestamp>,
    /// Its node has taken it: the kubelet reported when, or the state of a container.
    pub(super) is_on_its_node: bool,
}

/// To which group a pod belongs.
pub(super) enum Membership {
    /// To the one it names, or to none.
    Named,
    /// To be found out once everything was listed.
    Unknown,
    /// The grouper was asked.
    Asked,
    /// It is its own group.
    Own {
        /// The group.
        plan: Box<PodGroupPlan>,
        /// It was asked to be written.
        published: bool,
    },
}

impl PodEntry {
    /// Since when it counts as started. A pod that is bound is protected at once, not only when its node took it.
    pub(super) fn started(&self) -> Option<Timestamp> {
        self.started
    }
}

/// Since when a pod counts as started, by its own word.
fn started_by(view: &kai_translate::view::Pod) -> Option<Timestamp> {
    let bound = view
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "True");
    let bound = bound.and_then(|condition| condition.last_transition_time.as_deref());
    let moment = view.status.start_time.as_deref().or(bound)?;
    time::parse(moment).ok()
}

/// The kubelet has reported about the pod.
fn is_on_its_node(view: &kai_translate::view::Pod) -> bool {
    let status = &view.status;
    status.start_time.is_some()
        || !status.container_statuses.is_empty()
        || !status.init_container_statuses.is_empty()
}

/// The pod asks for GPUs of AMD.
fn asks_amd(view: &kai_translate::view::Pod) -> bool {
    let containers = view.spec.containers.iter().chain(&view.spec.init_containers);
    containers.into_iter().any(|one| one.resources.requests.contains_key(gpu::AMD))
}

impl Planner {
    pub(super) fn set_pod(&mut self, view: &kai_translate::view::Pod) {
        let name = pod::name(view);
        let translated = pod::translate(view, &self.settings.rules);
        if self.settings.rules.role(view) == PodRole::Workload
            && self.settings.partition.holds(&view.metadata.labels)
        {
            let problem = summary(&translated.problems);
            self.statuses.set_problem(Kind::Pod, &name, &view.metadata.uid, problem);
        }
        let Some(base) = Self::heard(translated) else {
            self.remove_pod(&name);
            return;
        };
        let same = self.pods.get(&name).is_some_and(|entry| entry.base.uid == base.uid);
        if !same {
            self.remove_pod(&name);
        }
        self.note_contest(&base);
        let was_dirty = self.dirty;
        let confirmed = self.confirms_eviction(&base).then(|| base.clone());
        self.see_reservation(view);
        let group = self.membership(&name, &base);
        let nominated = self.pods.get(&name).and_then(|entry| entry.nominated.clone());
        let decided = self.pods.get(&name).and_then(|entry| entry.started());
        let started = started_by(view).or(decided);
        let claims = view.spec.resource_claims.iter().filter_map(|claim| {
            Some((claim.name.clone(), view.claim_object(&claim.name)?.to_owned()))
        });
        let placed = base.node.is_some();
        let containers = view.spec.init_containers.iter().chain(&view.spec.containers);
        let containers = containers.filter(|_| !placed).map(|one| one.name.as_str().into());
        if placed {
            self.clear_failed_binds(&name);
            self.in_flight.remove(&name);
        }
        let entry = PodEntry {
            base,
            view: view.for_grouping(),
            claims: claims.collect(),
            containers: containers.collect(),
            group,
            nominated: nominated.filter(|_| !placed),
            started,
            is_on_its_node: is_on_its_node(view),
        };
        let group = named_group(&entry.base);
        let is_new = group.as_ref().is_some_and(|group| {
            self.members.entry(group.clone()).or_default().insert(name.clone())
        });
        self.pods.insert(name.clone(), Box::new(entry));
        let object = group.as_ref().filter(|_| is_new).and_then(|group| self.groups.get(group));
        let is_whole_group = object.is_some_and(|object| self.pod_that_is(object).is_some());
        if decided != started || is_whole_group {
            match group {
                Some(group) => self.tell_group(&group),
                None => self.tell_own_group(&name),
            }
        }
        self.statuses.accounts_mut().see_vendor(&name, asks_amd(view));
        self.refresh_pod(&name);
        self.tell_bind_request(&name);
        if self.is_ready() {
            self.find_group(&name);
        }
        if let Some(pod) = confirmed {
            self.confirm_eviction(&pod, was_dirty);
        }
    }

    /// What is known of the pod's group. Once found it stays, so that the pod is charged to one queue all its life.
    fn membership(&mut self, name: &ObjectName, base: &PodSpec) -> Membership {
        if !self.is_grouped_by_us(base) {
            return Membership::Named;
        }
        let old = self.pods.get_mut(name);
        let old = old.map(|old| std::mem::replace(&mut old.group, Membership::Unknown));
        match (old, &base.group) {
            (Some(Membership::Own { plan, published }), Some(group)) => {
                let is_written = self.groups.contains_key(&group_name(&plan));
                if *plan.name == **group && !is_written {
                    return Membership::Own { plan, published };
                }
                self.own_groups.remove(&group_name(&plan));
                Membership::Named
            }
            (_, Some(_)) => Membership::Named,
            (Some(old), None) => old,
            (None, None) => Membership::Unknown,
        }
    }

    /// The group is gone: pods that name it are grouped again.
    pub(super) fn group_anew(&mut self, group: &ObjectName) {
        let members = self.members.get(group).cloned().unwrap_or_default();
        for name in members {
            let Some(entry) = self.pods.get(&name) else { continue };
            if !matches!(entry.group, Membership::Named) || !self.is_grouped_by_us(&entry.base) {
                continue;
            }
            let order = Order::Group(Box::new(entry.view.clone()));
            self.orders.push(order);
            if let Some(entry) = self.pods.get_mut(&name) {
                entry.group = Membership::Asked;
            }
        }
    }

    pub(super) fn remove_pod(&mut self, name: &ObjectName) {
        self.lose_reservation(name);
        let Some(entry) = self.pods.remove(name) else { return };
        if let Some(group) = named_group(&entry.base)
            && let Some(members) = self.members.get_mut(&group)
        {
            members.remove(name);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        let had_failed = self.backoffs.has_failed_bind(name, &entry.base.uid);
        self.backoffs.clear(name);
        if let Some(group) = named_group(&entry.base).filter(|_| had_failed) {
            self.tell_group(&group);
        }
        self.in_flight.remove(name);
        self.evictions.forget(name);
        self.contested.forget(name);
        self.forget_object(ObjectKey::Pod(name.clone()));
        self.forget_object(ObjectKey::BindRequest(name.clone()));
        self.world.forget(name);
        if let Membership::Own { plan, .. } = entry.group {
            let group = group_name(&plan);
            self.own_groups.remove(&group);
            if !self.groups.contains_key(&group) {
                self.forget_object(ObjectKey::PodGroup(group));
            }
        }
    }

    fn is_grouped_by_us(&self, pod: &PodSpec) -> bool {
        let ended = matches!(pod.status, Status::Succeeded | Status::Failed);
        pod.role == PodRole::Workload && !ended && self.groups_in(&pod.name.namespace)
    }

    /// Finds the groups of all pods of which none is known.
    pub(super) fn group_all(&mut self) {
        let names: Vec<ObjectName> = self.pods.keys().cloned().collect();
        for name in names {
            self.find_group(&name);
        }
        let missing: Vec<ObjectName> = self
            .members
            .keys()
            .filter(|group| !self.groups.contains_key(*group))
            .cloned()
            .collect();
        for group in missing {
            self.group_anew(&group);
        }
    }

    pub(super) fn find_group(&mut self, name: &ObjectName) {
        let Some(config) = &self.settings.grouper else { return };
        let Some(entry) = self.pods.get_mut(name) else { return };
        if !matches!(entry.group, Membership::Unknown) {
            return;
        }
        let view = &entry.view;
        let alone = view.metadata.owner_references.is_empty();
        let decision = alone.then(|| group_pod(view, &[], &self.facts, config));
        match decision {
            Some(Ok(Decision::Group(plan))) if plan.is_own_group_of(view) => {
                self.set_own_group(name, plan);
            }
            Some(Ok(Decision::Skip(_))) => entry.group = Membership::Named,
            _ => {
                self.orders.push(Order::Group(Box::new(view.clone())));
                entry.group = Membership::Asked;
            }
        }
    }

    /// Takes over what the grouper found.
    pub(super) fn set_grouping(&mut self, grouped: Grouped) {
        let name = grouped.pod;
        let Some(entry) = self.pods.get_mut(&name) else { return };
        if *entry.base.uid != *grouped.uid {
            return;
        }
        // The link itself may have been seen before this word of it.
        let asked = matches!(entry.group, Membership::Asked);
        match grouped.grouping {
            Grouping::Linked(notices) => {
                self.statuses.note_grouping(&name, &grouped.uid, &notices);
            }
            Grouping::Own(_) | Grouping::LeftAlone | Grouping::Postponed if !asked => {}
            Grouping::Own(plan) => self.set_own_group(&name, plan),
            Grouping::LeftAlone => entry.group = Membership::Named,
            Grouping::Postponed => entry.group = Membership::Unknown,
        }
    }

    fn set_own_group(&mut self, name: &ObjectName, plan: Box<PodGroupPlan>) {
        for notice in &plan.notices {
            tracing::info!(pod = %name, %notice, "about its group");
        }
        let writes = self.groups_pods();
        let published = self.settings.publish == Publish::Always && writes;
        let Some(entry) = self.pods.get_mut(name) else { return };
        if writes && entry.base.node.is_none() {
            let notices = for_its_author(&plan);
            self.statuses.note_grouping(name, &entry.base.uid, &notices);
        }
        if published {
            self.orders.push(Order::Publish(Box::new(entry.view.clone()), plan.clone()));
        }
        self.own_groups.insert(group_name(&plan), name.clone());
        entry.group = Membership::Own { plan, published };
        self.tell_own_group(name);
        self.refresh_pod(name);
    }

    /// A plan decided to bind the pod that is this group, or to start it anew.
    pub(super) fn mark_own_start(&mut self, group: &ObjectName, now: Timestamp) {
        let Some(name) = self.own_groups.get(group).cloned() else { return };
        if let Some(entry) = self.pods.get_mut(&name) {
            entry.started = Some(now);
            self.tell_own_group(&name);
        }
    }

    /// Tells the world of the group that a pod is, unless there is an object of it.
    pub(super) fn tell_own_group(&mut self, name: &ObjectName) {
        let Some(entry) = self.pods.get(name) else { return };
        let Membership::Own { plan, .. } = &entry.group else { return };
        if self.groups.contains_key(&group_name(plan)) {
            let group = group_name(plan);
            self.tell_group(&group);
            return;
        }
        let mut group = planned_group(plan);
        let labels = group.metadata.labels.clone().unwrap_or_default();
        if !self.settings.partition.holds(&labels) {
            return;
        }
        group.metadata.uid = Some(entry.base.uid.to_string());
        let created = entry.view.metadata.creation_timestamp.as_deref();
        group.metadata.creation_timestamp = created.and_then(|text| text.parse().ok()).map(Time);
        let translated = pod_group::translate(&group, &self.classes, &self.settings.partition);
        let started = entry.started();
        if let Some(mut spec) = Self::heard(translated) {
            spec.last_start = started;
            let class = group.spec.priority_class_name.as_deref();
            spec.denied = self.queue_denial(&spec.name, &spec.queue, class);
            self.tell(Delta::Set(Object::PodGroup(Box::new(spec))));
        }
    }

    /// Tells the world of a pod as it is to be planned with.
    pub(super) fn refresh_pod(&mut self, name: &ObjectName) {
        let Some(entry) = self.pods.get(name) else { return };
        let mut spec = entry.base.clone();
        self.merge_twins(&mut spec);
        if let Membership::Own { plan, .. } = &entry.group {
            spec.group = Some(plan.name.as_str().into());
            spec.sub_group = plan.pod_sub_group.as_deref().map(Text::from);
        }
        if entry.nominated.is_some() {
            spec.nominated_node.clone_from(&entry.nominated);
        }
        let uid = &entry.base.uid;
        spec.backoff = Backoff {
            retry_after: self.retry_after(name, uid),
            protected_until: self.backoffs.until(name, uid, Wait::Eviction),
        };
        if spec.node.is_none() {
            spec.constraints.avoided_nodes = self.backoffs.avoided(name, uid);
        }
        self.tell(Delta::Set(Object::Pod(Box::new(spec))));
    }

    /// When the pod may be bound again; none: now.
    fn retry_after(&self, pod: &ObjectName, uid: &Text) -> Option<RetryAfter> {
        if self.failed_requests.contains_key(pod) {
            return Some(RetryAfter::Cleanup);
        }
        let until = self.backoffs.until(pod, uid, Wait::Bind);
        until.filter(|_| !self.is_being_bound(pod)).map(RetryAfter::Moment)
    }
}

impl Planner {
    /// The group of the pod is to be published as an object and is not one yet, or the pod does not name it yet. Such a pod is planned
    /// with all others, and bound by the first plan after both are observed.
    pub(super) fn awaits_its_group_object(&self, pod: &ObjectName) -> bool {
        self.settings.publish == Publish::Always
            && self.pods.get(pod).is_some_and(|entry| matches!(entry.group, Membership::Own { .. }))
    }

    /// The object of a group that a pod is was observed after the pod's annotation: from now on the pod belongs to it.
    pub(super) fn join_own_group(&mut self, group: &ObjectName) {
        let Some(name) = self.own_groups.get(group).cloned() else { return };
        let Some(entry) = self.pods.get_mut(&name) else { return };
        if named_group(&entry.base).as_ref() == Some(group) {
            entry.group = Membership::Named;
            self.own_groups.remove(group);
            self.refresh_pod(&name);
        }
    }

    /// A bind request of the pod is there that has not failed.
    pub(super) fn is_being_bound(&self, pod: &ObjectName) -> bool {
        self.bind_requests.contains_key(pod) && !self.failed_requests.contains_key(pod)
    }
}

/// The group that a pod names.
pub(super) fn named_group(pod: &PodSpec) -> Option<ObjectName> {
    let name = pod.group.clone()?;
    Some(ObjectName { namespace: pod.name.namespace.clone(), name })
}

/// The name of a group that is to be.
pub(super) fn group_name(plan: &PodGroupPlan) -> ObjectName {
    ObjectName::new(plan.namespace.as_str(), plan.name.as_str())
}
