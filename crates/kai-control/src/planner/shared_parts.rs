//! Parts of pods that many pods have, each kept once.

use std::sync::Arc;

use kai_api::view::Pod as GroupingView;
use kai_core::input::pod::PodConstraints;
use kai_core::input::selectors::Labels;
use kai_core::input::{PodSpec, Text};
use kai_workloads::PodGroupPlan;

use super::own_group::GroupTraits;
use super::packed::Packed;
use crate::pool::Pool;

/// The shared parts of all pods.
#[derive(Default)]
pub(super) struct SharedParts {
    texts: Pool<str>,
    labels: Pool<Labels>,
    constraints: Pool<PodConstraints>,
    traits: Pool<GroupTraits>,
    views: Pool<GroupingView>,
    plans: Pool<PodGroupPlan>,
}

impl SharedParts {
    /// Lets the pod share what others have too. `known` is the same pod as it was observed before.
    pub(super) fn share(&mut self, pod: &mut PodSpec, known: Option<&PodSpec>) {
        if let Some(known) = known {
            pod.name = known.name.clone();
            pod.uid = Arc::clone(&known.uid);
        }
        self.share_text(&mut pod.name.namespace);
        let texts = [&mut pod.group, &mut pod.sub_group, &mut pod.node];
        texts.into_iter().flatten().for_each(|text| self.share_text(text));
        let resources = pod.numa.containers.iter_mut().flat_map(|container| &mut container.amounts);
        resources.for_each(|(resource, _)| self.share_text(resource));
        pod.labels = self.labels.share(&pod.labels);
        pod.constraints = self.constraints.share(&pod.constraints);
    }

    /// The fields that rules of grouping read, without these texts of the pod.
    pub(super) fn pack_view(&mut self, view: GroupingView, texts: &[&str]) -> Packed<GroupingView> {
        Packed::new(view, texts, &mut self.views, &mut self.texts)
    }

    /// The plan of a group without these texts of its pod.
    pub(super) fn pack_plan(&mut self, plan: PodGroupPlan, texts: &[&str]) -> Packed<PodGroupPlan> {
        Packed::new(plan, texts, &mut self.plans, &mut self.texts)
    }

    /// Traits of a group, in the copy that groups of other pods have.
    pub(super) fn share_traits(&mut self, traits: GroupTraits) -> Arc<GroupTraits> {
        self.traits.share(&Arc::new(traits))
    }

    fn share_text(&mut self, text: &mut Text) {
        *text = self.texts.share(text);
    }
}
