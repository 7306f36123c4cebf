//! Resource vectors: integers in a fixed order, further resources by name behind them.

use std::sync::Arc;

use smallvec::SmallVec;

/// Slot of CPU, in millicores.
pub const CPU: usize = 0;
/// Slot of memory, in bytes.
pub const MEMORY: usize = 1;
/// Slot of whole GPU devices.
pub const GPU: usize = 2;
/// Slot of pods: the kubelet's maximum, and one per pod.
pub const PODS: usize = 3;
/// Slots every vector has; named resources follow.
pub const FIXED_SLOTS: usize = 4;

/// Amounts by slot. Vectors of different length compare as if the shorter ended in zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResourceVector {
    amounts: SmallVec<[i64; FIXED_SLOTS]>,
}

impl ResourceVector {
    /// A vector with the fixed slots, all zero.
    pub fn zero() -> Self {
        Self { amounts: SmallVec::from_elem(0, FIXED_SLOTS) }
    }

    /// The amount in `slot`, zero where the vector does not reach.
    #[inline]
    pub fn get(&self, slot: usize) -> i64 {
        self.amounts.get(slot).copied().unwrap_or(0)
    }

    /// Sets `slot`, growing the vector where needed.
    pub fn set(&mut self, slot: usize, amount: i64) {
        self.reach(slot);
        self.amounts[slot] = amount;
    }

    /// Adds `amount` to `slot`, saturating.
    pub fn add_at(&mut self, slot: usize, amount: i64) {
        self.reach(slot);
        self.amounts[slot] = self.amounts[slot].saturating_add(amount);
    }

    /// Adds `other` slot by slot, saturating.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.reach_len(other.amounts.len());
        for (mine, theirs) in self.amounts.iter_mut().zip(&other.amounts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Subtracts `other` slot by slot, saturating.
    #[inline]
    pub fn sub(&mut self, other: &Self) {
        self.reach_len(other.amounts.len());
        for (mine, theirs) in self.amounts.iter_mut().zip(&other.amounts) {
            *mine = mine.saturating_sub(*theirs);
        }
    }

    /// Raises every slot to that of `other` where it is lower.
    pub fn raise_to(&mut self, other: &Self) {
        self.reach_len(other.amounts.len());
        for (mine, theirs) in self.amounts.iter_mut().zip(&other.amounts) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Slots in use, from 0.
    pub fn len(&self) -> usize {
        self.amounts.len()
    }

    /// True when every amount is zero.
    pub fn is_empty(&self) -> bool {
        self.amounts.iter().all(|amount| *amount == 0)
    }

    /// `(slot, amount)` of every slot that is not zero.
    pub fn non_zero(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.amounts.iter().copied().enumerate().filter(|(_, amount)| *amount != 0)
    }

    fn reach(&mut self, slot: usize) {
        self.reach_len(slot + 1);
    }

    #[inline]
    fn reach_len(&mut self, len: usize) {
        if self.amounts.len() < len {
            self.amounts.resize(len.max(FIXED_SLOTS), 0);
        }
    }
}

/// Which slot a named resource has. Slots are given in order of appearance and never change.
#[derive(Clone, Debug, Default)]
pub struct ResourceNames {
    named: Vec<Arc<str>>,
}

impl ResourceNames {
    /// The slot of `name`, given now if it is new.
    pub fn slot(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.named.push(Arc::from(name));
            FIXED_SLOTS + self.named.len() - 1
        })
    }

    /// The slot of `name` if some object has named it.
    pub fn find(&self, name: &str) -> Option<usize> {
        match name {
            "cpu" => Some(CPU),
            "memory" => Some(MEMORY),
            "pods" => Some(PODS),
            _ => self.named.iter().position(|known| &**known == name).map(|at| FIXED_SLOTS + at),
        }
    }

    /// The name of `slot`.
    pub fn name(&self, slot: usize) -> &str {
        match slot {
            CPU => "cpu",
            MEMORY => "memory",
            GPU => "gpu",
            PODS => "pods",
            named => self.named.get(named - FIXED_SLOTS).map_or("", |name| name),
        }
    }

    /// `(slot, amount)` of every slot of `vector` that is not zero: the fixed ones, then the others by name. Slots of
    /// those are given in the order in which objects came, which must not show.
    pub fn by_name(&self, vector: &ResourceVector) -> Vec<(usize, i64)> {
        let mut amounts: Vec<(usize, i64)> = vector.non_zero().collect();
        let key = |slot: usize| {
            if slot < FIXED_SLOTS { (slot, "") } else { (FIXED_SLOTS, self.name(slot)) }
        };
        amounts.sort_by(|left, right| key(left.0).cmp(&key(right.0)));
        amounts
    }

    /// Slots given so far.
    pub fn len(&self) -> usize {
        FIXED_SLOTS + self.named.len()
    }

    /// Never true: the fixed slots are always there.
    pub fn is_empty(&self) -> bool {
        false
    }
}
