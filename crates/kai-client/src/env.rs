//! Time and concurrency as inputs: nothing here asks the system for them but [`Env::real`].

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use kai_core::time::{Span, Timestamp};
use tokio::runtime::Handle;

/// A future on the heap.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Clock and timers: the system's, or virtual ones in tests.
pub trait Clock: Send + Sync {
    /// Wall-clock time, which may step.
    fn now(&self) -> Timestamp;
    /// Waits for a span.
    fn sleep(&self, span: Span) -> Work;
    /// Time since an arbitrary start. Unlike [`Clock::now`] it never steps, whatever is done to the wall clock.
    fn uptime(&self) -> Span;
}

/// Starts work beside the caller's.
pub trait Spawner: Send + Sync {
    /// Starts `work`; `name` is for people.
    fn spawn(&self, name: &'static str, work: Work);

    /// Starts `work` that computes for long, so that nothing else waits for it where that is possible.
    fn spawn_computing(&self, name: &'static str, work: Work) {
        self.spawn(name, work);
    }
}

/// Time and concurrency of a process; no other code asks the system for them.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
}

impl Env {
    /// An environment of these parts.
    pub fn new(clock: Arc<dyn Clock>, spawner: Arc<dyn Spawner>) -> Self {
        Self { clock, spawner }
    }

    /// The system's clock and the current tokio runtime.
    pub fn real() -> Self {
        Self::new(Arc::new(SystemClock { start: Instant::now() }), Arc::new(TokioSpawner))
    }

    /// The system's clock, the current tokio runtime, and threads for what computes for long.
    pub fn of_process() -> Self {
        Self::new(Arc::new(SystemClock { start: Instant::now() }), Arc::new(ThreadSpawner))
    }

    /// The same clock, with another tokio runtime.
    #[must_use]
    pub fn on(&self, runtime: Handle) -> Self {
        Self { clock: Arc::clone(&self.clock), spawner: Arc::new(RuntimeSpawner(runtime)) }
    }

    /// Wall-clock time, which may step.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits for a span.
    pub fn sleep(&self, span: Span) -> Work {
        self.clock.sleep(span)
    }

    /// Time since an arbitrary start, which never steps: for rights that expire.
    pub fn uptime(&self) -> Span {
        self.clock.uptime()
    }

    /// Waits until a moment; for ever where there is none.
    pub async fn sleep_until(&self, moment: Option<Timestamp>) {
        match moment {
            Some(moment) => self.sleep(moment.since(self.now())).await,
            None => std::future::pending().await,
        }
    }

    /// Starts work beside the caller's.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawner.spawn(name, Box::pin(work));
    }

    /// Starts work that computes for long.
    pub fn spawn_computing(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawner.spawn_computing(name, Box::pin(work));
    }
}

/// The span as a duration; none for negative ones.
pub fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.nanos).unwrap_or_default())
}

struct SystemClock {
    start: Instant,
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system's clock is read")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { nanos: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
    }

    fn sleep(&self, span: Span) -> Work {
        Box::pin(tokio::time::sleep(duration(span)))
    }

    fn uptime(&self) -> Span {
        Span { nanos: i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX) }
    }
}

/// Starts work on the current tokio runtime.
pub struct TokioSpawner;

impl Spawner for TokioSpawner {
    fn spawn(&self, name: &'static str, work: Work) {
        tracing::trace!(name, "starts");
        tokio::spawn(or_abort(name, work));
    }
}

/// Starts work on the current tokio runtime, and what computes for long on a thread of its own, which uses that runtime for its waits.
struct ThreadSpawner;

impl Spawner for ThreadSpawner {
    fn spawn(&self, name: &'static str, work: Work) {
        TokioSpawner.spawn(name, work);
    }

    fn spawn_computing(&self, name: &'static str, work: Work) {
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name(format!("kai-{name}"));
        let started = thread.spawn(move || runtime.block_on(or_abort(name, work)));
        if let Err(error) = started {
            tracing::error!(name, %error, "no thread can be started, ending the process");
            std::process::abort();
        }
    }
}

/// Starts work on one tokio runtime, whichever asks.
struct RuntimeSpawner(Handle);

impl Spawner for RuntimeSpawner {
    fn spawn(&self, name: &'static str, work: Work) {
        tracing::trace!(name, "starts");
        self.0.spawn(or_abort(name, work));
    }
}

/// A process that continued without one of its tasks would look healthy and do nothing.
async fn or_abort(name: &'static str, work: Work) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        tracing::error!(name, "a task panicked, ending the process");
        std::process::abort();
    }
}
