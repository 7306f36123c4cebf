//! KAI's end-to-end cases on the embedded cluster, in virtual time: the answers must be those of a real API server, on which
//! `tests/e2e` runs the same list. `KAI_E2E=TEXT` runs only cases whose `suite: name` contains the text.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kai_client::env::{Env, Spawner, Work};
use kai_e2e::cases::{self, Case};
use kai_e2e::cluster::{Answer, Cluster, Running};
use kai_e2e::run::{self, Outcome};
use kai_embed::service::Embedded;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{VirtualClock, new_cluster, scheduler, virtual_time};

/// Cases that only a real cluster can carry, and why.
const ONLY_REAL: &[(&str, &str)] = &[];
/// More than this, and the embedded cluster would be a toy.
const MOST_ONLY_REAL: usize = 30;

/// A cluster of its own for each case.
struct InMemory {
    embedded: Embedded,
    clock: VirtualClock,
}

impl Cluster for InMemory {
    fn client(&self) -> Client {
        Client::new(self.embedded.clone(), "default")
    }

    fn start_kai<'a>(&'a self, arguments: &'a [String]) -> Answer<'a, anyhow::Result<Running>> {
        Box::pin(async move {
            let process = Process::default();
            let env = Env::new(Arc::new(self.clock), Arc::new(process.clone()));
            scheduler::start(&self.embedded, &env, arguments)?;
            Ok(Box::new(KilledWhenDropped(process)) as Running)
        })
    }
}

/// Everything that one `kai` started.
#[derive(Clone, Default)]
struct Process(Arc<Mutex<JoinSet<()>>>);

impl Spawner for Process {
    fn spawn(&self, _name: &'static str, work: Work) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }
}

/// Ends as a process that is killed: at once, with whatever it has under way.
struct KilledWhenDropped(Process);

impl Drop for KilledWhenDropped {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

fn play(case: Case) -> anyhow::Result<Vec<Outcome>> {
    virtual_time()?.block_on(async {
        let clock = VirtualClock(Instant::now());
        let env = Env::new(Arc::new(clock), Arc::new(Process::default()));
        let embedded = new_cluster(clock, &env)?;
        let cluster: Arc<dyn Cluster> = Arc::new(InMemory { embedded, clock });
        Ok(run::run(&cluster, vec![case], 1).await)
    })
}

/// Plays all cases, on as many threads as there are cores.
fn play_all(cases: &[Case]) -> Vec<Outcome> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut outcomes = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            outcomes.extend(play(*case).expect("a cluster"));
        }
        outcomes
    };
    let mut outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|worker| worker.join().expect("no case panics")).collect()
    });
    outcomes.sort_by_key(|outcome| (outcome.suite, outcome.name));
    outcomes
}

#[test]
fn kais_end_to_end_cases() {
    let wanted = std::env::var("KAI_E2E").unwrap_or_default();
    let mut cases = cases::all();
    cases.retain(|case| format!("{}: {}", case.suite, case.name).contains(&wanted));
    let outcomes = play_all(&cases);
    let table = run::table(&outcomes);
    let _ = std::io::stderr().write_all(table.as_bytes());
    assert!(ONLY_REAL.len() <= MOST_ONLY_REAL);
    let only_real = |outcome: &Outcome| ONLY_REAL.iter().any(|(name, _)| *name == outcome.name);
    for outcome in &outcomes {
        match (&outcome.failure, only_real(outcome)) {
            (Some(_), true) | (None, false) => {}
            (Some(_), false) => panic!("{table}"),
            (None, true) => panic!("{} passes here too: it is no longer special", outcome.name),
        }
    }
}

#[test]
fn cases_that_only_a_real_cluster_can_carry_exist() {
    let cases = cases::all();
    for (name, why) in ONLY_REAL {
        assert!(cases.iter().any(|case| case.name == *name), "there is no case {name:?}");
        assert!(!why.is_empty(), "{name:?} without a reason");
    }
}
