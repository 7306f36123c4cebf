//! The loop that holds it together: changes in, plans out.

use std::future::Future;
use std::sync::Arc;

use kai_core::time::{Span, Timestamp};
use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::binder::driver::{BinderReport, Driver};
use crate::env::Env;
use crate::grouper::Grouper;
use crate::kinds::Kind;
use crate::orders::{Order, Report, carry_out};
use crate::planner::{Planner, Settings};
use crate::watch::{Change, watch};

/// Changes that come together are planned together.
const WINDOW: Span = Span { nanos: 20_000_000 };
const WAITING_CHANGES: usize = 4096;
const WRITES_AT_ONCE: usize = 64;

/// Runs until `shutdown` is done.
pub async fn run(
    client: Client,
    env: Env,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (change_sink, changes) = channel(WAITING_CHANGES);
    for kind in Kind::ALL {
        env.spawn("watch", watch(client.clone(), env.clone(), kind, change_sink.clone()));
    }
    drop(change_sink);
    let (report_sink, reports) = channel(WAITING_CHANGES);
    let grouper =
        settings.grouper.clone().map(|config| Grouper::new(client.clone(), env.clone(), config));
    let (binder_sink, binder_reports) = channel(WAITING_CHANGES);
    let binder = settings.binder.clone();
    let binder =
        binder.map(|settings| Driver::new(client.clone(), env.clone(), settings, binder_sink));
    let runner = Runner {
        client,
        env,
        planner: Planner::new(settings),
        grouper,
        binder,
        reports: report_sink,
        limit: Arc::new(Semaphore::new(WRITES_AT_ONCE)),
        window_end: None,
    };
    runner.run(changes, reports, binder_reports, shutdown).await;
}

struct Runner {
    client: Client,
    env: Env,
    planner: Planner,
    grouper: Option<Arc<Grouper>>,
    binder: Option<Driver>,
    reports: Sender<Report>,
    limit: Arc<Semaphore>,
    /// When the changes seen so far are planned.
    window_end: Option<Timestamp>,
}

impl Runner {
    async fn run(
        mut self,
        mut changes: Receiver<Change>,
        mut reports: Receiver<Report>,
        mut binder_reports: Receiver<BinderReport>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let binder_wakes = self.binder.as_ref().and_then(Driver::wake_at);
            let deadline = [self.window_end, self.planner.wake_at(), binder_wakes];
            let deadline = deadline.into_iter().flatten().min();
            tokio::select! { biased;
                () = &mut shutdown => return,
                Some(report) = reports.recv() => self.planner.settle(report, self.env.now()),
                Some(report) = binder_reports.recv() => {
                    if let Some(binder) = &mut self.binder {
                        binder.settle(report);
                    }
                },
                change = changes.recv() => match change {
                    Some(change) => self.apply(change),
                    None => return,
                },
                () = self.env.sleep_until(deadline) => {}
            }
            while let Ok(change) = changes.try_recv() {
                self.apply(change);
            }
            if let Some(binder) = &mut self.binder {
                binder.step();
            }
            self.send_orders();
            self.plan_if_due();
        }
    }

    fn apply(&mut self, change: Change) {
        if let Some(binder) = &mut self.binder {
            binder.apply(&change);
        }
        self.planner.apply(change);
    }

    fn plan_if_due(&mut self) {
        let now = self.env.now();
        if self.planner.is_dirty() && self.window_end.is_none() {
            self.window_end = Some(now.plus(WINDOW));
        }
        let due = [self.window_end, self.planner.wake_at()].into_iter().flatten().min();
        if due.is_some_and(|due| due <= now) {
            self.window_end = None;
            self.planner.cycle(now);
            self.send_orders();
        }
    }

    fn send_orders(&mut self) {
        for order in self.planner.take_orders() {
            let reports = self.reports.clone();
            match (order, self.grouper.clone()) {
                (Order::Group(pod), Some(grouper)) => {
                    let classes = self.planner.class_names();
                    self.env.spawn("group", async move {
                        if let Some(grouped) = grouper.group(*pod, classes).await {
                            let _ = reports.send(Report::Grouped(Box::new(grouped))).await;
                        }
                    });
                }
                (Order::Publish(pod, plan), Some(grouper)) => {
                    self.env.spawn("publish", async move {
                        grouper.publish(*pod, *plan).await;
                    });
                }
                (order, _) => {
                    let (client, limit) = (self.client.clone(), Arc::clone(&self.limit));
                    self.env.spawn("write", async move {
                        let _permit = limit.acquire().await;
                        carry_out(client, order, reports).await;
                    });
                }
            }
        }
    }
}
