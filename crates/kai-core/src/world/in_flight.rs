//! Decisions in flight: made, not yet observed on the pods themselves. A bind under way holds its place, its devices and
//! its zones, whether a bind request in the cluster asks for it or a plan decided it a moment ago.

use crate::input::devices::Allocation;
use crate::input::pod::PodSpec;
use crate::input::{BindRequestSpec, Text};
use crate::plan::{Step, StepKind};
use crate::world::World;

/// A decision of a plan that the cluster has not confirmed or refuted yet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Assumed {
    /// The pod of this UID is being bound.
    Bind {
        /// UID of the pod.
        uid: Text,
        /// Node and devices that the pod gets.
        bind: Bind,
    },
    /// The pod of this UID was evicted.
    Eviction {
        /// UID of the pod.
        uid: Text,
        /// A bind that was in flight by then: it may still be carried out.
        bound: Option<Bind>,
    },
}

/// Node that a pod gets, and what it gets there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bind {
    pub(crate) node: Text,
    /// GPU groups of its shared devices.
    pub(crate) gpu_groups: Vec<Text>,
    /// NUMA zones, in the notation of the pod annotation.
    pub(crate) numa_zones: Option<Text>,
    /// Devices for its claims, by claim name.
    pub(crate) claims: Vec<(Text, Allocation)>,
}

/// The same, wherever it is written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindUnderWay<'a> {
    pub(crate) node: &'a Text,
    pub(crate) gpu_groups: &'a [Text],
    pub(crate) numa_zones: Option<&'a Text>,
    pub(crate) claims: &'a [(Text, Allocation)],
}

impl Bind {
    fn under_way(&self) -> BindUnderWay<'_> {
        BindUnderWay {
            node: &self.node,
            gpu_groups: &self.gpu_groups,
            numa_zones: self.numa_zones.as_ref(),
            claims: &self.claims,
        }
    }
}

impl<'a> BindUnderWay<'a> {
    fn asked_for(request: &'a BindRequestSpec) -> Self {
        Self {
            node: &request.node,
            gpu_groups: &request.gpu_groups,
            numa_zones: request.numa_zones.as_ref(),
            claims: &request.claim_allocations,
        }
    }
}

impl Assumed {
    /// The decision of a step; none where nothing is written for it. `before` is what was in flight until now.
    pub(crate) fn of(step: &Step, before: Option<&Self>) -> Option<Self> {
        let uid = step.uid.clone();
        match &step.kind {
            StepKind::Bind { node, gpu_groups, claims, numa_zones } => {
                let bind = Bind {
                    node: node.clone(),
                    gpu_groups: gpu_groups.clone(),
                    numa_zones: numa_zones.clone(),
                    claims: claims.clone(),
                };
                Some(Self::Bind { uid, bind })
            }
            StepKind::Evict { .. } => {
                let bound = before.and_then(|assumed| assumed.bind_of(&uid)).cloned();
                Some(Self::Eviction { uid, bound })
            }
            StepKind::Nominate { .. } => None,
        }
    }

    /// The bind in flight for the pod of `uid`.
    fn bind_of(&self, pod: &Text) -> Option<&Bind> {
        match self {
            Self::Bind { uid, bind } | Self::Eviction { uid, bound: Some(bind) } if uid == pod => {
                Some(bind)
            }
            Self::Bind { .. } | Self::Eviction { .. } => None,
        }
    }

    /// Whether the pod of `uid` was evicted.
    pub(crate) fn evicts(&self, pod: &Text) -> bool {
        matches!(self, Self::Eviction { uid, .. } if uid == pod)
    }

    /// The node of the bind in flight, whatever pod it is for.
    pub(crate) fn node(&self) -> Option<&Text> {
        match self {
            Self::Bind { bind, .. } | Self::Eviction { bound: Some(bind), .. } => Some(&bind.node),
            Self::Eviction { bound: None, .. } => None,
        }
    }
}

impl World {
    /// Binds under way for a pod, the one that the cluster knows of first.
    pub(crate) fn binds_under_way(
        &self,
        pod: &PodSpec,
    ) -> impl Iterator<Item = BindUnderWay<'_>> + use<'_> {
        let request = self.bind_requests.get(&pod.name).filter(|request| !request.failed);
        let assumed = self.assumed.get(&pod.name).and_then(|assumed| assumed.bind_of(&pod.uid));
        request.map(BindUnderWay::asked_for).into_iter().chain(assumed.map(Bind::under_way))
    }
}
