//! Observed pods and decisions of the grouper into the parts and the world.

use std::sync::Arc;

use kai_client::kinds::Kind;
use kai_core::input::pod::{Backoff, PodRole};
use kai_core::input::{Delta, Object, ObjectKey, ObjectName};
use kai_core::time::Timestamp;
use kai_translate::{pod, view};
use kai_workloads::PodGroupPlan;

use super::gangs::Gangs;
use super::node_gpus::ChangedReservations;
use super::own_group::GroupParts;
use super::pod_entry::{Membership, requests_amd_gpus};
use super::workloads::{FoundGroup, Publication};
use super::{Planner, Publish, Wait, log_problems};
use crate::grouper::{Grouped, Grouping, for_its_author};
use crate::orders::Order;
use crate::status::problems::summary;

impl Planner {
    pub(super) fn set_pod(&mut self, view: &view::Pod) {
        let name = pod::name(view);
        let translated = pod::translate(view, &self.settings.rules);
        if self.settings.rules.role(view) == PodRole::Workload
            && self.settings.partition.holds(&view.metadata.labels)
        {
            let problem = summary(&translated.problems);
            self.statuses.set_problem(Kind::Pod, &name, &view.metadata.uid, problem);
        }
        let Some(mut base) = log_problems(translated) else {
            self.remove_pod(&name);
            return;
        };
        if !self.workloads.is_current(&name, &base.uid) {
            self.remove_pod(&name);
        }
        self.workloads.share_parts(&mut base);
        let name = base.name.clone();
        self.observe_contest(&base);
        let awaited_its_group = self.awaits_its_group_object(&name);
        let was_dirty = self.world.is_dirty();
        let confirmed = self.confirms_eviction(&base).then(|| base.clone());
        self.set_reservation(view);
        let is_ours = self.namespaces.groups_pod(&base, self.settings.grouper.as_ref());
        let group = self.workloads.membership(&base, is_ours);
        if base.node.is_some() {
            self.clear_failed_binds(&name);
            self.binds.end(&name);
            self.nominations.remove(&name);
        }
        let entry = self.workloads.observed_entry(view, base, group);
        let named = entry.named_group();
        if self.workloads.set_pod(&name, entry) {
            match named {
                Some(group) => self.apply_group(&group),
                None => self.apply_own_group(&name),
            }
        }
        self.statuses.accounts_mut().set_vendor(&name, requests_amd_gpus(view));
        // A pod whose group is found once everything is listed is applied then, with its group.
        if self.is_ready() || !self.workloads.is_undecided(&name) {
            self.refresh_pod(&name);
        }
        if awaited_its_group && !self.awaits_its_group_object(&name) {
            self.world.require_plan(); // nothing else changed for it, and its bind was withheld
        }
        self.finish_local_bind(&name);
        self.apply_bind_request(&name);
        if self.is_ready() {
            self.find_group(&name);
        }
        if let Some(pod) = confirmed {
            self.confirm_eviction(&pod, was_dirty);
        }
    }

    pub(super) fn remove_pod(&mut self, name: &ObjectName) {
        let changed = self.devices.gpus.remove_reservation(name);
        self.apply_reservations(changed);
        let Some(entry) = self.workloads.remove_pod(name) else { return };
        let had_failed = self.backoffs.has_failed_bind(name, &entry.base.uid);
        self.backoffs.clear(name);
        if let Some(group) = entry.named_group().filter(|_| had_failed) {
            self.apply_group(&group);
        }
        self.binds.end(name);
        self.withdraw_local_bind(name);
        self.nominations.remove(name);
        self.evictions.forget(name);
        self.forget_object(ObjectKey::Pod(name.clone()));
        self.forget_object(ObjectKey::BindRequest(name.clone()));
        self.world.forget(name);
        if let Membership::Own(own) = entry.group
            && self.workloads.group(&own.name).is_none()
        {
            self.forget_object(ObjectKey::PodGroup(own.name));
        }
    }

    fn set_reservation(&mut self, pod: &view::Pod) {
        if self.settings.rules.role(pod) == PodRole::Reservation {
            let changed = self.devices.gpus.set_reservation(pod);
            self.apply_reservations(changed);
        }
    }

    fn apply_reservations(&mut self, changed: Option<ChangedReservations>) {
        let Some(ChangedReservations { node, moves_pods }) = changed else { return };
        self.apply_node(&node);
        if !moves_pods {
            return;
        }
        let sharing = self.workloads.pods().filter(|(_, entry)| {
            entry.base.node.as_ref() == Some(&node) && !entry.base.gpu_groups.is_empty()
        });
        let mut names: Vec<ObjectName> = sharing.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        for name in names {
            self.refresh_pod(&name);
        }
    }

    /// Groups the pods that name a group without an object.
    pub(super) fn regroup(&mut self, group: &ObjectName) {
        let (namespaces, config) = (&self.namespaces, self.settings.grouper.as_ref());
        let views = self.workloads.regroup(group, |pod| namespaces.groups_pod(pod, config));
        self.orders.extend(views.into_iter().map(|view| Order::Group(Box::new(view))));
    }

    /// Finds the groups of all pods of which none is known.
    pub(super) fn group_all(&mut self) {
        for name in self.workloads.pod_names() {
            if self.workloads.is_undecided(&name) {
                self.find_group(&name);
                if !self.workloads.is_own_group(&name) {
                    self.refresh_pod(&name);
                }
            }
        }
        for group in self.workloads.missing_groups() {
            self.regroup(&group);
        }
    }

    pub(super) fn find_group(&mut self, name: &ObjectName) {
        let Some(config) = &self.settings.grouper else { return };
        match self.workloads.find_group(name, config) {
            FoundGroup::Own(plan) => self.set_own_group(name, &plan),
            FoundGroup::OwnOfTemplate(parts) => self.begin_own_group(name, parts),
            FoundGroup::Request(view) => self.orders.push(Order::Group(view)),
            FoundGroup::Nothing => {}
        }
    }

    /// Takes over what the grouper found.
    pub(super) fn set_grouping(&mut self, grouped: Grouped) {
        let name = grouped.pod;
        if !self.workloads.is_current(&name, &grouped.uid) {
            return;
        }
        // The link itself may have been observed before this report of it.
        let is_requested = self.workloads.is_requested(&name);
        match grouped.grouping {
            Grouping::Linked(notices) => {
                self.statuses.note_grouping(&name, &grouped.uid, &notices);
            }
            Grouping::Own(_) | Grouping::LeftAlone | Grouping::Postponed if !is_requested => {}
            Grouping::Own(plan) => self.set_own_group(&name, &plan),
            Grouping::LeftAlone => self.workloads.set_membership(&name, Membership::Named),
            Grouping::Postponed => self.workloads.set_membership(&name, Membership::Unknown),
        }
    }

    fn set_own_group(&mut self, name: &ObjectName, plan: &PodGroupPlan) {
        for notice in &plan.notices {
            tracing::info!(pod = %name, %notice, "about its group");
        }
        if let Some(entry) = self.workloads.pod(name).filter(|_| self.settings.groups_pods())
            && entry.base.node.is_none()
        {
            let notices = for_its_author(plan);
            self.statuses.note_grouping(name, &entry.base.uid, &notices);
        }
        if let Some(parts) = self.workloads.group_parts(name, plan) {
            self.begin_own_group(name, parts);
        }
    }

    /// The pod is its own group from now on.
    fn begin_own_group(&mut self, name: &ObjectName, parts: Arc<GroupParts>) {
        let is_published = self.settings.publish == Publish::Always && self.settings.groups_pods();
        let publication = self.workloads.set_own_group(name, parts, is_published);
        self.orders.extend(publication.map(publish));
        self.apply_own_group(name);
        self.refresh_pod(name);
    }

    /// Applies the group that a pod is to the world, or the object of it.
    pub(super) fn apply_own_group(&mut self, pod: &ObjectName) {
        let Some(group) = self.workloads.own_group(pod).map(|own| own.name.clone()) else { return };
        if self.workloads.group(&group).is_some() {
            self.apply_group(&group);
            return;
        }
        let Some(mut spec) = self.workloads.own_group_spec(pod, &self.settings.partition) else {
            return;
        };
        let class = self.workloads.class_of(&group);
        spec.denied = self.namespaces.denial(&group, &spec.queue, class);
        self.apply_delta(Delta::Set(Object::PodGroup(Box::new(spec))));
    }

    /// Applies a group that is an object to the world.
    pub(super) fn apply_group(&mut self, name: &ObjectName) {
        let translated = self.workloads.translate_group(name, &self.settings.partition);
        let Some(translated) = translated else { return };
        let uid = self.workloads.group(name).and_then(|group| group.metadata.uid.clone());
        let spec = self.valid_part(Kind::PodGroup, name, uid.as_deref(), translated);
        let Some(mut spec) = spec else { return };
        let class = self.workloads.class_of(name);
        spec.denied = self.namespaces.denial(name, &spec.queue, class);
        spec.half_bound = self.gangs().has_failed_binds(name);
        self.apply_delta(Delta::Set(Object::PodGroup(Box::new(spec))));
    }

    /// Applies every group to the world again.
    pub(super) fn apply_all_groups(&mut self) {
        let groups: Vec<ObjectName> = self.workloads.groups().keys().cloned().collect();
        for group in groups {
            self.apply_group(&group);
        }
        for pod in self.workloads.pod_names() {
            self.apply_own_group(&pod);
        }
    }

    /// Applies the group that a pod names to the world.
    pub(super) fn apply_group_of(&mut self, pod: &ObjectName) {
        if let Some(group) = self.workloads.named_group_of(pod) {
            self.apply_group(&group);
        }
    }

    pub(super) fn gangs(&self) -> Gangs<'_> {
        Gangs { workloads: &self.workloads, binds: &self.binds, backoffs: &self.backoffs }
    }

    /// The pod is bound: failures before do not count.
    pub(super) fn clear_failed_binds(&mut self, pod: &ObjectName) {
        let entry = self.workloads.pod(pod);
        let had_failed =
            entry.is_some_and(|entry| self.backoffs.has_failed_bind(pod, &entry.base.uid));
        self.backoffs.clear_bind(pod);
        if had_failed {
            self.apply_group_of(pod);
        }
    }

    /// Applies a pod to the world as it is to be planned with.
    pub(super) fn refresh_pod(&mut self, name: &ObjectName) {
        let Some(entry) = self.workloads.pod(name) else { return };
        let mut spec = entry.base.clone();
        if let Some(node) = &spec.node {
            spec.gpu_groups = self.devices.gpus.merged_groups(node, &spec.gpu_groups);
        }
        if let Some(own) = self.workloads.own_group(name) {
            spec.group = Some(own.name.name.clone());
            spec.sub_group.clone_from(&own.parts.sub_group);
        }
        if let Some(node) = self.nominations.node_of(name) {
            spec.nominated_node = Some(node.clone());
        }
        let uid = &entry.base.uid;
        spec.backoff = Backoff {
            retry_after: self.binds.retry_after(name, self.backoffs.until(name, uid, Wait::Bind)),
            protected_until: self.backoffs.until(name, uid, Wait::Eviction),
        };
        if spec.node.is_none() {
            let avoided = self.backoffs.avoided(name, uid);
            if !avoided.is_empty() {
                Arc::make_mut(&mut spec.constraints).avoided_nodes = avoided;
            }
        }
        self.apply_delta(Delta::Set(Object::Pod(Box::new(spec))));
    }

    /// Orders objects of groups of single pods that were not ordered while another process grouped.
    pub(super) fn begin_grouping(&mut self) {
        self.group_all();
        if self.settings.publish == Publish::Always {
            let unpublished = self.workloads.take_unpublished();
            self.orders.extend(unpublished.into_iter().map(publish));
        }
    }

    /// A plan decided to bind the pod that is this group, or to start it again.
    pub(super) fn start_own_group(&mut self, group: &ObjectName, now: Timestamp) {
        if let Some(pod) = self.workloads.start_own_group(group, now) {
            self.apply_own_group(&pod);
        }
    }
}

/// The order that writes the object of a group.
pub(super) fn publish(publication: Publication) -> Order {
    Order::Publish(publication.view, publication.plan)
}
