//! Resource vectors: integers in a fixed order, further resources by name behind them.

use std::sync::Arc;

use crate::keyed_hash::KeyedMap;

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

/// Amounts by slot. Of named resources only those that are not zero take memory: how many names tenants have used does not matter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResourceVector {
    fixed: [i64; FIXED_SLOTS],
    /// Named resources, slots ascending; no amount is zero.
    named: Vec<(usize, i64)>,
}

impl ResourceVector {
    /// A vector of zeros.
    pub fn zero() -> Self {
        Self::default()
    }

    /// The amount in `slot`.
    #[inline]
    pub fn get(&self, slot: usize) -> i64 {
        match self.fixed.get(slot) {
            Some(amount) => *amount,
            None => self.place(slot).map_or(0, |at| self.named[at].1),
        }
    }

    /// Sets `slot`.
    pub fn set(&mut self, slot: usize, amount: i64) {
        self.change(slot, |_| amount);
    }

    /// Adds `amount` to `slot`, saturating.
    pub fn add_at(&mut self, slot: usize, amount: i64) {
        self.change(slot, |known| known.saturating_add(amount));
    }

    /// Adds `other` slot by slot, saturating.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts `other` slot by slot, saturating.
    #[inline]
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises every slot to that of `other` where it is lower; amounts that `other` does not name stay.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// Sets every slot to zero that is not to be kept.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for (slot, amount) in self.fixed.iter_mut().enumerate() {
            if !keep(slot) {
                *amount = 0;
            }
        }
        self.named.retain(|(slot, _)| keep(*slot));
    }

    /// True when every amount is zero.
    pub fn is_empty(&self) -> bool {
        self.fixed == [0; FIXED_SLOTS] && self.named.is_empty()
    }

    /// `(slot, amount)` of every fixed slot, and of every other that is not zero, slots ascending.
    #[inline]
    pub fn amounts(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.fixed.iter().copied().enumerate().chain(self.named())
    }

    /// `(slot, amount)` of every slot beyond the fixed ones that is not zero, slots ascending.
    #[inline]
    pub fn named(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.named.iter().copied()
    }

    /// `(slot, amount)` of every slot that is not zero, slots ascending.
    pub fn non_zero(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.amounts().filter(|(_, amount)| *amount != 0)
    }

    /// Position of a named resource.
    #[inline]
    fn place(&self, slot: usize) -> Result<usize, usize> {
        self.named.binary_search_by_key(&slot, |(known, _)| *known)
    }

    fn change(&mut self, slot: usize, rule: impl Fn(i64) -> i64) {
        if let Some(amount) = self.fixed.get_mut(slot) {
            *amount = rule(*amount);
            return;
        }
        match self.place(slot) {
            Ok(at) => {
                self.named[at].1 = rule(self.named[at].1);
                if self.named[at].1 == 0 {
                    self.named.remove(at);
                }
            }
            Err(at) => {
                let amount = rule(0);
                if amount != 0 {
                    self.named.insert(at, (slot, amount));
                }
            }
        }
    }

    #[inline]
    fn combine(&mut self, other: &Self, rule: impl Fn(i64, i64) -> i64) {
        for (mine, theirs) in self.fixed.iter_mut().zip(&other.fixed) {
            *mine = rule(*mine, *theirs);
        }
        for (slot, theirs) in &other.named {
            self.change(*slot, |mine| rule(mine, *theirs));
        }
    }
}

/// Which slot a named resource has. Slots are given in order of appearance and never change.
#[derive(Clone, Debug, Default)]
pub struct ResourceNames {
    named: Vec<Arc<str>>,
    slots: KeyedMap<Arc<str>, usize>,
}

impl ResourceNames {
    /// The slot of `name`, given now if it is new.
    pub fn slot(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            let slot = self.len();
            let name: Arc<str> = Arc::from(name);
            self.named.push(Arc::clone(&name));
            self.slots.insert(name, slot);
            slot
        })
    }

    /// The slot of `name` if some object has named it.
    pub fn find(&self, name: &str) -> Option<usize> {
        match name {
            "cpu" => Some(CPU),
            "memory" => Some(MEMORY),
            "pods" => Some(PODS),
            _ => self.slots.get(name).copied(),
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
