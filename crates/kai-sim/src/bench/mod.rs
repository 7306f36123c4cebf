//! Worlds of known outcome in every size, for measuring the planner. Nothing here looks at a clock.

mod check;
mod objects;
mod steady;
mod worlds;

use std::fmt;
use std::str::FromStr;

use kai_core::check::{Moment, Violation, made_worse, violations};
use kai_core::plan::{CyclePlan, plan, plan_and_observe};
use kai_core::time::Timestamp;
use kai_core::world::World;

pub use check::{Decided, Mismatch};
pub use steady::{Steady, SteadyEvent};

/// Sizes that are measured.
pub const SIZES: [usize; 5] = [100, 500, 1000, 5000, 20_000];

/// A kind of world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// Everything waits and fits.
    Allocate,
    /// One large gang that should be close together.
    Gang,
    /// One large gang takes half of the cluster back.
    ReclaimLarge,
    /// Many small jobs take all of the cluster back.
    ReclaimMany,
    /// A gang that would need one GPU more than may be taken.
    ReclaimNo,
    /// Gangs that fit once others move together.
    Consolidate,
    /// Jobs of all kinds, read from a document.
    Mixed,
    /// A full cluster in which one job ends and one arrives.
    Steady,
}

impl Family {
    const ALL: [Self; 8] = [
        Self::Allocate,
        Self::Gang,
        Self::ReclaimLarge,
        Self::ReclaimMany,
        Self::ReclaimNo,
        Self::Consolidate,
        Self::Mixed,
        Self::Steady,
    ];

    /// The name, which the size follows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Gang => "gang",
            Self::ReclaimLarge => "reclaim-large",
            Self::ReclaimMany => "reclaim-many",
            Self::ReclaimNo => "reclaim-no",
            Self::Consolidate => "consolidate",
            Self::Mixed => "mixed",
            Self::Steady => "steady",
        }
    }

    /// The sizes of this kind.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Self::Gang => &[512],
            Self::Mixed => &[60, 51],
            _ => &SIZES,
        }
    }

    /// Whether any size may be asked for.
    fn is_parametric(self) -> bool {
        !matches!(self, Self::Gang | Self::Mixed)
    }
}

/// One world of a kind and size, as `kai bench core` names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Case {
    /// Kind of the world.
    pub family: Family,
    /// How large it is: nodes, or what the name says.
    pub size: usize,
}

/// Something that should not happen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BenchError(pub String);

/// A world ready for cycles.
#[derive(Debug)]
pub struct Built {
    /// World with all objects of the case applied.
    pub world: World,
    /// The moment of the cycle.
    pub now: Timestamp,
}

/// The smallest world: gangs of ten whole nodes must fit.
const SMALLEST: usize = 10;

impl Case {
    /// Every case that is measured.
    pub fn all() -> Vec<Self> {
        let of = |family: Family| family.sizes().iter().map(move |&size| Self { family, size });
        Family::ALL.into_iter().flat_map(of).collect()
    }

    /// The cases that `name` stands for: a case, or all sizes of a kind.
    pub fn named(name: &str) -> Result<Vec<Self>, BenchError> {
        if let Ok(case) = name.parse() {
            return Ok(vec![case]);
        }
        let cases: Vec<_> =
            Self::all().into_iter().filter(|case| case.family.name() == name).collect();
        if cases.is_empty() {
            let known: Vec<_> = Family::ALL.iter().map(|family| family.name()).collect();
            let message = format!(
                "there is no case `{name}`, expected one of {}, or one of these with a size",
                known.join(", ")
            );
            return Err(BenchError(message));
        }
        Ok(cases)
    }

    /// Makes the world; fails where the core refuses one of its objects.
    pub fn build(self) -> Result<Built, BenchError> {
        let blueprint = worlds::blueprint(self)?;
        let mut world = World::new(blueprint.config);
        for delta in blueprint.deltas {
            if let Some(problem) = world.apply(delta).problems.first() {
                return Err(BenchError(format!("the core refused an object: {problem}")));
            }
        }
        Ok(Built { world, now: blueprint.now })
    }
}

impl Built {
    /// One cycle, result and reasons included.
    pub fn cycle(&mut self) -> CyclePlan {
        plan(&mut self.world, self.now)
    }

    /// What will not hold once a cycle's plan is carried out, counted from the pods alone. What holds meanwhile is not
    /// looked at: a nomination that is reverted is evicted as if it had been there.
    pub fn made_worse(&mut self) -> Vec<Violation> {
        let before = violations(&self.world);
        let mut after = Vec::new();
        plan_and_observe(&mut self.world, self.now, |world| after = violations(world));
        let mut worse = made_worse(&before, &after);
        worse.retain(|violation| violation.moment != Some(Moment::Now));
        worse
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.family.name(), self.size)
    }
}

impl FromStr for Case {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let error = || BenchError(format!("there is no case `{name}`"));
        let (family, size) = name.rsplit_once('-').ok_or_else(error)?;
        let family = Family::ALL.into_iter().find(|one| one.name() == family).ok_or_else(error)?;
        let size = size.parse().map_err(|_| error())?;
        let known = family.sizes().contains(&size);
        let possible = family.is_parametric() && size >= SMALLEST;
        if known || possible { Ok(Self { family, size }) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests;
