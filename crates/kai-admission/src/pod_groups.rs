//! Which pod groups are denied: the tree of sub-groups must make sense.

use std::collections::BTreeMap;

use kai_api::names::workload::SEMI_PREEMPTIBLE;
use kai_api::pod_group::{PodGroupSpec, SubGroup};
use kai_api::sub_groups::{self, Link};
use serde::Deserialize;

use super::Verdict;

/// A pod group as reviews carry it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReviewedGroup {
    spec: PodGroupSpec,
}

/// A pod group that is created or changed. Older objects may break one rule that new ones may not.
pub fn validate(group: &ReviewedGroup, before: Option<&ReviewedGroup>, is_new: bool) -> Verdict {
    if let Some(error) = before.and_then(|before| grown_core(&before.spec, &group.spec)) {
        return Verdict::deny(error);
    }
    match tree(&group.spec) {
        Err(error) => Verdict::deny(error),
        Ok(children) => members(&group.spec, &children, is_new),
    }
}

/// The minimum of a semi-preemptible group must not grow: pods that run beyond the quota would become pods that cannot be
/// preempted.
fn grown_core(before: &PodGroupSpec, now: &PodGroupSpec) -> Option<String> {
    let is_semi = |spec: &PodGroupSpec| spec.preemptibility.as_deref() == Some(SEMI_PREEMPTIBLE);
    if !is_semi(before) || !is_semi(now) {
        return None;
    }
    let grows =
        |old: Option<i32>, new: Option<i32>| old.zip(new).is_some_and(|(old, new)| new > old);
    let denial = |field: &str, old: Option<i32>, new: Option<i32>| {
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        format!(
            "{field} of a semi-preemptible pod group cannot be raised (from {old} to {new}): pods beyond it may run over the quota; create another pod group"
        )
    };
    if grows(before.min_member, now.min_member) {
        return Some(denial("spec.minMember", before.min_member, now.min_member));
    }
    if grows(before.min_sub_group, now.min_sub_group) {
        return Some(denial("spec.minSubGroup", before.min_sub_group, now.min_sub_group));
    }
    now.sub_groups.iter().find_map(|new| {
        let old = before.sub_groups.iter().find(|old| old.name == new.name)?;
        let field = |name: &str| format!("spec.subGroups[{}].{name}", new.name);
        if grows(old.min_member, new.min_member) {
            return Some(denial(&field("minMember"), old.min_member, new.min_member));
        }
        let has_grown = grows(old.min_sub_group, new.min_sub_group);
        has_grown.then(|| denial(&field("minSubGroup"), old.min_sub_group, new.min_sub_group))
    })
}

fn parent_of(group: &SubGroup) -> &str {
    group.parent.as_deref().unwrap_or_default()
}

/// How many sub-groups are right below each; below the group itself under the empty name.
fn tree(spec: &PodGroupSpec) -> Result<BTreeMap<&str, usize>, String> {
    if let (Some(members), true) = (spec.min_member, spec.min_sub_group.is_some()) {
        return Err(format!(
            "minMember and minSubGroup are mutually exclusive: set minMember ({members}) to schedule a fixed number of pods, or set minSubGroup to require a minimum number of child SubGroups, but not both"
        ));
    }
    let links: Vec<Link<'_>> = spec
        .sub_groups
        .iter()
        .map(|group| Link { name: &group.name, parent: parent_of(group) })
        .collect();
    sub_groups::check(&links).map_err(|problem| problem.to_string())?;
    let mut children: BTreeMap<&str, usize> = BTreeMap::new();
    for link in links {
        *children.entry(link.parent).or_default() += 1;
    }
    Ok(children)
}

fn members(spec: &PodGroupSpec, children: &BTreeMap<&str, usize>, is_new: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let mut errors = Vec::new();
    let below = |name: &str| children.get(name).copied().unwrap_or_default();
    verdict.warnings.extend(too_many(spec.min_sub_group, below(""), ""));
    let mut sorted: Vec<&SubGroup> = spec.sub_groups.iter().collect();
    sorted.sort_by_key(|sub_group| sub_group.name.as_str());
    for sub_group in sorted {
        let name = &sub_group.name;
        let (has_members, wanted) = (sub_group.min_member.is_some(), sub_group.min_sub_group);
        if has_members && wanted.is_some() {
            return Verdict::deny(format!(
                "subgroup \"{name}\": minMember and minSubGroup are mutually exclusive"
            ));
        }
        if below(name) == 0 {
            if wanted.is_some() {
                errors.push(format!("subgroup \"{name}\": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)"));
            } else if !has_members {
                errors.push(format!("subgroup {name}: minMember is required"));
            }
            continue;
        }
        if has_members {
            let text = format!(
                "subgroup \"{name}\": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use minSubGroup instead"
            );
            if is_new { errors.push(text) } else { verdict.warnings.push(text) }
        }
        let who = format!("subgroup \"{name}\": ");
        verdict.warnings.extend(too_many(wanted, below(name), &who));
    }
    verdict.denial = (!errors.is_empty()).then(|| errors.join("\n"));
    verdict
}

fn too_many(wanted: Option<i32>, below: usize, who: &str) -> Option<String> {
    let wanted = usize::try_from(wanted?).ok().filter(|wanted| *wanted > below)?;
    Some(format!(
        "{who}minSubGroup ({wanted}) exceeds the number of direct child SubGroups ({below})"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict(spec: &Value, is_new: bool) -> (String, Vec<String>) {
        let group = ReviewedGroup::deserialize(&json!({"spec": spec})).expect("a pod group");
        let verdict = validate(&group, None, is_new);
        (verdict.denial.unwrap_or_default(), verdict.warnings)
    }

    #[test]
    fn the_minimum_of_a_semi_preemptible_group_is_not_raised() {
        let group =
            |spec: &Value| ReviewedGroup::deserialize(&json!({"spec": spec})).expect("a pod group");
        let semi = |members: i32, leaf: i32| {
            group(&json!({"preemptibility": "semi-preemptible", "minMember": members,
                "subGroups": [{"name": "a", "minMember": leaf}]}))
        };
        let denial = |before: &ReviewedGroup, now: &ReviewedGroup| {
            validate(now, Some(before), false).denial.unwrap_or_default()
        };
        assert_eq!(denial(&semi(3, 3), &semi(2, 3)), "");
        assert!(denial(&semi(2, 2), &semi(3, 2)).starts_with(
            "spec.minMember of a semi-preemptible pod group cannot be raised (from 2 to 3)"
        ));
        assert!(denial(&semi(2, 2), &semi(2, 3)).starts_with("spec.subGroups[a].minMember"));
        let fixed = |members: i32| {
            group(&json!({"preemptibility": "non-preemptible", "minMember": members}))
        };
        assert_eq!(denial(&fixed(2), &fixed(3)), "", "only where pods may be beyond the quota");
    }

    #[test]
    fn trees_that_make_no_sense_are_denied() {
        let table = [
            (json!({"minMember": 3}), ""),
            (
                json!({"minMember": 3, "minSubGroup": 1}),
                "minMember and minSubGroup are mutually exclusive: set minMember (3) to schedule a fixed number of pods, or set minSubGroup to require a minimum number of child SubGroups, but not both",
            ),
            (
                json!({"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]}),
                "duplicate subgroup name a",
            ),
            (
                json!({"subGroups": [{"name": "a", "parent": "p", "minMember": 1}]}),
                "parent p of a was not found",
            ),
            (
                json!({"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}),
                "cycle detected in subgroups",
            ),
            (
                json!({"subGroups": [{"name": "a", "minMember": 1, "minSubGroup": 1}]}),
                "subgroup \"a\": minMember and minSubGroup are mutually exclusive",
            ),
            (
                json!({"subGroups": [{"name": "b"}, {"name": "a", "minSubGroup": 1}]}),
                "subgroup \"a\": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)\nsubgroup b: minMember is required",
            ),
            (
                json!({"subGroups": [{"name": "a"}, {"name": "b", "parent": "a", "minMember": 1}]}),
                "",
            ),
        ];
        for (spec, wanted) in table {
            for is_new in [true, false] {
                assert_eq!(verdict(&spec, is_new), (wanted.to_owned(), Vec::new()), "{spec}");
            }
        }
    }

    #[test]
    fn older_groups_may_have_what_new_ones_may_not() {
        let spec = json!({"minSubGroup": 2, "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]});
        let middle = "subgroup \"a\": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use minSubGroup instead";
        let root = "minSubGroup (2) exceeds the number of direct child SubGroups (1)";
        assert_eq!(verdict(&spec, true), (middle.to_owned(), vec![root.to_owned()]));
        assert_eq!(
            verdict(&spec, false),
            (String::new(), vec![root.to_owned(), middle.to_owned()])
        );
    }

    #[test]
    fn chains_that_are_too_long_are_denied() {
        let parent = |number: usize| match number {
            0 => Value::Null,
            number => json!(format!("g{}", number - 1)),
        };
        let chain = |length: usize| {
            let groups: Vec<Value> = (0..length)
                .map(|number| json!({"name": format!("g{number}"), "parent": parent(number)}))
                .collect();
            verdict(&json!({"subGroups": groups}), true).0
        };
        assert_eq!(chain(12_000), "12000 subgroups; a pod group can have 4096");
        let deep = chain(4_000);
        assert_eq!(deep, "more than 64 subgroups one above the other, down to g64");
    }
}
