//! The right of a leader to write, and until when. A gate closes by itself when its lease was not renewed in time, even if no
//! task is left to close it. It counts uptime: a wall clock that steps back keeps no gate open.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kai_core::time::Span;
use kube::Client;
use kube::client::Body;

use crate::env::Env;

const ALWAYS: i64 = i64::MAX;
const NEVER: i64 = i64::MIN;

/// Whether something may be written now.
#[derive(Clone)]
pub struct Gate {
    env: Env,
    until: Arc<AtomicI64>,
    /// Closed with this one.
    within: Option<Arc<AtomicI64>>,
}

/// A write that came too late.
#[derive(Debug, thiserror::Error)]
#[error("not the leader: nothing was written")]
pub struct NotLeading;

impl Gate {
    /// A gate that stays open.
    pub fn open(env: Env) -> Self {
        Self { env, until: Arc::new(AtomicI64::new(ALWAYS)), within: None }
    }

    /// A gate that is closed at first.
    pub fn closed(env: Env) -> Self {
        Self { env, until: Arc::new(AtomicI64::new(NEVER)), within: None }
    }

    /// A closed gate that is never open while this one is closed.
    #[must_use]
    pub fn inner(&self) -> Self {
        let mut gate = Self::closed(self.env.clone());
        gate.within = Some(Arc::clone(&self.until));
        gate
    }

    /// Opens it until the process has been up for this long.
    pub fn open_until(&self, uptime: Span) {
        self.until.store(uptime.nanos, Ordering::SeqCst);
    }

    /// Closes the gate at once; later writes fail as not the leader.
    pub fn close(&self) {
        self.until.store(NEVER, Ordering::SeqCst);
    }

    /// Whether writes may pass now.
    pub fn is_open(&self) -> bool {
        let now = self.env.uptime().nanos;
        let open = |until: &Arc<AtomicI64>| until.load(Ordering::SeqCst) > now;
        open(&self.until) && self.within.as_ref().is_none_or(open)
    }

    /// A client that reads always and writes only while the gate is open.
    pub fn client(&self, client: &Client) -> Client {
        if self.until.load(Ordering::SeqCst) == ALWAYS {
            return client.clone();
        }
        let (gate, namespace) = (self.clone(), client.default_namespace().to_owned());
        let client = client.clone();
        let transport = tower::service_fn(move |request: http::Request<Body>| {
            let (gate, client) = (gate.clone(), client.clone());
            async move {
                if request.method() != http::Method::GET && !gate.is_open() {
                    return Err(tower::BoxError::from(NotLeading));
                }
                client.send(request).await.map_err(tower::BoxError::from)
            }
        });
        Client::new(transport, namespace)
    }
}

#[cfg(test)]
mod tests {
    use kai_core::time::Timestamp;
    use kai_translate::time::seconds;

    use super::*;
    use crate::env::{Clock, TokioSpawner, Work};

    /// A wall clock that can be set, beside an uptime that only grows.
    #[derive(Default)]
    struct Clocks {
        wall: AtomicI64,
        uptime: AtomicI64,
    }

    impl Clocks {
        fn pass(&self, span: Span) {
            self.wall.fetch_add(span.nanos, Ordering::SeqCst);
            self.uptime.fetch_add(span.nanos, Ordering::SeqCst);
        }
    }

    impl Clock for Clocks {
        fn now(&self) -> Timestamp {
            Timestamp { nanos: self.wall.load(Ordering::SeqCst) }
        }

        fn sleep(&self, _: Span) -> Work {
            Box::pin(std::future::pending())
        }

        fn uptime(&self) -> Span {
            Span { nanos: self.uptime.load(Ordering::SeqCst) }
        }
    }

    #[test]
    fn gate_closes_in_time_although_the_wall_clock_steps_back() {
        let clocks = Arc::new(Clocks::default());
        let env = Env::new(clocks.clone(), Arc::new(TokioSpawner));
        let gate = Gate::closed(env.clone());
        gate.open_until(Span { nanos: env.uptime().nanos + seconds(10).nanos });
        clocks.pass(seconds(9));
        clocks.wall.fetch_sub(seconds(3600).nanos, Ordering::SeqCst);
        assert!(gate.is_open());
        clocks.pass(seconds(2));
        assert!(!gate.is_open(), "the lease expired eleven seconds after it was renewed");
    }
}
