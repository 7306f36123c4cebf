//! Test programs that drive other processes (API servers, kubelets, container runtimes) depend on when those get
//! the processor. One of them that fails is run once more, alone, and the table says so. All others must pass at once.

use crate::tally::Tally;

/// Targets that start processes which are not ours.
const WITH_OTHER_PROCESSES: [[&str; 4]; 6] = [
    ["-p", "kai", "--test", "cluster"],
    ["-p", "kai", "--test", "e2e"],
    ["-p", "kai", "--test", "quick_start"],
    ["-p", "kai", "--test", "realnode"],
    ["-p", "kai-embed", "--test", "conformance"],
    ["-p", "kai-testenv", "--test", "control_plane"],
];

/// Targets of which cargo says in the end that they failed.
#[derive(Debug, Default)]
pub(crate) struct FailedTargets(Vec<String>);

impl FailedTargets {
    pub(crate) fn read_line(&mut self, line: &str) {
        let named = line.strip_prefix("    `-p ").and_then(|line| line.strip_suffix('`'));
        self.0.extend(named.map(|target| format!("-p {target}")));
    }

    /// All that failed, where each of them may be run once more.
    fn all_allowed(&self) -> Option<Vec<&'static [&'static str; 4]>> {
        let known =
            |target: &String| WITH_OTHER_PROCESSES.iter().find(|it| it.join(" ") == *target);
        self.0.iter().map(known).collect()
    }
}

/// Runs what failed once more, unless something failed that must not. `first` is what the first run counted.
pub(crate) fn of(
    failed: &FailedTargets,
    first: Tally,
    run: impl Fn(&[&str]) -> anyhow::Result<Tally>,
) -> anyhow::Result<Tally> {
    let Some(targets) = failed.all_allowed().filter(|targets| !targets.is_empty()) else {
        return Ok(first);
    };
    let mut again = Tally::default();
    for target in &targets {
        println!("\n== second try: {} ==", target.join(" "));
        again += run(target.as_slice())?;
    }
    if again.failed > 0 {
        return Ok(first);
    }
    let second_tries = i64::try_from(targets.len())?;
    Ok(Tally { passed: first.passed + first.failed, failed: 0, second_tries, ..first })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Tally = Tally { passed: 7, failed: 2, skipped: 1, second_tries: 0 };

    fn failed(targets: &[&str]) -> FailedTargets {
        let mut failed = FailedTargets::default();
        failed.read_line("error: some targets failed:");
        for target in targets {
            failed.read_line(&format!("    `{target}`"));
        }
        failed
    }

    #[test]
    fn what_passes_when_run_again_counts_and_is_told() {
        let well = |_: &[&str]| Ok(Tally::of_one(true));
        let tally = of(&failed(&["-p kai --test e2e", "-p kai --test cluster"]), FIRST, well);
        let tally = tally.expect("a tally");
        assert_eq!(tally, Tally { passed: 9, failed: 0, skipped: 1, second_tries: 2 });
        assert!(tally.to_string().contains("2 TEST PROGRAMS PASSED ONLY AT THE SECOND TRY"));
    }

    #[test]
    fn what_fails_again_has_failed() {
        let badly = |_: &[&str]| Ok(Tally::of_one(false));
        assert_eq!(of(&failed(&["-p kai --test e2e"]), FIRST, badly).expect("a tally"), FIRST);
    }

    #[test]
    fn nothing_else_is_run_again() {
        for targets in
            [&["-p kai-core --lib"][..], &["-p kai --test e2e", "-p kai-core --lib"], &[]]
        {
            let never = |_: &[&str]| panic!("run again");
            assert_eq!(of(&failed(targets), FIRST, never).expect("a tally"), FIRST);
        }
    }
}
