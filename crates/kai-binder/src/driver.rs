//! The binder at work: changes and reports in, orders carried out beside.

use kai_api::BindRequest;
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::watch::{Change, Lists, watch};
use kai_client::write::Writer;
use kai_core::input::ObjectName;
use kai_serve::metrics_text::Page;
use tokio::sync::mpsc::{Sender, channel};

use super::writes::{self, Report};
use super::{Binder, BinderSettings, EndedBind, LocalId};

/// Input of the binder: the outcome of an order, or a change.
#[derive(Debug)]
pub struct BinderReport(DriverInput);

#[derive(Debug)]
enum DriverInput {
    /// What came of an order.
    Report(Report),
    /// A change of a kind that only the binder watches.
    Change(Box<Change>),
}

/// Kinds that only the binder watches.
const OWN_KINDS: [Kind; 2] = [Kind::RuntimeClass, Kind::ClusterPolicy];

/// The binder at work.
pub struct Driver {
    binder: Binder,
    writer: Writer,
    env: Env,
    reports: Sender<BinderReport>,
}

impl Driver {
    /// A binder that knows nothing yet; what comes of its orders goes to `reports`. One that does not lead follows the
    /// cluster and does nothing.
    pub fn new(
        writer: Writer,
        env: Env,
        settings: BinderSettings,
        leads: bool,
        lists: Lists,
        reports: Sender<BinderReport>,
    ) -> Self {
        for kind in OWN_KINDS {
            follow(writer.client(), &env, kind, lists, &reports);
        }
        let mut binder = Binder::new(settings);
        binder.set_leading(leads);
        Self { binder, writer, env, reports }
    }

    /// It begins or ceases to lead.
    pub fn set_leading(&mut self, leads: bool) {
        self.binder.set_leading(leads);
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: &Change) {
        self.binder.apply(change);
    }

    /// Takes a bind over that the scheduler of this process decided.
    pub fn request_bind(&mut self, name: ObjectName, id: LocalId, request: BindRequest) {
        self.binder.request_bind(name, id, request);
    }

    /// The scheduler of this process wants the bind no more.
    pub fn withdraw_bind(&mut self, name: &ObjectName, id: LocalId) {
        self.binder.withdraw_bind(name, id);
    }

    /// Takes over what came of an order.
    pub fn settle(&mut self, report: BinderReport) {
        match report.0 {
            DriverInput::Report(report) => self.binder.settle(report, self.env.now()),
            DriverInput::Change(change) => self.binder.apply(&change),
        }
    }

    /// When something is to be done although nothing changed.
    pub fn wake_at(&self) -> Option<kai_core::time::Timestamp> {
        self.binder.wake_at()
    }

    /// How binds ended since the latest call.
    pub fn take_ended(&mut self) -> Vec<EndedBind> {
        self.binder.take_ended()
    }

    /// Adds what is measured to a page.
    pub fn add_metrics(&self, page: &mut Page) {
        self.binder.add_metrics(page);
    }

    /// Does what is to be done now.
    pub fn step(&mut self) {
        self.binder.step(self.env.now());
        for order in self.binder.take_orders() {
            let (writer, reports) = (self.writer.clone(), self.reports.clone());
            self.env.spawn("bind", async move {
                if let Some(report) = writes::carry_out(&writer, order).await {
                    let _ = reports.send(BinderReport(DriverInput::Report(report))).await;
                }
            });
        }
    }
}

/// Watches a kind for the binder.
fn follow(
    client: &kube::Client,
    env: &Env,
    kind: Kind,
    lists: Lists,
    reports: &Sender<BinderReport>,
) {
    let (sink, mut changes) = channel(1);
    env.spawn("watch", watch(client.clone(), env.clone(), kind, lists, sink));
    let reports = reports.clone();
    env.spawn("watch", async move {
        while let Some(change) = changes.recv().await {
            let input = DriverInput::Change(Box::new(change));
            if reports.send(BinderReport(input)).await.is_err() {
                return;
            }
        }
    });
}
