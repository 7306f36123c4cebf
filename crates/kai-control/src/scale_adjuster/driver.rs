//! The node scale adjuster at work: changes and reports in, orders carried out beside.

use kai_client::env::Env;
use kai_client::watch::Change;
use kai_client::write::Writer;
use kai_core::time::Timestamp;
use tokio::sync::mpsc::Sender;

use super::writes::{self, Report};
use super::{ScaleAdjuster, ScaleAdjusterSettings};

/// What came of an order of the node scale adjuster.
#[derive(Debug)]
pub struct ScaleReport(Report);

/// The node scale adjuster at work.
pub struct Driver {
    adjuster: ScaleAdjuster,
    writer: Writer,
    env: Env,
    reports: Sender<ScaleReport>,
}

impl Driver {
    /// One that knows nothing yet; what comes of its orders goes to `reports`. One that does not lead follows the cluster
    /// and does nothing.
    pub fn new(
        writer: Writer,
        env: Env,
        settings: ScaleAdjusterSettings,
        leads: bool,
        reports: Sender<ScaleReport>,
    ) -> Self {
        let mut driver = Self { adjuster: ScaleAdjuster::new(settings), writer, env, reports };
        if leads {
            driver.set_leading(true);
        }
        driver
    }

    /// It begins or ceases to lead.
    pub fn set_leading(&mut self, leads: bool) {
        self.adjuster.set_leading(leads, self.env.now());
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: &Change) {
        self.adjuster.apply(change);
    }

    /// Takes over what came of an order.
    pub fn settle(&mut self, report: ScaleReport) {
        self.adjuster.settle(report.0, self.env.now());
    }

    /// When something is to be done although nothing changed.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.adjuster.wake_at()
    }

    /// Does what is to be done now.
    pub fn step(&mut self) {
        self.adjuster.step(self.env.now());
        for order in self.adjuster.take_orders() {
            let (writer, reports) = (self.writer.clone(), self.reports.clone());
            self.env.spawn("scale", async move {
                if let Some(report) = writes::carry_out(&writer, order).await {
                    let _ = reports.send(ScaleReport(report)).await;
                }
            });
        }
    }
}
