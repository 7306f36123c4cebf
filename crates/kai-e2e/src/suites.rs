//! The list of KAI's cases, `suites.md`: which of them are here, and why others are not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The list, as people read it.
const LIST: &str = include_str!("../suites.md");
const NOT_HERE: &str = "not here: ";
const TEST: &str = "test: ";

/// A case of KAI's suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// KAI's suite, as `suites.md` names it.
    pub suite: &'static str,
    /// KAI's name of the case.
    pub row: &'static str,
    /// What there is of it here.
    pub here: Here,
}

/// What there is of a case here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// The case of this name.
    Case(&'static str),
    /// A test that needs more than the list has, such as Helm and a kubelet: program, module and function.
    Test(&'static str),
    /// Nothing, for this reason.
    Missing(&'static str),
}

/// Every line of the list.
pub fn listed() -> impl Iterator<Item = Listed> {
    let rows = LIST.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.skip(1).filter_map(|line| {
        let mut cells = line.splitn(3, " | ");
        let (suite, row, here) = (cells.next()?, cells.next()?, cells.next()?);
        let here = match (here.strip_prefix(NOT_HERE), here.strip_prefix(TEST)) {
            (Some(why), _) => Here::Missing(why),
            (_, Some(test)) => Here::Test(test),
            _ => Here::Case(here),
        };
        Some(Listed { suite, row, here })
    })
}

/// The cases that are not here, by reason.
pub fn missing() -> BTreeMap<&'static str, Vec<Listed>> {
    let mut missing: BTreeMap<&str, Vec<Listed>> = BTreeMap::new();
    for one in listed() {
        if let Here::Missing(why) = one.here {
            missing.entry(why).or_default().push(one);
        }
    }
    missing
}

/// The cases that are not here, for people.
pub fn missing_table() -> String {
    let mut text = String::new();
    for (why, cases) in missing() {
        let _ = writeln!(text, "not here: {why}");
        for case in cases {
            let _ = writeln!(text, "  {}: {}", case.suite, case.row);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cases;

    #[test]
    fn every_case_stands_in_the_list_once() {
        let mut in_list = BTreeSet::new();
        for one in listed() {
            if let Here::Case(name) = one.here {
                assert!(in_list.insert((one.suite, name)), "{one:?} stands there twice");
            }
        }
        let mut written = BTreeSet::new();
        for case in cases::all() {
            assert!(written.insert((case.suite, case.name)), "two cases {}", case.name);
        }
        let unlisted: Vec<_> = written.difference(&in_list).collect();
        let unwritten: Vec<_> = in_list.difference(&written).collect();
        assert!(unlisted.is_empty(), "suites.md does not list {unlisted:?}");
        assert!(unwritten.is_empty(), "suites.md lists cases that do not exist: {unwritten:?}");
    }

    #[test]
    fn tests_that_play_cases_of_kai_exist_and_run() {
        let tests: BTreeSet<_> = listed()
            .filter_map(|one| match one.here {
                Here::Test(test) => Some((one.suite, test)),
                _ => None,
            })
            .collect();
        assert!(!tests.is_empty());
        for (suite, test) in tests {
            let (place, function) = test.rsplit_once("::").expect("module::function");
            let (program, module) = place.split_once(' ').expect("program module");
            let file = format!("{}/../kai/tests/{program}/{module}.rs", env!("CARGO_MANIFEST_DIR"));
            let source = std::fs::read_to_string(&file).expect(&file);
            let runs = source.contains(&format!("#[test]\nfn {function}() {{"));
            assert!(runs || is_ignored_on_purpose(suite, &source, function), "{test}");
        }
    }

    /// Whether the test has a reason to be ignored, and the list says how to run it.
    fn is_ignored_on_purpose(suite: &str, source: &str, function: &str) -> bool {
        let (before, _) = source.split_once(&format!("\nfn {function}() {{")).unwrap_or_default();
        let mut attributes = before.lines().rev();
        let has_reason = attributes.next().is_some_and(|line| line.starts_with("#[ignore = "));
        let says_how = |line: &str| {
            line.starts_with(&format!("- {suite}:")) && line.contains("run with `--ignored`")
        };
        has_reason && attributes.next() == Some("#[test]") && LIST.lines().any(says_how)
    }

    #[test]
    fn suites_list_the_replacements_on_a_server_without_claims() {
        let here: Vec<_> = cases::all().iter().map(|case| (case.suite, case.name)).collect();
        let there: BTreeSet<_> =
            cases::without_claims().iter().map(|case| (case.suite, case.name)).collect();
        let left_out: Vec<_> = here.iter().filter(|case| !there.contains(case)).collect();
        assert!(left_out.iter().all(|(_, name)| name.starts_with("DRA")), "{left_out:?}");
        assert_eq!(left_out.len(), cases::with_claims().len());
        for (suite, name) in there.iter().filter(|case| !here.contains(case)) {
            let line = format!("- {suite}: {name}\n");
            assert!(LIST.contains(&line), "suites.md does not say {line:?}");
        }
    }

    #[test]
    fn at_least_three_of_four_are_here() {
        let here = listed().filter(|one| matches!(one.here, Here::Case(_))).count();
        assert!(here >= 150 && 4 * here >= 3 * listed().count(), "{here}");
        assert!(missing().keys().all(|why| !why.trim().is_empty()));
    }
}
