//! The threads of `kai run`, which are few however many cores there are.

use anyhow::Context;
use tokio::runtime::{Builder, Handle, Runtime};

/// Each has connections of its own, so that neither a plan nor what others request delays a lease.
pub(crate) struct Threads {
    /// The thread of the caller: watches, writes, and the plans of the only shard. Several threads would wake each other for each
    /// event, and took 40 % more CPU time.
    work: Runtime,
    /// Leases alone.
    elections: Runtime,
    /// What others request: one for a snapshot, which may take seconds, while the other answers webhooks and probes.
    listening: Runtime,
}

impl Threads {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self {
            work: built(&mut Builder::new_current_thread())?,
            elections: beside("kai-lease", 1)?,
            listening: beside("kai-listen", 2)?,
        })
    }

    pub(crate) fn elections(&self) -> Handle {
        self.elections.handle().clone()
    }

    pub(crate) fn listening(&self) -> Handle {
        self.listening.handle().clone()
    }

    /// Works until `work` is done.
    pub(crate) fn run<T>(self, work: impl Future<Output = T>) -> T {
        let done = self.work.block_on(work);
        // A snapshot that is being made must not delay the end of the process.
        self.listening.shutdown_background();
        self.elections.shutdown_background();
        done
    }
}

fn beside(name: &str, threads: usize) -> anyhow::Result<Runtime> {
    built(Builder::new_multi_thread().worker_threads(threads).thread_name(name))
}

fn built(runtime: &mut Builder) -> anyhow::Result<Runtime> {
    runtime.enable_all().build().context("cannot start the runtime")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use kai_api::function::Function;
    use kai_client::env::Env;
    use kai_client::lease::{self, Election};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that has one lease, and reports each renewal.
    fn api_server(renewals: Sender<()>) -> Client {
        let transport = tower::service_fn(move |request: http::Request<Body>| {
            let renewals = renewals.clone();
            async move {
                let is_renewal = request.method() == http::Method::PUT;
                let sent = request.into_body().collect_bytes().await?;
                let lease: Value = serde_json::from_slice(&sent)
                    .unwrap_or_else(|_| json!({"metadata": {"name": "binder"}, "spec": {}}));
                if is_renewal {
                    renewals.send(()).expect("the test waits");
                }
                anyhow::Ok(http::Response::new(Body::from(serde_json::to_vec(&lease)?)))
            }
        });
        Client::new(transport, "default")
    }

    #[test]
    fn plans_do_not_delay_leases() {
        let threads = Threads::start().expect("threads");
        let elections = threads.elections();
        let (renewed, renewals) = channel();
        threads.run(async move {
            let client = elections.spawn(async { api_server(renewed) }).await.expect("a client");
            let access = lease::Access { client, env: Env::of_process().on(elections) };
            let election =
                Election { identity: "test".to_owned(), namespace: "kai-scheduler".to_owned() };
            let leases = [(Function::Binder, "binder".to_owned())];
            let (turns, _received) = tokio::sync::mpsc::channel(1);
            let gates = lease::start(&access, &election, &leases, &turns);
            // As a plan does, this leaves no time to anything else of this thread.
            for _ in 0..3 {
                renewals.recv_timeout(Duration::from_mins(1)).expect("a renewal");
            }
            assert!(gates.of(Function::Binder).is_open());
        });
    }
}
