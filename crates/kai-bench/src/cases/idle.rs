//! A full cluster and 400 pods that wait.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::figures::Idle;
use crate::objects::{BORROWER, Request, SchedulerName, pod};

const WAITING: usize = 400;
const SETTLE: Duration = Duration::from_secs(20);
const SPAN: Duration = Duration::from_secs(20);

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<Idle> {
    let kai = cluster.start_kai().await?;
    super::reclaim::fill(cluster).await?;
    let names = (0..WAITING).map(|number| format!("waits-{number:04}"));
    let pods = names.map(|name| pod(&name, SchedulerName::Kai, BORROWER, Request::Gpus(2)));
    cluster.load.create_pods(pods.collect()).await?;
    tokio::time::sleep(SETTLE).await;
    let (begin, cpu) = (Instant::now(), kai.pid().cpu_s());
    let api_cpu = cluster.api_server.cpu_s();
    tokio::time::sleep(SPAN).await;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Idle {
        scheduler_cores: (kai.pid().cpu_s() - cpu) / seconds,
        apiserver_cores: (cluster.api_server.cpu_s() - api_cpu) / seconds,
    })
}
