//! Pods, pod groups, and which pod belongs to which group. A pod that is its own group needs no object: its group is planned
//! from the rules of grouping alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_api::PodGroup;
use kai_api::names::workload;
use kai_api::view::Pod as GroupingView;
use kai_core::input::{ObjectName, PodGroupSpec, PodSpec};
use kai_core::keyed_hash::KeyedMap;
use kai_core::time::{Span, Timestamp};
use kai_translate::partition::Partition;
use kai_translate::priority::PriorityClasses;
use kai_translate::view::PriorityClass;
use kai_translate::{Translated, pod_group, view};
use kai_workloads::{Decision, Facts, GrouperConfig, PodGroupPlan, group_pod};

use super::own_group::{GroupParts, OwnGroup};
use super::pod_entry::{Membership, PodEntry, named_group};
use super::shared_parts::SharedParts;
use crate::name_set::NameSet;
use crate::status::Groups;

/// Templates of pods that are their own group; with more of them, all are planned anew.
const MOST_TEMPLATES: usize = 1024;

/// Annotations of a pod group that a plan sets, or removes where there is no value.
pub(super) type Marks = BTreeMap<&'static str, Option<String>>;

/// All pods and pod groups.
#[derive(Default)]
pub(super) struct Workloads {
    /// A table, because each event of a pod looks it up several times. What depends on an order sorts by name.
    pods: KeyedMap<ObjectName, Box<PodEntry>>,
    groups: Groups,
    /// Pods that are their own group, by group.
    own_groups: KeyedMap<ObjectName, ObjectName>,
    /// Parts of the groups of pods that are their own group, by what the rules of grouping read of such a pod.
    own_parts: KeyedMap<Arc<GroupingView>, Arc<GroupParts>>,
    /// Pods by the group they name.
    members: BTreeMap<ObjectName, NameSet>,
    classes: PriorityClasses,
    facts: Facts,
    shared: SharedParts,
}

/// A group that is to become an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Publication {
    pub(super) view: Box<kai_api::view::Pod>,
    pub(super) plan: Box<PodGroupPlan>,
}

/// What the rules say about the group of a pod, without regard to other objects.
#[derive(Debug)]
pub(super) enum FoundGroup {
    /// The pod is its own group.
    Own(Box<PodGroupPlan>),
    /// The pod is its own group, as other pods of its template are theirs.
    OwnOfTemplate(Arc<GroupParts>),
    /// The grouper has to read the pod's owners.
    Request(Box<kai_api::view::Pod>),
    /// The pod is not grouped, or its group is known.
    Nothing,
}

/// When the group of a pod that waits becomes an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PublishDue {
    Now(Publication),
    At(Timestamp),
    /// It is no group of its own, or its object was ordered.
    Never,
}

impl Workloads {
    pub(super) fn pod(&self, name: &ObjectName) -> Option<&PodEntry> {
        self.pods.get(name).map(|entry| &**entry)
    }

    /// Pods in no order that may reach a result.
    pub(super) fn pods(&self) -> impl Iterator<Item = (&ObjectName, &PodEntry)> {
        self.pods.iter().map(|(name, entry)| (name, &**entry))
    }

    /// Names of all pods, in their order.
    pub(super) fn pod_names(&self) -> Vec<ObjectName> {
        let mut names: Vec<ObjectName> = self.pods.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The pod is the one of this UID.
    pub(super) fn is_current(&self, pod: &ObjectName, uid: &str) -> bool {
        self.pods.get(pod).is_some_and(|entry| *entry.base.uid == *uid)
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// For statuses, which record what they wrote.
    pub(super) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    pub(super) fn group(&self, name: &ObjectName) -> Option<&PodGroup> {
        self.groups.get(name)
    }

    /// Lets a pod that was observed share what other pods have too.
    pub(super) fn share_parts(&mut self, pod: &mut PodSpec) {
        let known = self.pods.get(&pod.name).map(|entry| &entry.base);
        self.shared.share(pod, known.filter(|known| known.uid == pod.uid));
    }

    /// A pod as observed, with the group that it belongs to.
    pub(super) fn observed_entry(
        &mut self,
        view: &view::Pod,
        base: PodSpec,
        group: Membership,
    ) -> PodEntry {
        let decided = self.pods.get(&base.name).and_then(|entry| entry.started);
        PodEntry::observed(view, base, group, decided, &mut self.shared)
    }

    /// Takes a pod over. True when its group looks otherwise with it: it started, or it is the whole group.
    pub(super) fn set_pod(&mut self, name: &ObjectName, entry: PodEntry) -> bool {
        let group = entry.named_group();
        let before = self.pods.get(name).and_then(|entry| entry.started);
        let is_started = entry.started != before;
        let is_new = group.as_ref().is_some_and(|group| {
            self.members.entry(group.clone()).or_default().insert(name.clone())
        });
        self.pods.insert(name.clone(), Box::new(entry));
        let object = group.as_ref().filter(|_| is_new).and_then(|group| self.groups.get(group));
        is_started || object.is_some_and(|object| self.pod_that_is(object).is_some())
    }

    /// A pod is gone.
    pub(super) fn remove_pod(&mut self, name: &ObjectName) -> Option<PodEntry> {
        let entry = *self.pods.remove(name)?;
        if let Some(group) = entry.named_group()
            && let Some(members) = self.members.get_mut(&group)
        {
            members.remove(name);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        if let Membership::Own(own) = &entry.group {
            self.own_groups.remove(&own.name);
        }
        Some(entry)
    }

    /// The membership of a pod that is observed again. Once found it stays, so that the pod is charged to one queue all its life.
    pub(super) fn membership(&mut self, pod: &PodSpec, is_grouped_by_us: bool) -> Membership {
        if !is_grouped_by_us {
            return Membership::Named;
        }
        let old = self.pods.get_mut(&pod.name);
        let old = old.map(|old| std::mem::replace(&mut old.group, Membership::Unknown));
        match (old, &pod.group) {
            (Some(Membership::Own(own)), Some(group)) => {
                let is_written = self.groups.contains_key(&own.name);
                if own.name.name == *group && !is_written {
                    return Membership::Own(own);
                }
                self.own_groups.remove(&own.name);
                Membership::Named
            }
            (_, Some(_)) => Membership::Named,
            (Some(old), None) => old,
            (None, None) => Membership::Unknown,
        }
    }

    /// Decides the group of a pod where the pod alone decides it.
    pub(super) fn find_group(&mut self, name: &ObjectName, config: &GrouperConfig) -> FoundGroup {
        let Some(entry) = self.pods.get_mut(name) else { return FoundGroup::Nothing };
        if !matches!(entry.group, Membership::Unknown) {
            return FoundGroup::Nothing;
        }
        if let Some(parts) = entry.template().and_then(|template| self.own_parts.get(template)) {
            debug_assert!(plans_the_same(entry, parts, &self.facts, config));
            return FoundGroup::OwnOfTemplate(Arc::clone(parts));
        }
        let Some(view) = entry.grouping_view() else { return FoundGroup::Nothing };
        let is_alone = view.metadata.owner_references.is_empty();
        match is_alone.then(|| group_pod(&view, &[], &self.facts, config)) {
            Some(Ok(Decision::Group(plan))) if plan.is_own_group_of(&view) => {
                self.remember_parts(name, &plan);
                FoundGroup::Own(plan)
            }
            Some(Ok(Decision::Skip(_))) => {
                entry.group = Membership::Named;
                FoundGroup::Nothing
            }
            _ => {
                entry.group = Membership::Requested;
                FoundGroup::Request(Box::new(view))
            }
        }
    }

    /// Notes the parts of a group for other pods of the template, where they are not those of the one pod.
    fn remember_parts(&mut self, name: &ObjectName, plan: &PodGroupPlan) {
        let Some(entry) = self.pods.get(name) else { return };
        let Some(template) = entry.template() else { return };
        // A pod that names a group is judged by that name.
        let names_group = template.annotation(workload::POD_GROUP_NAME).is_some()
            || template.spec.names_kubernetes_group();
        let parts = GroupParts::new(&entry.base, plan, &mut self.shared);
        if names_group || !parts.are_of_template() {
            return;
        }
        if self.own_parts.len() >= MOST_TEMPLATES {
            self.own_parts.clear();
        }
        self.own_parts.insert(Arc::clone(template), Arc::new(parts));
    }

    /// Parts of the group that the pod is.
    pub(super) fn group_parts(
        &mut self,
        name: &ObjectName,
        plan: &PodGroupPlan,
    ) -> Option<Arc<GroupParts>> {
        let entry = self.pods.get(name)?;
        Some(Arc::new(GroupParts::new(&entry.base, plan, &mut self.shared)))
    }

    /// The group of the pod is not decided yet.
    pub(super) fn is_undecided(&self, pod: &ObjectName) -> bool {
        self.pods.get(pod).is_some_and(|entry| matches!(entry.group, Membership::Unknown))
    }

    /// The grouper decides about the pod.
    pub(super) fn is_requested(&self, pod: &ObjectName) -> bool {
        self.pods.get(pod).is_some_and(|entry| matches!(entry.group, Membership::Requested))
    }

    /// The grouper decided: the pod belongs to the group it names or to none, or is decided about later.
    pub(super) fn set_membership(&mut self, pod: &ObjectName, group: Membership) {
        if let Some(entry) = self.pods.get_mut(pod) {
            entry.group = group;
        }
    }

    /// The pod is its own group. Returns the object to write, where that is wanted at once.
    pub(super) fn set_own_group(
        &mut self,
        name: &ObjectName,
        parts: Arc<GroupParts>,
        published: bool,
    ) -> Option<Publication> {
        let entry = self.pods.get_mut(name)?;
        let own = OwnGroup::new(&entry.base, parts, published);
        self.own_groups.insert(own.name.clone(), name.clone());
        entry.group = Membership::Own(own);
        if published { entry.publication() } else { None }
    }

    /// The pod that is its own group of this name.
    pub(super) fn own_pod(&self, group: &ObjectName) -> Option<&ObjectName> {
        self.own_groups.get(group)
    }

    /// The pod is its own group, or was until the object of it was observed.
    pub(super) fn is_own_group(&self, pod: &ObjectName) -> bool {
        self.pods.get(pod).is_some_and(|entry| matches!(entry.group, Membership::Own { .. }))
    }

    /// The group that a pod is.
    pub(super) fn own_group(&self, pod: &ObjectName) -> Option<&OwnGroup> {
        match &self.pods.get(pod)?.group {
            Membership::Own(own) => Some(own),
            _ => None,
        }
    }

    /// The object of a group that a pod is was observed after the pod's annotation: from now on the pod belongs to it.
    pub(super) fn join_own_group(&mut self, group: &ObjectName) -> Option<ObjectName> {
        let name = self.own_groups.get(group)?.clone();
        let entry = self.pods.get_mut(&name)?;
        if entry.named_group().as_ref() != Some(group) {
            return None;
        }
        entry.group = Membership::Named;
        self.own_groups.remove(group);
        Some(name)
    }

    /// A plan decided to bind the pod that is this group, or to start it again.
    pub(super) fn start_own_group(
        &mut self,
        group: &ObjectName,
        now: Timestamp,
    ) -> Option<ObjectName> {
        let name = self.own_groups.get(group)?.clone();
        self.pods.get_mut(&name)?.started = Some(now);
        Some(name)
    }

    /// Groups of single pods whose objects were not ordered yet; they count as ordered now.
    pub(super) fn take_unpublished(&mut self) -> Vec<Publication> {
        let names = self.pod_names().into_iter();
        names.filter_map(|name| self.pods.get_mut(&name)?.publish()).collect()
    }

    /// When the group of a waiting pod becomes an object, if it has waited as long as `patience`.
    pub(super) fn publish_after(
        &mut self,
        group: &ObjectName,
        patience: Span,
        now: Timestamp,
    ) -> PublishDue {
        let name = self.own_groups.get(group);
        let Some(entry) = name.and_then(|name| self.pods.get_mut(name)) else {
            return PublishDue::Never;
        };
        let due = entry.base.created.plus(patience);
        match &entry.group {
            Membership::Own(OwnGroup { published: false, .. }) if due > now => PublishDue::At(due),
            _ => entry.publish().map_or(PublishDue::Never, PublishDue::Now),
        }
    }

    /// Pods that name a group without an object and are to be grouped again; `is_ours` is whether we group a pod.
    pub(super) fn regroup(
        &mut self,
        group: &ObjectName,
        is_ours: impl Fn(&PodSpec) -> bool,
    ) -> Vec<kai_api::view::Pod> {
        let mut views = Vec::new();
        for name in self.members.get(group).into_iter().flat_map(NameSet::iter) {
            let Some(entry) = self.pods.get_mut(name) else { continue };
            if matches!(entry.group, Membership::Named) && is_ours(&entry.base) {
                entry.group = Membership::Requested;
                views.extend(entry.grouping_view());
            }
        }
        views
    }

    /// Groups that pods name and that are no objects.
    pub(super) fn missing_groups(&self) -> Vec<ObjectName> {
        let missing = self.members.keys().filter(|group| !self.groups.contains_key(*group));
        missing.cloned().collect()
    }

    /// Pods of a namespace that is grouped from now on and that name no group: they are decided about. Pods that were grouped
    /// once stay so.
    pub(super) fn select_namespace(&mut self, namespace: &str) -> Vec<ObjectName> {
        let pods = self.pods.iter_mut().filter(|(pod, _)| *pod.namespace == *namespace);
        let ungrouped = pods.filter(|(_, entry)| {
            matches!(entry.group, Membership::Named) && entry.base.group.is_none()
        });
        let mut selected: Vec<ObjectName> = ungrouped
            .map(|(pod, entry)| {
                entry.group = Membership::Unknown;
                pod.clone()
            })
            .collect();
        selected.sort_unstable();
        selected
    }

    pub(super) fn set_group(&mut self, name: ObjectName, group: PodGroup) {
        self.groups.insert(name, group);
    }

    pub(super) fn remove_group(&mut self, name: &ObjectName) {
        self.groups.remove(name);
    }

    /// Sets annotations of a group object. Returns those that it did not have; none where there is no object.
    pub(super) fn mark_group(&mut self, group: &ObjectName, mut marks: Marks) -> Option<Marks> {
        let annotations = self.groups.get_mut(group)?.metadata.annotations.get_or_insert_default();
        marks.retain(|key, value| annotations.get(*key) != value.as_ref());
        for (key, value) in &marks {
            match value {
                Some(value) => annotations.insert((*key).to_owned(), value.clone()),
                None => annotations.remove(*key),
            };
        }
        Some(marks)
    }

    /// A priority class was observed. True when priorities of groups may change.
    pub(super) fn set_class(&mut self, class: &PriorityClass) -> bool {
        let is_changed = self.classes.set(class);
        self.refresh_class_names(is_changed)
    }

    /// A priority class is gone. True when priorities of groups may change.
    pub(super) fn remove_class(&mut self, name: &str) -> bool {
        let is_changed = self.classes.remove(name);
        self.refresh_class_names(is_changed)
    }

    fn refresh_class_names(&mut self, is_changed: bool) -> bool {
        if is_changed {
            self.facts.priority_classes = self.classes.names().cloned().collect();
            self.own_parts.clear();
        }
        is_changed
    }

    pub(super) fn class_names(&self) -> Vec<String> {
        self.classes.names().cloned().collect()
    }

    fn entry(&self, name: &ObjectName) -> Option<(&ObjectName, &PodEntry)> {
        self.pods.get_key_value(name).map(|(name, entry)| (name, &**entry))
    }

    /// Pods that name the group.
    pub(super) fn members(
        &self,
        group: &ObjectName,
    ) -> impl Iterator<Item = (&ObjectName, &PodEntry)> {
        let names = self.members.get(group).into_iter().flat_map(NameSet::iter);
        names.filter_map(|name| self.entry(name))
    }

    /// Pods that name the group, or the pod that is the group.
    fn members_or_own(&self, group: &ObjectName) -> impl Iterator<Item = (&ObjectName, &PodEntry)> {
        let own = self.own_groups.get(group).and_then(|name| self.entry(name));
        self.members(group).chain(own)
    }

    /// A pod of the group still waits for a node.
    pub(super) fn is_pending(&self, group: &ObjectName) -> bool {
        self.members_or_own(group).any(|(_, entry)| entry.is_pending())
    }

    /// When the last member of a group started.
    fn latest_start(&self, group: &ObjectName) -> Option<Timestamp> {
        self.members_or_own(group).filter_map(|(_, entry)| entry.started).max()
    }

    /// The pod that is the whole group, where there is one. The object of such a group is written when the pod has waited
    /// for a while; its place in the line is that of the pod.
    fn pod_that_is(&self, group: &PodGroup) -> Option<&PodEntry> {
        let metadata = &group.metadata;
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == "Pod" && owner.api_version == "v1")?;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let pod = self.pods.get(&ObjectName::new(namespace, owner.name.as_str()))?;
        (*pod.base.uid == *owner.uid).then_some(&**pod)
    }

    /// A group that is an object, as the world has it; whether its queue denies it and whether it is half bound is not decided here.
    pub(super) fn translate_group(
        &self,
        name: &ObjectName,
        partition: &Partition,
    ) -> Option<Translated<PodGroupSpec>> {
        let group = self.groups.get(name)?;
        let waits_since = self.pod_that_is(group).map(|pod| pod.base.created);
        let translated = pod_group::translate(group, &self.classes, partition);
        Some(translated.map(|spec| PodGroupSpec {
            created: waits_since.map_or(spec.created, |since| since.min(spec.created)),
            // A group may be written after its pods were bound, without the mark of its start.
            last_start: spec.last_start.or_else(|| self.latest_start(name)),
            ..spec
        }))
    }

    /// The group that a pod is, as the world has it; none where the group is an object or of another partition.
    pub(super) fn own_group_spec(
        &self,
        pod: &ObjectName,
        partition: &Partition,
    ) -> Option<PodGroupSpec> {
        let entry = self.pods.get(pod)?;
        let own = self.own_group(pod)?;
        let traits = &*own.parts.traits;
        if self.groups.contains_key(&own.name) || !partition.holds(&traits.labels) {
            return None;
        }
        let class = Some(&*traits.priority_class).filter(|class| !class.is_empty());
        let priority = self.classes.value_of(class);
        Some(PodGroupSpec {
            name: own.name.clone(),
            uid: entry.base.uid.clone(),
            queue: traits.queue.clone(),
            priority,
            preemptibility: pod_group::preemptibility(traits.preemptibility.as_deref(), priority),
            created: entry.base.created,
            last_start: entry.started,
            last_eviction: None,
            stale_since: None,
            reclaim_delayed_since: None,
            staleness_grace: traits.staleness_grace,
            preemption_delay: traits.preemption_delay,
            never_preempts: self.classes.never_preempts(class),
            schedulable: true,
            denied: None,
            half_bound: false,
            tree: traits.tree.clone(),
        })
    }

    /// The priority class of a group, whether it is an object or a pod.
    pub(super) fn class_of(&self, group: &ObjectName) -> Option<&str> {
        if let Some(object) = self.groups.get(group) {
            return object.spec.priority_class_name.as_deref();
        }
        let own = self.own_group(self.own_groups.get(group)?)?;
        Some(&own.parts.traits.priority_class)
    }

    /// The object that a cycle is about when it tries this group: the pod that is the group, or else none.
    pub(super) fn named_group_of(&self, pod: &ObjectName) -> Option<ObjectName> {
        self.pods.get(pod).and_then(|entry| named_group(&entry.base))
    }
}

/// The rules plan the group of the pod with these parts.
fn plans_the_same(
    entry: &PodEntry,
    parts: &Arc<GroupParts>,
    facts: &Facts,
    config: &GrouperConfig,
) -> bool {
    let Some(view) = entry.grouping_view() else { return false };
    let Ok(Decision::Group(plan)) = group_pod(&view, &[], facts, config) else { return false };
    OwnGroup::new(&entry.base, Arc::clone(parts), false).plan(&entry.base) == Some(*plan)
}

impl PodEntry {
    /// The group that this pod is, unless its object was ordered; it counts as ordered now.
    fn publish(&mut self) -> Option<Publication> {
        let Membership::Own(own) = &mut self.group else { return None };
        if std::mem::replace(&mut own.published, true) {
            return None;
        }
        self.publication()
    }

    /// What the object of the group that this pod is says.
    fn publication(&self) -> Option<Publication> {
        let Membership::Own(own) = &self.group else { return None };
        Some(Publication {
            plan: Box::new(own.plan(&self.base)?),
            view: Box::new(self.grouping_view()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use kai_api::pod_group::PodGroupSpec as ApiSpec;
    use serde_json::{Value, json};

    use super::super::pod_entry::tests::{entry, pod};
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("a", name)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    fn member_of(group: &str) -> Value {
        json!({"metadata": {"annotations": {workload::POD_GROUP_NAME: group}}})
    }

    fn with_pod(pod_name: &str, extra: Value) -> Workloads {
        let mut workloads = Workloads::default();
        workloads.set_pod(&name(pod_name), entry(&pod(pod_name, extra)));
        workloads
    }

    /// One pod that is its own group, whose object was not ordered.
    fn own_group() -> (Workloads, ObjectName) {
        let extra = json!({"metadata": {"labels": {"kai.scheduler/queue": "team"}, "creationTimestamp": "1970-01-01T00:00:10Z"}});
        let mut workloads = with_pod("p", extra);
        workloads.set_membership(&name("p"), Membership::Unknown);
        let FoundGroup::Own(plan) = workloads.find_group(&name("p"), &GrouperConfig::default())
        else {
            panic!("a pod without owners is its own group");
        };
        let group = name(&plan.name);
        let parts = workloads.group_parts(&name("p"), &plan).expect("a pod");
        assert_eq!(workloads.set_own_group(&name("p"), parts, false), None);
        (workloads, group)
    }

    #[test]
    fn members_follow_the_group_that_pods_name() {
        let mut workloads = with_pod("p", member_of("g"));
        workloads.set_pod(&name("q"), entry(&pod("q", member_of("g"))));
        assert_eq!(workloads.members(&name("g")).count(), 2);
        assert!(workloads.is_pending(&name("g")));
        assert_eq!(workloads.missing_groups(), [name("g")]);
        let mut running = member_of("g");
        running["spec"] = json!({"nodeName": "n1"});
        workloads.set_pod(&name("p"), entry(&pod("p", running)));
        workloads.remove_pod(&name("q"));
        assert!(!workloads.is_pending(&name("g")));
        workloads.remove_pod(&name("p"));
        assert!(workloads.missing_groups().is_empty());
    }

    #[test]
    fn pods_of_a_lost_group_are_grouped_again_once() {
        let mut workloads = with_pod("p", member_of("g"));
        assert_eq!(workloads.regroup(&name("g"), |_| false).len(), 0, "another process groups it");
        assert_eq!(workloads.regroup(&name("g"), |_| true).len(), 1);
        assert!(workloads.is_requested(&name("p")));
        assert_eq!(workloads.regroup(&name("g"), |_| true).len(), 0);
    }

    #[test]
    fn own_group_is_planned_like_the_object_that_the_grouper_would_write() {
        let (mut workloads, group) = own_group();
        let partition = Partition::default();
        let planned = workloads.own_group_spec(&name("p"), &partition).expect("a group");
        let own = workloads.own_group(&name("p")).expect("a group");
        let plan = own.plan(&workloads.pod(&name("p")).expect("a pod").base).expect("a plan");
        let mut object = kai_workloads::write::planned_group(&plan);
        object.metadata.uid = Some("uid-p".to_owned());
        object.metadata.creation_timestamp =
            serde_json::from_value(json!("1970-01-01T00:00:10Z")).ok();
        workloads.set_group(group.clone(), object);
        let translated = workloads.translate_group(&group, &partition).expect("an object");
        assert_eq!(translated.object, Some(planned.clone()));
        assert_eq!((&*planned.queue, planned.created), ("team", at(10)));
        assert_eq!(workloads.own_group_spec(&name("p"), &partition), None, "the object counts");
    }

    #[test]
    fn pod_belongs_to_the_object_of_its_group_once_it_names_it() {
        let (mut workloads, group) = own_group();
        workloads.set_group(group.clone(), PodGroup::new(&group.name, ApiSpec::default()));
        assert_eq!(workloads.join_own_group(&group), None, "the pod does not name it yet");
        let view = pod("p", member_of(&group.name));
        let base = entry(&view).base;
        let membership = workloads.membership(&base, true);
        assert!(matches!(membership, Membership::Named));
        assert_eq!(workloads.own_pod(&group), None);
    }

    #[test]
    fn group_of_a_waiting_pod_becomes_an_object_once() {
        let (mut workloads, group) = own_group();
        let patience = Span { nanos: at(5).nanos };
        assert_eq!(workloads.publish_after(&group, patience, at(14)), PublishDue::At(at(15)));
        let due = workloads.publish_after(&group, patience, at(15));
        assert!(matches!(due, PublishDue::Now(_)));
        assert_eq!(workloads.publish_after(&group, patience, at(15)), PublishDue::Never);
        assert!(workloads.take_unpublished().is_empty());
    }

    #[test]
    fn only_new_marks_of_a_group_are_returned() {
        let mut workloads = Workloads::default();
        let marks = Marks::from([("key", Some("value".to_owned())), ("gone", None)]);
        assert_eq!(workloads.mark_group(&name("g"), marks.clone()), None, "there is no object");
        workloads.set_group(name("g"), PodGroup::new("g", ApiSpec::default()));
        let new = workloads.mark_group(&name("g"), marks.clone());
        assert_eq!(new, Some(Marks::from([("key", Some("value".to_owned()))])));
        assert_eq!(workloads.mark_group(&name("g"), marks), Some(Marks::new()));
    }

    #[test]
    fn a_newly_selected_namespace_groups_pods_without_a_group() {
        let mut workloads = with_pod("p", json!({}));
        workloads.set_pod(&name("q"), entry(&pod("q", member_of("g"))));
        assert_eq!(workloads.select_namespace("a"), [name("p")]);
        assert!(workloads.select_namespace("b").is_empty());
    }

    #[test]
    fn start_of_a_pod_changes_its_group() {
        let (mut workloads, group) = own_group();
        assert_eq!(workloads.start_own_group(&group, at(20)), Some(name("p")));
        let spec = workloads.own_group_spec(&name("p"), &Partition::default());
        assert_eq!(spec.and_then(|spec| spec.last_start), Some(at(20)));
        let started = json!({"status": {"startTime": "1970-01-01T00:00:30Z"}});
        assert!(workloads.set_pod(&name("p"), entry(&pod("p", started.clone()))));
        assert!(!workloads.set_pod(&name("p"), entry(&pod("p", started))), "nothing new");
    }
}
