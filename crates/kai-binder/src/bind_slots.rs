//! How many binds are written at a time. A bind that writes keeps its slot until it has nothing to write for now, so that
//! the first pods of a burst are bound while the last ones wait; without a limit all of them would be labelled before the
//! first is bound. The bind that began first gets the next slot.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::input::ObjectName;

/// Binds that may be written at a time. Each makes a few writes, one after the other.
const SLOTS: usize = 96;

/// The slots, by the number of the attempt: smaller numbers began earlier.
#[derive(Clone, Debug, Default)]
pub(super) struct BindSlots {
    taken: BTreeSet<u64>,
    /// Attempts that have something to write and no slot, with their bind requests.
    waiting: BTreeMap<u64, ObjectName>,
}

impl BindSlots {
    /// Whether the attempt may write now. One that may not is named by a later [`Self::release`].
    pub(super) fn acquire(&mut self, attempt: u64, request: &ObjectName) -> bool {
        if !self.taken.contains(&attempt) {
            if self.taken.len() >= SLOTS {
                self.waiting.insert(attempt, request.clone());
                return false;
            }
            self.taken.insert(attempt);
        }
        true
    }

    /// The attempt has something to write, and is named once it may.
    pub(super) fn is_waiting(&self, attempt: u64) -> bool {
        self.waiting.contains_key(&attempt)
    }

    /// The attempt has nothing to write for now. The bind request that has its slot from now on.
    pub(super) fn release(&mut self, attempt: u64) -> Option<ObjectName> {
        self.waiting.remove(&attempt);
        if !self.taken.remove(&attempt) {
            return None;
        }
        let (next, request) = self.waiting.pop_first()?;
        self.taken.insert(next);
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> ObjectName {
        ObjectName::new("a", format!("p{number}"))
    }

    fn full() -> BindSlots {
        let mut slots = BindSlots::default();
        assert!((0..SLOTS as u64).all(|number| slots.acquire(number, &request(number))));
        slots
    }

    #[test]
    fn the_bind_that_began_first_gets_the_next_slot() {
        let mut slots = full();
        for number in [902, 901, 903] {
            assert!(!slots.acquire(number, &request(number)));
        }
        assert!(slots.acquire(7, &request(7)), "a bind that has begun goes on");
        assert_eq!(slots.release(7), Some(request(901)));
        assert!(slots.acquire(901, &request(901)) && !slots.acquire(7, &request(7)));
        assert_eq!(slots.release(8), Some(request(7)), "it is older than those that wait");
    }

    #[test]
    fn a_bind_that_ends_while_it_waits_gets_no_slot() {
        let mut slots = full();
        assert!(!slots.acquire(901, &request(901)) && !slots.acquire(902, &request(902)));
        assert_eq!(slots.release(901), None);
        assert_eq!(slots.release(1), Some(request(902)));
        assert_eq!(slots.release(2), None);
        assert!(slots.acquire(903, &request(903)), "a slot was free");
    }
}
