//! Names of objects, for sets of which most have one: the members of a group that is a single pod. A set of the standard library
//! takes a third of a kilobyte for its first name.

use std::collections::BTreeSet;

use kai_core::input::ObjectName;

/// A set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NameSet {
    #[default]
    Empty,
    One(ObjectName),
    Many(BTreeSet<ObjectName>),
}

impl NameSet {
    /// Adds a name. True where it is new.
    pub(crate) fn insert(&mut self, name: ObjectName) -> bool {
        match self {
            Self::Empty => *self = Self::One(name),
            Self::One(known) if *known == name => return false,
            Self::One(known) => {
                *self = Self::Many(BTreeSet::from([known.clone(), name]));
            }
            Self::Many(names) => return names.insert(name),
        }
        true
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: &ObjectName) {
        match self {
            Self::One(known) if known == name => *self = Self::Empty,
            Self::Many(names) => {
                names.remove(name);
            }
            Self::Empty | Self::One(_) => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The names, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ObjectName> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(name) => (Some(name), None),
            Self::Many(names) => (None, Some(names)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|names| names.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once_and_in_order() {
        let name = |name: &str| ObjectName::new("a", name);
        let mut set = NameSet::default();
        assert!(set.is_empty());
        assert!(set.insert(name("q")) && !set.insert(name("q")));
        set.remove(&name("r"));
        assert_eq!(set, NameSet::One(name("q")));
        assert!(set.insert(name("p")) && !set.insert(name("p")) && set.insert(name("r")));
        assert_eq!(set.iter().cloned().collect::<Vec<_>>(), [name("p"), name("q"), name("r")]);
        for one in ["p", "q", "r"] {
            set.remove(&name(one));
        }
        assert!(set.is_empty() && set.insert(name("s")));
        let mut one = NameSet::One(name("s"));
        one.remove(&name("s"));
        assert_eq!(one, NameSet::Empty);
    }
}
