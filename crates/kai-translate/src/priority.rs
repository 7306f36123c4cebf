//! Values of priority classes.

use std::collections::BTreeMap;

use kai_api::names::defaults;

use crate::view::PriorityClass;

/// The priority classes of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityClasses {
    classes: BTreeMap<String, Class>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    value: i32,
    global_default: bool,
    never_preempts: bool,
}

impl PriorityClasses {
    /// Takes a class over; true when that changes something.
    pub fn set(&mut self, class: &PriorityClass) -> bool {
        let name = class.metadata.name.clone();
        let entry = Class {
            value: class.value,
            global_default: class.global_default,
            never_preempts: class.preemption_policy.as_deref() == Some("Never"),
        };
        self.classes.insert(name, entry) != Some(entry)
    }

    /// Forgets a class; true when there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.classes.remove(name).is_some()
    }

    /// Names of all classes.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.classes.keys()
    }

    /// The value of a class; of an unknown one the cluster's default, else KAI's. Of several defaults the lowest counts.
    pub fn value_of(&self, name: Option<&str>) -> i32 {
        self.class_of(name).map_or(defaults::POD_GROUP_PRIORITY, |class| class.value)
    }

    /// The class says `preemptionPolicy: Never`: no pod is evicted for workloads of it.
    pub fn never_preempts(&self, name: Option<&str>) -> bool {
        self.class_of(name).is_some_and(|class| class.never_preempts)
    }

    fn class_of(&self, name: Option<&str>) -> Option<&Class> {
        let named = name.and_then(|name| self.classes.get(name));
        let defaults = || self.classes.values().filter(|class| class.global_default);
        named.or_else(|| defaults().min_by_key(|class| class.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i32, global_default: bool) -> PriorityClass {
        let mut class = PriorityClass { value, ..PriorityClass::default() };
        class.metadata.name = name.to_owned();
        class.global_default = global_default;
        class
    }

    #[test]
    fn named_then_default_then_kais() {
        let mut classes = PriorityClasses::default();
        assert_eq!(classes.value_of(Some("build")), 50);
        assert!(classes.set(&class("build", 100, false)));
        assert!(!classes.set(&class("build", 100, false)));
        assert_eq!(classes.value_of(Some("build")), 100);
        assert_eq!(classes.value_of(Some("other")), 50);
        assert!(classes.set(&class("normal", 7, true)));
        assert_eq!(classes.value_of(Some("other")), 7);
        assert_eq!(classes.value_of(None), 7);
        let mut polite = class("polite", 200, false);
        polite.preemption_policy = Some("Never".to_owned());
        assert!(classes.set(&polite));
        assert!(classes.never_preempts(Some("polite")) && !classes.never_preempts(Some("build")));
        assert!(classes.remove("normal") && !classes.remove("normal"));
        assert_eq!(classes.value_of(None), 50);
    }
}
