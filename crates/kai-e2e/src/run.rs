//! The list is run and counted.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use tokio::sync::Mutex;

use crate::cases::Case;
use crate::cluster::Cluster;
use crate::test_space::TestSpace;

/// How a case ended.
#[derive(Debug)]
pub struct Outcome {
    /// KAI's suite of the case.
    pub suite: &'static str,
    /// Name of the case.
    pub name: &'static str,
    /// Why the case failed; none: it passed.
    pub failure: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Runs cases, `at_once` at a time.
pub async fn run(cluster: &Arc<dyn Cluster>, cases: Vec<Case>, at_once: usize) -> Vec<Outcome> {
    let admission_turn = Arc::default();
    let numbered = cases.into_iter().enumerate();
    let running =
        stream::iter(numbered.map(|(number, case)| {
            run_one(cluster.clone(), number, case, Arc::clone(&admission_turn))
        }));
    let mut outcomes: Vec<Outcome> = running.buffer_unordered(at_once).collect().await;
    outcomes.sort_by_key(|outcome| (outcome.suite, outcome.name));
    outcomes
}

async fn run_one(
    cluster: Arc<dyn Cluster>,
    number: usize,
    case: Case,
    admission_turn: Arc<Mutex<()>>,
) -> Outcome {
    let started = Instant::now();
    let ended = async {
        let space = TestSpace::open(cluster, &format!("e2e-{number}"), admission_turn).await?;
        let ended = (case.run)(&space).await;
        space.close().await;
        ended
    };
    let failure = ended.await.err().map(|error| format!("{error:#}"));
    Outcome { suite: case.suite, name: case.name, failure, took: started.elapsed() }
}

/// Cases that are not played on this cluster, and why.
pub fn left_out(why: &str, cases: &[Case]) -> String {
    let mut text = format!("not on this cluster: {why}\n");
    for case in cases {
        let _ = writeln!(text, "  {}: {}", case.suite, case.name);
    }
    text
}

/// What went wrong, then a line per suite.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        if let Some(failure) = &outcome.failure {
            let _ = writeln!(text, "FAILED {}: {}\n  {failure}", outcome.suite, outcome.name);
        }
    }
    let mut suites: Vec<&str> = outcomes.iter().map(|outcome| outcome.suite).collect();
    suites.dedup();
    let _ = writeln!(text, "{:<16}{:>8}{:>8}{:>10}", "suite", "passed", "failed", "slowest");
    for suite in suites {
        let of_suite = || outcomes.iter().filter(|outcome| outcome.suite == suite);
        let failed = of_suite().filter(|outcome| outcome.failure.is_some()).count();
        let slowest = of_suite().map(|outcome| outcome.took).max().unwrap_or_default();
        let passed = of_suite().count() - failed;
        let _ = writeln!(text, "{suite:<16}{passed:>8}{failed:>8}{:>8.1} s", slowest.as_secs_f64());
    }
    text
}
