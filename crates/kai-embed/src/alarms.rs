//! Times at which items are reconciled again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use crate::object::Key;
use crate::store::ResourceId;

/// An item that a controller reconciles.
pub(crate) type Item = (ResourceId, Key);

/// At most one alarm per item, ordered by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    by_item: BTreeMap<Item, Timestamp>,
    by_time: BTreeSet<(Timestamp, Item)>,
}

impl Alarms {
    /// Sets an alarm, unless an earlier one is set.
    pub(crate) fn set(&mut self, item: Item, moment: Timestamp) {
        match self.by_item.get(&item) {
            Some(known) if *known <= moment => return,
            Some(known) => {
                self.by_time.remove(&(*known, item.clone()));
            }
            None => {}
        }
        self.by_item.insert(item.clone(), moment);
        self.by_time.insert((moment, item));
    }

    /// Removes the alarm of an item.
    pub(crate) fn remove(&mut self, item: &Item) {
        if let Some(moment) = self.by_item.remove(item) {
            self.by_time.remove(&(moment, item.clone()));
        }
    }

    /// Whether an alarm is set for an item.
    pub(crate) fn is_set(&self, item: &Item) -> bool {
        self.by_item.contains_key(item)
    }

    /// The moment of the earliest alarm.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(moment, _)| *moment)
    }

    /// Takes the alarms up to a moment, earliest first.
    pub(crate) fn take_until(&mut self, moment: Timestamp) -> Vec<Item> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= moment) {
            let Some((_, item)) = self.by_time.pop_first() else { break };
            self.by_item.remove(&item);
            due.push(item);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        (ResourceId::new("", "pods"), Key::new("a", name))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn the_earliest_alarm_of_an_item_counts() {
        let mut alarms = Alarms::default();
        alarms.set(item("x"), at(5));
        alarms.set(item("x"), at(7));
        alarms.set(item("y"), at(6));
        assert_eq!(alarms.next(), Some(at(5)));
        alarms.set(item("x"), at(3));
        alarms.set(item("z"), at(9));
        alarms.remove(&item("z"));
        assert_eq!(alarms.take_until(at(3)), [item("x")]);
        assert_eq!(alarms.take_until(at(9)), [item("y")]);
        assert_eq!(alarms.next(), None);
    }
}
