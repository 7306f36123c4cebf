//! Who may write, and until when. A gate closes by itself when the lease behind it was not renewed in time, even if nobody
//! is left to close it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kai_core::time::Timestamp;
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
#[error("somebody else leads: nothing is written")]
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

    /// Opens it until a moment.
    pub fn open_until(&self, moment: Timestamp) {
        self.until.store(moment.nanos, Ordering::SeqCst);
    }

    /// Closes it.
    pub fn close(&self) {
        self.until.store(NEVER, Ordering::SeqCst);
    }

    /// Is it open?
    pub fn is_open(&self) -> bool {
        let now = self.env.now().nanos;
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
