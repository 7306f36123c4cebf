//! Leader election: one lease per function under the name that KAI's component uses, so that the two never act at once.
//!
//! The first function of a process is elected first; only while it leads, the others are candidates. Two processes with the
//! same functions therefore never share them. A process that does not lead watches all the same and takes over warm.

mod gate;
mod record;

use std::collections::BTreeSet;

use kai_core::time::Span;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};

pub use gate::{Gate, NotLeading};
pub use record::{Candidate, Step, Timing};

use crate::env::Env;
use crate::failure::Failure;
use crate::request::send;
use crate::write::{Outcome, read};
use kai_api::function::Function;

/// Turns of the first function that a follower may not have received yet.
const FOLLOWED_TURNS: usize = 8;

/// How leaders are elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Holder identity of this process: pod name, underscore, something unique.
    pub identity: String,
    /// Where the leases are.
    pub namespace: String,
}

/// A function began or ceased to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The function whose leadership changed.
    pub function: Function,
    /// True when this process acquired the lease, false when it lost the lease.
    pub leads: bool,
}

/// The gates of the functions of a process.
pub struct Gates {
    first: Gate,
    inner: Vec<(Function, Gate)>,
}

impl Gates {
    /// Gates that stay open, for processes without leader election.
    pub fn open(env: &Env) -> Self {
        Self { first: Gate::open(env.clone()), inner: Vec::new() }
    }

    /// The gate of the whole process.
    pub fn of_process(&self) -> &Gate {
        &self.first
    }

    /// The gate of a function; functions without a lease have the gate of the process.
    pub fn of(&self, function: Function) -> &Gate {
        let own = self.inner.iter().find(|(one, _)| *one == function);
        own.map_or(&self.first, |(_, gate)| gate)
    }
}

/// What elections write with, and where they run: apart from plans and other writes where these may delay a renewal.
#[derive(Clone)]
pub struct Access {
    /// Connections to the API server.
    pub client: Client,
    /// Time, and the runtime of the elections.
    pub env: Env,
}

/// Starts the elections of these functions. Every change of leadership is sent to `turns`.
pub fn start(
    access: &Access,
    election: &Election,
    leases: &[(Function, String)],
    turns: &Sender<Turn>,
) -> Gates {
    let Access { client, env } = access;
    let first = Gate::closed(env.clone());
    let mut followers = Vec::new();
    let mut inner = Vec::new();
    let mut elections = Vec::new();
    for (function, lease) in leases {
        let timing = match function {
            Function::Scheduler => Timing::SCHEDULER,
            _ => Timing::CONTROLLER,
        };
        let gate = if elections.is_empty() { first.clone() } else { first.inner() };
        let runner = Elections {
            client: client.clone(),
            env: env.clone(),
            candidate: Candidate::new(&election.identity, &election.namespace, lease, timing),
            function: *function,
            gate: gate.clone(),
            turns: turns.clone(),
            own_lease: None,
        };
        if !elections.is_empty() {
            let (follower, leader) = channel(FOLLOWED_TURNS);
            followers.push(follower);
            inner.push((*function, gate, leader));
        }
        elections.push(runner);
    }
    let mut elections = elections.into_iter();
    if let Some(runner) = elections.next() {
        env.spawn("lease", until_receiver_drops(turns.clone(), runner.run_first(followers)));
    }
    let mut gates = Vec::new();
    for (runner, (function, gate, leader)) in elections.zip(inner) {
        gates.push((function, gate));
        env.spawn("lease", until_receiver_drops(turns.clone(), runner.run_within(leader)));
    }
    Gates { first, inner: gates }
}

/// An election ends when the receiver of its turns is dropped.
async fn until_receiver_drops(turns: Sender<Turn>, election: impl Future<Output = ()>) {
    tokio::select! { biased;
        () = turns.closed() => {}
        () = election => {}
    }
}

fn plus(uptime: Span, span: Span) -> Span {
    Span { nanos: uptime.nanos.saturating_add(span.nanos) }
}

/// The functions that lead.
pub type Leading = BTreeSet<Function>;

struct Elections {
    client: Client,
    env: Env,
    candidate: Candidate,
    function: Function,
    gate: Gate,
    turns: Sender<Turn>,
    /// The lease as we wrote it.
    own_lease: Option<Value>,
}

impl Elections {
    /// Is elected and unseated while turns are received; followers receive them in order.
    async fn run_first(mut self, followers: Vec<Sender<bool>>) {
        let send_to_followers = async |leads: bool| {
            for follower in &followers {
                let _ = follower.send(leads).await;
            }
        };
        loop {
            let since = self.acquire().await;
            send_to_followers(true).await;
            if self.turn(true).await.is_err() {
                return;
            }
            self.renew(since).await;
            send_to_followers(false).await;
            if self.turn(false).await.is_err() {
                return;
            }
        }
    }

    /// The same, while the first function leads.
    async fn run_within(mut self, mut first: Receiver<bool>) {
        let mut leads = false;
        loop {
            while !leads {
                let Some(now) = first.recv().await else { return };
                leads = now;
            }
            let since = tokio::select! { biased;
                now = first.recv() => {
                    leads = now.unwrap_or(false);
                    continue;
                }
                since = self.acquire() => since,
            };
            if self.turn(true).await.is_err() {
                return;
            }
            tokio::select! { biased;
                now = first.recv() => {
                    leads = now.unwrap_or(false);
                    self.gate.close();
                }
                () = self.renew(since) => {}
            }
            if self.turn(false).await.is_err() {
                return;
            }
        }
    }

    async fn turn(&self, leads: bool) -> Result<(), ()> {
        let function = self.function;
        tracing::info!(function = function.name(), leads, "leader election");
        self.turns.send(Turn { function, leads }).await.map_err(|_| ())
    }

    /// Tries until the lease is ours; the uptime when the try that succeeded began.
    async fn acquire(&mut self) -> Span {
        loop {
            if let Some(since) = self.attempt().await {
                self.gate.open_until(plus(since, self.candidate.timing().renew_deadline));
                return since;
            }
            self.env.sleep(self.candidate.timing().retry).await;
        }
    }

    /// Renews the lease until that fails for too long.
    async fn renew(&mut self, since: Span) {
        let Timing { renew_deadline, retry, .. } = self.candidate.timing();
        let mut deadline = plus(since, renew_deadline);
        loop {
            let env = self.env.clone();
            let late = env.sleep(Span { nanos: deadline.nanos - env.uptime().nanos });
            let next = async {
                self.env.sleep(retry).await;
                self.attempt().await
            };
            let renewed = tokio::select! { biased;
                renewed = next => renewed,
                () = late => None,
            };
            if let Some(since) = renewed {
                deadline = plus(since, renew_deadline);
                self.gate.open_until(deadline);
            } else if self.env.uptime().nanos >= deadline.nanos {
                self.gate.close();
                return;
            }
        }
    }

    /// One try; the uptime when it began, if it succeeded.
    async fn attempt(&mut self) -> Option<Span> {
        let began = self.env.uptime();
        match self.try_once().await {
            Ok(true) => Some(began),
            Ok(false) | Err(Failure::Conflict { .. }) => None,
            Err(failure) => {
                tracing::warn!(function = self.function.name(), %failure, "failed to acquire or renew the lease");
                None
            }
        }
    }

    async fn try_once(&mut self) -> Outcome<bool> {
        if let Some(own_lease) = self.own_lease.take()
            && let Ok(true) = self.write(Some(&own_lease)).await
        {
            return Ok(true);
        }
        let lease = read_lease(&self.client, &self.candidate).await?;
        self.write(lease.as_ref()).await
    }

    async fn write(&mut self, lease: Option<&Value>) -> Outcome<bool> {
        let (method, path, lease) =
            match self.candidate.step(lease, self.env.now(), self.env.uptime()) {
                Step::Wait => return Ok(false),
                Step::Create(lease) => ("POST", self.candidate.list_path(), lease),
                Step::Update(lease) => ("PUT", self.candidate.path(), lease),
            };
        self.own_lease = Some(send(&self.client, method, &path, None, &lease).await?);
        Ok(true)
    }
}

async fn read_lease(client: &Client, candidate: &Candidate) -> Outcome<Option<Value>> {
    read(client, &candidate.path()).await
}

/// Releases leases, all at once, so that a standby need not wait.
pub async fn release(
    client: &Client,
    env: &Env,
    election: &Election,
    leases: &[(Function, String)],
) {
    let releases = leases.iter().map(async |(function, lease)| {
        let candidate =
            Candidate::new(&election.identity, &election.namespace, lease, Timing::CONTROLLER);
        let released = async {
            let lease = read_lease(client, &candidate).await.ok().flatten()?;
            let lease = candidate.released(&lease, env.now())?;
            send::<Value>(client, "PUT", &candidate.path(), None, &lease).await.ok()
        };
        let is_released = released.await.is_some();
        tracing::debug!(function = function.name(), is_released, "released a lease");
    });
    futures::future::join_all(releases).await;
}

/// Waits for the next turn; for ever without leader election.
pub async fn next_turn(turns: &mut Option<Receiver<Turn>>) -> Turn {
    if let Some(turns) = turns
        && let Some(turn) = turns.recv().await
    {
        return turn;
    }
    std::future::pending().await
}
