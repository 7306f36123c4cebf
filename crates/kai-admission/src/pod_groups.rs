//! Which pod groups are refused: the tree of sub-groups must make sense.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Verdict;

/// A pod group that is created or changed. Older objects may break one rule that new ones may not.
pub fn validate(group: &Value, is_new: bool) -> Verdict {
    match tree(&group["spec"]) {
        Err(error) => Verdict::refused(error),
        Ok(children) => members(&group["spec"], &children, is_new),
    }
}

/// Names of the sub-groups right below each; below the group itself under the empty name.
fn tree(spec: &Value) -> Result<BTreeMap<&str, Vec<&str>>, String> {
    if let (Some(members), false) = (spec["minMember"].as_i64(), spec["minSubGroup"].is_null()) {
        return Err(format!(
            "minMember and minSubGroup are mutually exclusive: set minMember ({members}) to schedule a fixed number of pods, or set minSubGroup to require a minimum number of child SubGroups, but not both"
        ));
    }
    let mut parents: BTreeMap<&str, &str> = BTreeMap::new();
    for sub_group in sub_groups(spec) {
        let name = sub_group["name"].as_str().unwrap_or_default();
        let parent = sub_group["parent"].as_str().unwrap_or_default();
        if parents.insert(name, parent).is_some() {
            return Err(format!("duplicate subgroup name {name}"));
        }
    }
    for (name, parent) in &parents {
        if !parent.is_empty() && !parents.contains_key(parent) {
            return Err(format!("parent {parent} of {name} was not found"));
        }
    }
    for name in parents.keys() {
        let mut seen = BTreeSet::new();
        let mut next = *name;
        while !next.is_empty() {
            if !seen.insert(next) {
                return Err("cycle detected in subgroups".to_owned());
            }
            next = parents.get(next).copied().unwrap_or_default();
        }
    }
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, parent) in parents {
        children.entry(parent).or_default().push(name);
    }
    Ok(children)
}

fn members(spec: &Value, children: &BTreeMap<&str, Vec<&str>>, is_new: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let mut errors = Vec::new();
    let below = |name: &str| children.get(name).map_or(0, Vec::len);
    too_many(spec, below(""), "", &mut verdict);
    let mut sorted: Vec<&Value> = sub_groups(spec).collect();
    sorted.sort_by_key(|sub_group| sub_group["name"].as_str());
    for sub_group in sorted {
        let name = sub_group["name"].as_str().unwrap_or_default();
        let has_members = !sub_group["minMember"].is_null();
        let has_sub_groups = !sub_group["minSubGroup"].is_null();
        if has_members && has_sub_groups {
            return Verdict::refused(format!(
                "subgroup \"{name}\": minMember and minSubGroup are mutually exclusive"
            ));
        }
        if below(name) == 0 {
            if has_sub_groups {
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
        too_many(sub_group, below(name), &format!("subgroup \"{name}\": "), &mut verdict);
    }
    verdict.refused = (!errors.is_empty()).then(|| errors.join("\n"));
    verdict
}

fn too_many(of: &Value, below: usize, who: &str, verdict: &mut Verdict) {
    if let Some(wanted) = of["minSubGroup"].as_u64().filter(|wanted| *wanted > below as u64) {
        verdict.warnings.push(format!(
            "{who}minSubGroup ({wanted}) exceeds the number of direct child SubGroups ({below})"
        ));
    }
}

fn sub_groups(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["subGroups"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(spec: &Value, is_new: bool) -> (String, Vec<String>) {
        let verdict = validate(&json!({"spec": spec}), is_new);
        (verdict.refused.unwrap_or_default(), verdict.warnings)
    }

    #[test]
    fn trees_that_make_no_sense_are_refused() {
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
                assert_eq!(told(&spec, is_new), (wanted.to_owned(), Vec::new()), "{spec}");
            }
        }
    }

    #[test]
    fn older_groups_may_have_what_new_ones_may_not() {
        let spec = json!({"minSubGroup": 2, "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]});
        let middle = "subgroup \"a\": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use minSubGroup instead";
        let root = "minSubGroup (2) exceeds the number of direct child SubGroups (1)";
        assert_eq!(told(&spec, true), (middle.to_owned(), vec![root.to_owned()]));
        assert_eq!(told(&spec, false), (String::new(), vec![root.to_owned(), middle.to_owned()]));
    }
}
