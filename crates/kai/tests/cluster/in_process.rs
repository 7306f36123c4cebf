//! `kai` in this process, over a transport that tests decide about; and one that dies after so many writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use kai_client::client;
use kai_client::env::Env;
use kai_control::run::{self, Connections};
use kai_settings::binder::{BinderSettings, ReservationSettings};
use kai_settings::flags::{Flagged, apply};
use kai_settings::planner::Settings;
use kai_settings::status::Duties;
use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;

use crate::world::World;

/// `kai` with everything in it, with the rights of its account, until it is dropped.
pub(crate) struct InProcessKai(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

impl InProcessKai {
    /// Starts it over what `wrap` makes of its client.
    pub(crate) async fn start(
        world: &World,
        reservation: ReservationSettings,
        wrap: impl FnOnce(Client) -> Client + Send + 'static,
    ) -> Self {
        let (end, ended) = oneshot::channel();
        let kubeconfig = world.kubeconfig("kai").await;
        let settings = settings(world, reservation);
        let thread = std::thread::spawn(move || live(&kubeconfig, settings, wrap, ended));
        Self(Some((end, thread)))
    }
}

impl Drop for InProcessKai {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            let _ = end.send(());
            thread.join().expect("it ended");
        }
    }
}

/// In a runtime of its own, so that everything of it ends with it.
fn live(
    kubeconfig: &Path,
    settings: Settings,
    wrap: impl FnOnce(Client) -> Client,
    ended: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let client = wrap(client::connect(Some(kubeconfig)).await.expect("a client"));
        let (_silence, questions) = kai_control::serve::questions();
        let end = async { drop(ended.await) };
        run::run(Connections::new(client, Env::real(), questions), settings, end).await;
    });
    runtime.shutdown_background();
}

/// One that dies after so many writes.
pub(crate) struct DyingKai {
    /// Writes that were executed or attempted.
    attempted: Arc<AtomicUsize>,
    writes: usize,
    _kai: InProcessKai,
}

impl DyingKai {
    /// Carries so many writes out; the next one, and all that follow, are never sent.
    pub(crate) async fn start(world: &World, writes: usize) -> Self {
        Self::start_with(world, writes, ReservationSettings::default()).await
    }

    /// The same with these reservations.
    pub(crate) async fn start_with(
        world: &World,
        writes: usize,
        reservation: ReservationSettings,
    ) -> Self {
        let attempted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempted);
        let wrap = move |client| dying_client(client, writes, counted);
        let kai = InProcessKai::start(world, reservation, wrap).await;
        Self { attempted, writes, _kai: kai }
    }

    /// It wanted to write once more than it may.
    pub(crate) fn is_dead(&self) -> bool {
        self.attempted.load(Ordering::SeqCst) > self.writes
    }
}

/// A client whose writes beyond the first few are never answered, and never sent.
fn dying_client(client: Client, writes: usize, attempted: Arc<AtomicUsize>) -> Client {
    let transport = tower::service_fn(move |request: http::Request<Body>| {
        let (client, attempted) = (client.clone(), Arc::clone(&attempted));
        async move {
            let writing = request.method() != http::Method::GET;
            if writing && attempted.fetch_add(1, Ordering::SeqCst) >= writes {
                std::future::pending::<()>().await;
            }
            client.send(request).await.map_err(tower::BoxError::from)
        }
    });
    Client::new(transport, "default")
}

/// As `kai run` would be set up for this cluster, but without events and conditions: only the writes of binds count.
fn settings(world: &World, reservation: ReservationSettings) -> Settings {
    let name = world.name;
    let mut flagged = Flagged::default();
    for flag in ["scheduler-name", "resource-reservation-app-label"] {
        apply(&mut flagged, flag, name).expect("a flag");
    }
    if let Some(pool) = world.pool {
        apply(&mut flagged, "partition-label-value", pool).expect("a flag");
    }
    let mut settings = flagged.settings;
    settings.config.params.node_pool = settings.partition.name().map(Into::into);
    settings.status.duties = Duties { verdicts: false, groups: false, queues: false };
    settings.binder = Some(BinderSettings {
        scheduler_name: name.to_owned(),
        reservation: ReservationSettings { app_label: name.to_owned(), ..reservation },
        ..BinderSettings::default()
    });
    settings
}
