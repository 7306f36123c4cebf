//! The binder at work: changes and reports in, orders carried out beside.

use std::sync::Arc;

use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use super::writes::{self, Report};
use super::{Binder, BinderSettings};
use crate::env::Env;
use crate::watch::Change;

const WRITES_AT_ONCE: usize = 64;

/// What came of an order of the binder.
#[derive(Debug)]
pub struct BinderReport(Report);

/// The binder at work.
pub struct Driver {
    binder: Binder,
    client: Client,
    env: Env,
    reports: Sender<BinderReport>,
    limit: Arc<Semaphore>,
}

impl Driver {
    /// A binder that knows nothing yet; what comes of its orders goes to `reports`. One that does not lead follows the
    /// cluster and does nothing.
    pub fn new(
        client: Client,
        env: Env,
        settings: BinderSettings,
        leads: bool,
        reports: Sender<BinderReport>,
    ) -> Self {
        let limit = Arc::new(Semaphore::new(WRITES_AT_ONCE));
        let mut binder = Binder::new(settings);
        binder.set_leading(leads);
        Self { binder, client, env, reports, limit }
    }

    /// It begins or ceases to lead.
    pub fn set_leading(&mut self, leads: bool) {
        self.binder.set_leading(leads);
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: &Change) {
        self.binder.apply(change);
    }

    /// Takes over what came of an order.
    pub fn settle(&mut self, report: BinderReport) {
        self.binder.settle(report.0, self.env.now());
    }

    /// When something is to be done although nothing changed.
    pub fn wake_at(&self) -> Option<kai_core::time::Timestamp> {
        self.binder.wake_at()
    }

    /// Does what is to be done now.
    pub fn step(&mut self) {
        self.binder.step(self.env.now());
        for order in self.binder.take_orders() {
            let (client, limit) = (self.client.clone(), Arc::clone(&self.limit));
            let reports = self.reports.clone();
            self.env.spawn("bind", async move {
                let permit = limit.acquire().await;
                let report = writes::carry_out(&client, order).await;
                drop(permit);
                if let Some(report) = report {
                    let _ = reports.send(BinderReport(report)).await;
                }
            });
        }
    }
}
