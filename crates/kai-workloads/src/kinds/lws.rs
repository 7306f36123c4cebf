//! `LeaderWorkerSet`: one group per leader and its workers, with parts for both, or segments of workers that belong close
//! together.
//!
//! A set that starts its workers only when the leader is ready cannot wait for them: until the leader has a node, the group
//! needs the leader only.

use kai_api::names::objects::TRAIN;
use kai_api::names::{third_party, workload};
use kai_api::pod_group::TopologyConstraint;
use kai_api::view::Pod;
use serde_json::Value;

use crate::base::{Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::PodQuery;
use crate::object::{Object, annotation_path, label_path, pod_error, template_annotation};
use crate::plan::{Minimum, PodGroupPlan, SubGroupPlan};
use crate::topology;

use super::pytorch::MOST_SEGMENTS;

const LEADER: &str = "leader";
const WORKERS: &str = "workers";
const SIZE: &str = "spec.leaderWorkerTemplate.size";
const SEGMENT_SIZE: &str = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize";
const SEGMENT_POLICY: &str = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType";
const WORKER_TEMPLATE: &str = "spec.leaderWorkerTemplate.workerTemplate";

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let set = case.top();
    let mut plan = workload_plan(case, set, TRAIN);
    if let Some(group) = group_index(case.pod) {
        plan.name = format!("{}-group-{group}", plan.name);
    }
    let index = worker_index(case.pod)?;
    let size = group_size(case)?;
    let leader_only = leader_only(case)?;
    plan.minimum = Minimum::Members(if leader_only { 1 } else { size });
    match segmentation(set, size)? {
        None => {
            plan.sub_groups.push(SubGroupPlan::leaf(LEADER, 1));
            if size > 1 {
                let workers = if leader_only { 0 } else { size - 1 };
                plan.sub_groups.push(SubGroupPlan::leaf(WORKERS, workers));
            }
            let part = if index == Some(0) { LEADER } else { WORKERS };
            let exists = plan.sub_groups.iter().any(|group| group.name == part);
            plan.pod_sub_group = exists.then(|| part.to_owned());
        }
        Some(segments) => {
            let index = index.ok_or_else(|| {
                pod_error(case.pod, &label_path(third_party::LWS_WORKER_INDEX), "is missing")
            })?;
            let topology = segment_topology(case);
            plan.sub_groups = segments.sub_groups(topology.as_ref(), leader_only);
            plan.pod_sub_group = Some(segments.part_of(index));
        }
    }
    Ok(plan)
}

fn group_index(pod: &Pod) -> Option<i64> {
    pod.label(third_party::LWS_GROUP_INDEX)?.parse().ok()
}

/// The size of a group; a set that waits for its leaders also writes it on each pod.
fn group_size(case: &Case<'_>) -> Result<i32, GroupingError> {
    let set = case.top();
    let size = set.integer(SIZE)?.ok_or_else(|| set.error(SIZE, "is missing"))?;
    let size = i32::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| set.error(SIZE, format!("{size} is not greater than 0")))?;
    let size_on_pod = case.pod.annotation(third_party::LWS_SIZE).and_then(|text| text.parse().ok());
    let size_on_pod =
        size_on_pod.filter(|size: &i32| *size > 0 && waits_for_leader(set).unwrap_or(false));
    Ok(size_on_pod.unwrap_or(size))
}

fn waits_for_leader(set: Object<'_>) -> Result<bool, GroupingError> {
    let path = "spec.startupPolicy";
    match set.string(path)?.unwrap_or("LeaderCreated") {
        "LeaderCreated" => Ok(false),
        "LeaderReady" => Ok(true),
        other => Err(set.error(path, format!("unknown startupPolicy: {other}"))),
    }
}

/// Is the leader all that the group can have now?
fn leader_only(case: &Case<'_>) -> Result<bool, Stop> {
    let set = case.top();
    if !waits_for_leader(set)? {
        return Ok(false);
    }
    if worker_index(case.pod)? == Some(0) {
        return Ok(!case.pod.is_placed());
    }
    let Some(group) = case.pod.label(third_party::LWS_GROUP_INDEX) else { return Ok(false) };
    let query = PodQuery::new(
        case.namespace(),
        [
            (third_party::LWS_NAME, set.name()),
            (third_party::LWS_GROUP_INDEX, group),
            (third_party::LWS_WORKER_INDEX, "0"),
        ],
    );
    let leaders = case.facts.pods(&query)?;
    let mut living = leaders.iter().filter(|leader| !leader.metadata.is_terminating());
    Ok(living.next().is_some_and(|leader| !leader.is_placed()))
}

fn worker_index(pod: &Pod) -> Result<Option<i32>, GroupingError> {
    let key = third_party::LWS_WORKER_INDEX;
    let Some(text) = pod.label(key) else { return Ok(None) };
    let index: i32 = text
        .parse()
        .map_err(|_| pod_error(pod, &label_path(key), format!("{text:?} is no index")))?;
    if index < 0 {
        let problem = format!("workerIndex {index} is not valid. It must be bigger than 0");
        return Err(pod_error(pod, &label_path(key), problem));
    }
    Ok(Some(index))
}

/// How a group of `size` pods is cut into segments of `length` workers.
struct Segmentation {
    size: i32,
    length: i32,
    leader_excluded: bool,
}

impl Segmentation {
    /// Do the workers alone fill whole segments, so that the leader is an extra pod?
    const fn workers_fill(&self) -> bool {
        (self.size - 1) % self.length == 0
    }

    const fn segment(&self, index: i32) -> i32 {
        match index {
            0 => 0,
            index if self.workers_fill() => (index - 1) / self.length,
            index => index / self.length,
        }
    }

    const fn count(&self) -> i32 {
        self.segment(self.size - 1) + 1
    }

    /// The pods of a segment; the leader is one of them where it is no extra pod.
    const fn members(&self, segment: i32) -> i32 {
        if self.workers_fill() || segment + 1 < self.count() {
            return self.length;
        }
        self.size - segment * self.length
    }

    fn sub_groups(
        &self,
        topology: Option<&TopologyConstraint>,
        leader_only: bool,
    ) -> Vec<SubGroupPlan> {
        let needed = |members| if leader_only { 0 } else { members };
        let mut groups: Vec<SubGroupPlan> = (0..self.count())
            .map(|index| {
                SubGroupPlan::leaf(segment_name(index), needed(self.members(index)))
                    .placed(topology.cloned())
            })
            .collect();
        if self.leader_excluded {
            groups.insert(0, SubGroupPlan::leaf(LEADER, 1));
            return groups;
        }
        let first = &mut groups[0];
        first.minimum = Minimum::SubGroups(2);
        let parent = first.name.clone();
        let workers = self.members(0) - i32::from(!self.workers_fill());
        groups.push(SubGroupPlan::leaf(LEADER, 1).under(&parent));
        groups.push(SubGroupPlan::leaf(WORKERS, needed(workers)).under(&parent));
        groups
    }

    fn part_of(&self, index: i32) -> String {
        match (index, self.segment(index)) {
            (0, _) => LEADER.to_owned(),
            (_, 0) if !self.leader_excluded => WORKERS.to_owned(),
            (_, segment) => segment_name(segment),
        }
    }
}

fn segment_name(index: i32) -> String {
    format!("segment-{index}")
}

fn segmentation(set: Object<'_>, size: i32) -> Result<Option<Segmentation>, GroupingError> {
    let Some((path, length)) = segment_length(set)? else { return Ok(None) };
    if length <= 1 {
        let problem = format!("segmentSize {length} is not valid. It must be greater than 1");
        return Err(set.error(path, problem));
    }
    if length > i64::from(size) {
        let problem = format!("segmentSize {length} is greater than the size of a group, {size}");
        return Err(set.error(path, problem));
    }
    let policy = set.string(SEGMENT_POLICY)?.unwrap_or("LeaderWorker");
    let leader_excluded = match policy {
        "LeaderWorker" => false,
        "LeaderExcluded" => true,
        other => return Err(set.error(SEGMENT_POLICY, format!("unknown policy: {other}"))),
    };
    let segments = Segmentation { size, length: length as i32, leader_excluded };
    if leader_excluded && !segments.workers_fill() {
        let problem = format!("{} workers do not fill segments of {length}", size - 1);
        return Err(set.error(path, problem));
    }
    if segments.count() > MOST_SEGMENTS {
        let problem = format!("{} segments; at most {MOST_SEGMENTS} are allowed", segments.count());
        return Err(set.error(path, problem));
    }
    Ok(Some(segments))
}

/// From the set's own policy, else from its annotation, else from the annotation of its workers' template.
fn segment_length(set: Object<'_>) -> Result<Option<(String, i64)>, GroupingError> {
    if let Some(length) = set.integer(SEGMENT_SIZE)? {
        return Ok(Some((SEGMENT_SIZE.to_owned(), length)));
    }
    let key = workload::SEGMENT_SIZE;
    let template = set.field(WORKER_TEMPLATE).unwrap_or(&Value::Null);
    let own = set.annotation(key).map(|text| (annotation_path(key), text));
    let of_template = || {
        let text = template_annotation(template, key)?;
        Some((format!("{WORKER_TEMPLATE}.{}", annotation_path(key)), text))
    };
    let Some((path, text)) = own.or_else(of_template) else { return Ok(None) };
    match text.parse() {
        Ok(length) => Ok(Some((path, length))),
        Err(_) => Err(set.error(path, format!("segment size {text:?} is not an integer"))),
    }
}

fn segment_topology(case: &Case<'_>) -> Option<TopologyConstraint> {
    let template = case.top.pointer("/spec/leaderWorkerTemplate/workerTemplate")?;
    topology::segment(case.pod, template, case.top())
}
