//! A line on the terminal that counts pods while a simulation runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kai_embed::Cluster;
use kai_embed::kinds::PODS;
use kai_embed::object::text;
use kai_embed::service::Embedded;

use crate::output;

/// Real time between two updates of the line. Shorter simulations show none.
const INTERVAL: Duration = Duration::from_secs(1);
/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Shows the line until it is dropped.
pub(super) struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows the progress of a cluster where standard error is a terminal.
    pub(super) fn show(embedded: &Embedded) -> Option<Self> {
        if !output::someone_watches() {
            return None;
        }
        let (embedded, (stop, stopped)) = (embedded.clone(), channel());
        let update = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let counts = embedded.peek(PodCounts::of);
                output::complain(&format!("{CLEAR}{}", counts.line()));
            }
            output::complain(CLEAR);
        };
        Some(Self { stop: Some(stop), thread: Some(std::thread::spawn(update)) })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread costs the line, not the simulation.
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct PodCounts {
    all: usize,
    bound: usize,
    running: usize,
}

impl PodCounts {
    fn of(cluster: &Cluster) -> Self {
        let mut counts = Self::default();
        for pod in cluster.list(PODS) {
            counts.all += 1;
            counts.bound += usize::from(!text(&pod["spec"]["nodeName"]).is_empty());
            counts.running += usize::from(text(&pod["status"]["phase"]) == "Running");
        }
        counts
    }

    fn line(&self) -> String {
        let Self { all, bound, running } = self;
        format!("simulating {all} pods: {bound} bound to nodes, {running} running")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_counted_by_state() {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let mut cluster = Cluster::new(1, now);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
        // A cluster may create the account by itself.
        let _ = cluster.make(&account);
        let pod = |name: &str, node: Option<&str>| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
            })
        };
        cluster.make(&pod("a", None)).expect("a pod");
        cluster.make(&pod("b", Some("n"))).expect("a pod");
        let line = PodCounts::of(&cluster).line();
        assert_eq!(line, "simulating 2 pods: 1 bound to nodes, 0 running");
    }
}
