//! Whether to be right or to be KAI where the two differ.

/// The reference scheduler has known faults that change decisions. `Right` does what users expect;
/// `Kai` reproduces every deterministic fault, for clusters that must not notice the switch and for
/// the tables that compare both schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compatibility {
    /// The faults are fixed.
    #[default]
    Right,
    /// The faults are reproduced.
    Kai,
}

impl Compatibility {
    /// True where a fault of the reference is to be reproduced.
    pub fn is_kai(self) -> bool {
        self == Self::Kai
    }
}
