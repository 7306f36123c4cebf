//! Parts of pods that many pods have, each kept once.

use std::sync::Arc;

use kai_core::input::pod::PodConstraints;
use kai_core::input::selectors::Labels;
use kai_core::input::{PodSpec, Text};

use super::own_group::GroupTraits;
use crate::pool::Pool;

/// The shared parts of all pods.
#[derive(Default)]
pub(super) struct SharedParts {
    texts: Pool<str>,
    labels: Pool<Labels>,
    constraints: Pool<PodConstraints>,
    traits: Pool<GroupTraits>,
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
        pod.labels = self.labels.share(&pod.labels);
        pod.constraints = self.constraints.share(&pod.constraints);
    }

    /// Values of pods without the texts of the one pod.
    pub(super) fn templates(&mut self) -> &mut Pool<str> {
        &mut self.texts
    }

    /// Traits of a group, in the copy that groups of other pods have.
    pub(super) fn share_traits(&mut self, traits: GroupTraits) -> Arc<GroupTraits> {
        self.traits.share(&Arc::new(traits))
    }

    fn share_text(&mut self, text: &mut Text) {
        *text = self.texts.share(text);
    }
}
