//! The tree of sub-groups of a pod group, checked in linear time: the writer of a pod group chooses its size.

use std::collections::BTreeMap;

/// Most sub-groups of one pod group.
pub const MOST: usize = 4096;
/// Most sub-groups one above the other.
pub const DEEPEST: usize = 64;

/// A sub-group by its name and that of the sub-group above; the uppermost have an empty parent.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub name: &'a str,
    /// Name of the sub-group above, or empty.
    pub parent: &'a str,
}

/// What is wrong with a tree of sub-groups, and at which place in the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeProblem {
    /// More than [`MOST`].
    #[error("{0} subgroups; a pod group can have {MOST}")]
    TooMany(usize),
    /// A name is there twice.
    #[error("duplicate subgroup name {name}")]
    Duplicate {
        /// Place of the second.
        at: usize,
        name: String,
    },
    /// A parent is not there.
    #[error("parent {parent} of {name} was not found")]
    ParentMissing {
        /// Place of the child.
        at: usize,
        /// Name of the child.
        name: String,
        /// Name of the parent.
        parent: String,
    },
    /// Sub-groups are above each other.
    #[error("cycle detected in subgroups")]
    Cycle {
        /// Place of a sub-group from which the cycle is reached.
        at: usize,
    },
    /// More than [`DEEPEST`] one above the other.
    #[error("more than {DEEPEST} subgroups one above the other, down to {name}")]
    TooDeep {
        /// Place of the lowest.
        at: usize,
        name: String,
    },
}

impl TreeProblem {
    /// The field of the pod group that has to change.
    pub fn field(&self) -> String {
        match self {
            Self::TooMany(_) => "spec.subGroups".to_owned(),
            Self::Duplicate { at, .. } => format!("spec.subGroups[{at}].name"),
            Self::ParentMissing { at, .. } | Self::Cycle { at } | Self::TooDeep { at, .. } => {
                format!("spec.subGroups[{at}].parent")
            }
        }
    }
}

/// Checks sizes, names, parents, cycles and depth, in this order.
pub fn check(links: &[Link<'_>]) -> Result<(), TreeProblem> {
    if links.len() > MOST {
        return Err(TreeProblem::TooMany(links.len()));
    }
    let mut places = BTreeMap::new();
    for (at, link) in links.iter().enumerate() {
        if places.insert(link.name, at).is_some() {
            return Err(TreeProblem::Duplicate { at, name: link.name.to_owned() });
        }
    }
    let mut parents = Vec::with_capacity(links.len());
    for (at, Link { name, parent }) in links.iter().enumerate() {
        let above = places.get(parent).copied();
        if above.is_none() && !parent.is_empty() {
            let (name, parent) = ((*name).to_owned(), (*parent).to_owned());
            return Err(TreeProblem::ParentMissing { at, name, parent });
        }
        parents.push(above.filter(|_| !parent.is_empty()));
    }
    check_depths(links, &parents)
}

/// Walks up from every sub-group until one whose depth is known: each is passed once.
fn check_depths(links: &[Link<'_>], parents: &[Option<usize>]) -> Result<(), TreeProblem> {
    let mut depths = vec![0; links.len()];
    let mut is_on_path = vec![false; links.len()];
    for (at, link) in links.iter().enumerate() {
        let mut path = Vec::new();
        let mut next = Some(at);
        while let Some(place) = next.filter(|place| depths[*place] == 0) {
            if std::mem::replace(&mut is_on_path[place], true) {
                return Err(TreeProblem::Cycle { at });
            }
            path.push(place);
            next = parents[place];
        }
        let mut depth = next.map_or(0, |place| depths[place]);
        for place in path.into_iter().rev() {
            depth += 1;
            depths[place] = depth;
        }
        if depth > DEEPEST {
            return Err(TreeProblem::TooDeep { at, name: link.name.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(links: &[(&str, &str)]) -> Result<(), String> {
        let links: Vec<Link<'_>> =
            links.iter().map(|(name, parent)| Link { name, parent }).collect();
        check(&links).map_err(|problem| format!("{}: {problem}", problem.field()))
    }

    #[test]
    fn trees_that_make_no_sense_are_named() {
        assert_eq!(checked(&[("b", "a"), ("a", ""), ("c", "a")]), Ok(()));
        let table: [(&[(&str, &str)], &str); 4] = [
            (&[("a", ""), ("a", "")], "spec.subGroups[1].name: duplicate subgroup name a"),
            (&[("a", "p")], "spec.subGroups[0].parent: parent p of a was not found"),
            (&[("a", "b"), ("b", "a")], "spec.subGroups[0].parent: cycle detected in subgroups"),
            (&[("a", "a")], "spec.subGroups[0].parent: cycle detected in subgroups"),
        ];
        for (links, wanted) in table {
            assert_eq!(checked(links), Err(wanted.to_owned()));
        }
    }

    /// As many and as deep as an object can hold: what would take hours in more than linear time ends at once.
    #[test]
    fn sizes_and_depths_are_checked_before_work() {
        let names: Vec<String> = (0..MOST).map(|number| format!("g{number}")).collect();
        let chain = |length: usize| -> Vec<(&str, &str)> {
            let parent = |at: usize| if at == 0 { "" } else { names[at - 1].as_str() };
            (0..length).map(|at| (names[at].as_str(), parent(at))).collect()
        };
        assert_eq!(checked(&chain(DEEPEST)), Ok(()));
        for mut links in [chain(DEEPEST + 1), chain(MOST)] {
            assert!(checked(&links).is_err_and(|text| text.contains("one above the other")));
            links.reverse();
            assert!(checked(&links).is_err_and(|text| text.contains("one above the other")));
        }
        let wide: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(checked(&wide), Ok(()));
        let more: Vec<(&str, &str)> = wide.iter().copied().chain([("more", "")]).collect();
        assert!(checked(&more).is_err_and(|text| text.starts_with("spec.subGroups: 4097")));
    }
}
