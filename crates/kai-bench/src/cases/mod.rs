//! The cases. All cases of one run share a control plane, so that their figures can be compared.

mod arrival;
mod fill;
mod gang;
mod idle;
mod outages;
mod reclaim;
mod restart;
mod rss;
mod scale;
mod shared;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::bail;

use crate::cluster::Cluster;
use crate::figures::Figures;
use crate::objects::Request;
use crate::process::load;

/// A case of the cluster benchmark; its name is the value of `--case`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// One-GPU pods until the cluster is full, by the API server alone, kube-scheduler and kai.
    Fill,
    /// 50 pods per second.
    Arrival50,
    /// A gang of 512 one-GPU pods on an empty cluster.
    Gang512,
    /// A gang of 512 half-GPU pods on an empty cluster.
    Gang512Halves,
    /// A gang that reclaims two fifths of a full cluster.
    ReclaimGang,
    /// A pod that reclaims one GPU of a full cluster.
    ReclaimOne,
    /// A gang that fits nowhere.
    GangNo,
    /// A full cluster and 400 pods that wait.
    Idle400,
    /// kai ends, and another starts.
    Restart,
    /// A node goes.
    NodeLoss,
    /// The kai that leads ends, and one that stands by goes on.
    FailOver,
    /// Resident memory after 500 nodes were filled.
    Rss500,
    /// Half-GPU pods until the cluster is full.
    SharedFill,
    /// Resident memory after 5,000 nodes were filled.
    Rss5000,
    /// 5,000 and 10,000 nodes on a fake API server.
    Scale,
}

impl Case {
    /// In the order in which they run.
    pub const ALL: [Self; 15] = [
        Self::Fill,
        Self::Arrival50,
        Self::Gang512,
        Self::ReclaimGang,
        Self::ReclaimOne,
        Self::GangNo,
        Self::Idle400,
        Self::Restart,
        Self::NodeLoss,
        Self::FailOver,
        Self::Rss500,
        Self::Gang512Halves,
        Self::SharedFill, // the last: its config maps are removed for minutes afterwards
        Self::Rss5000,
        Self::Scale,
    ];

    /// The cases that run where none is named: all that one cluster of 500 nodes can show.
    pub const USUAL: [Self; 13] = [
        Self::Fill,
        Self::Arrival50,
        Self::Gang512,
        Self::ReclaimGang,
        Self::ReclaimOne,
        Self::GangNo,
        Self::Idle400,
        Self::Restart,
        Self::NodeLoss,
        Self::FailOver,
        Self::Rss500,
        Self::Gang512Halves,
        Self::SharedFill,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Arrival50 => "arrival_50",
            Self::Gang512 => "gang_512",
            Self::Gang512Halves => "gang_512_halves",
            Self::ReclaimGang => "reclaim_gang",
            Self::ReclaimOne => "reclaim_one",
            Self::GangNo => "gang_no",
            Self::SharedFill => "shared_fill",
            Self::Idle400 => "idle_400",
            Self::Restart => "restart",
            Self::NodeLoss => "node_loss",
            Self::FailOver => "fail_over",
            Self::Rss500 => "rss_500",
            Self::Rss5000 => "rss_5000",
            Self::Scale => "scale",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|case| case.name() == text);
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|case| case.name()).collect();
            format!("there is no case {text}; cases: {}", names.join(", "))
        })
    }
}

/// What to measure, with what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program under test.
    pub kai: PathBuf,
    /// Cases, in the order in which they run.
    pub cases: Vec<Case>,
    /// Number of nodes of eight GPUs.
    pub nodes: usize,
    /// Number of nodes of ten GPUs of the smaller size of [`Case::Scale`]; the larger size has twice as many.
    pub scale_nodes: usize,
}

/// Runs the cases; calls `report` before each one.
pub async fn run(plan: &Plan, report: impl Fn(&str)) -> anyhow::Result<Figures> {
    let mut figures = Figures { nodes: plan.nodes, load: [load(), 0.0], ..Figures::default() };
    let (small, large): (Vec<Case>, Vec<Case>) =
        plan.cases.iter().copied().partition(|case| !matches!(case, Case::Rss5000 | Case::Scale));
    let has_large_gang =
        small.iter().any(|case| matches!(case, Case::Gang512 | Case::Gang512Halves));
    if plan.nodes * crate::objects::GPUS_PER_NODE < 1000 && has_large_gang {
        bail!("gangs of 512 need at least 125 nodes");
    }
    if !small.is_empty() {
        report("starting a control plane");
        let cluster = Cluster::start(&plan.kai, plan.nodes).await?;
        report("warming up");
        fill::warm_up(&cluster).await?;
        for case in small {
            report(case.name());
            run_case(&cluster, case, &mut figures).await?;
        }
    }
    if large.contains(&Case::Rss5000) {
        report("rss_5000");
        let cluster = Cluster::start(&plan.kai, 5000).await?;
        figures.rss_5000_mib = Some(rss::run(&cluster).await?);
    }
    if large.contains(&Case::Scale) {
        figures.scale = Some(scale::run(&plan.kai, plan.scale_nodes, &report).await?);
    }
    figures.load[1] = load();
    Ok(figures)
}

async fn run_case(cluster: &Cluster, case: Case, figures: &mut Figures) -> anyhow::Result<()> {
    match case {
        Case::Fill => fill::run(cluster, figures).await?,
        Case::Arrival50 => {
            figures.arrival_50_alone = Some(arrival::run_alone(cluster).await?);
            figures.arrival_50 = Some(arrival::run(cluster).await?);
        }
        Case::Gang512 => {
            figures.gang_512_alone_s = Some(gang::run_alone(cluster).await?);
            figures.gang_512_s = Some(gang::run(cluster, "gang", Request::Gpus(1)).await?);
        }
        Case::Gang512Halves => {
            let seconds = gang::run(cluster, "gang-of-halves", Request::HalfGpu).await?;
            figures.gang_512_halves_s = Some(seconds);
        }
        Case::GangNo => figures.gang_no_s = Some(gang::run_unschedulable(cluster).await?),
        Case::ReclaimGang => {
            let reclaim = reclaim::run_gang(cluster).await?;
            figures.reclaim_gang_s = Some(reclaim.seconds);
            figures.reclaim_gang_evictions_alone_s = Some(reclaim.evictions_alone_s);
            figures.reclaim_gang_ends_alone_s = Some(reclaim.ends_alone_s);
            figures.reclaim_gang_alone_s = Some(reclaim.alone_s);
            figures.reclaim_gang_log_entries_per_pod = Some(reclaim.entries_per_pod);
            figures.rss_500_after_reclaim_mib = Some(reclaim.rss_mib);
        }
        Case::ReclaimOne => figures.reclaim_one_s = Some(reclaim::run_one(cluster).await?),
        Case::SharedFill => figures.shared_fill = Some(shared::run(cluster).await?),
        Case::Idle400 => figures.idle_400 = Some(idle::run(cluster).await?),
        Case::Restart => {
            let (stop_s, cold_start_s) = restart::run(cluster).await?;
            figures.stop_s = Some(stop_s);
            figures.cold_start_s = Some(cold_start_s);
        }
        Case::NodeLoss => figures.node_loss_s = Some(outages::run_node_loss(cluster).await?),
        Case::FailOver => figures.fail_over = Some(outages::run_fail_over(cluster).await?),
        Case::Rss500 => figures.rss_500_mib = Some(rss::run(cluster).await?),
        Case::Rss5000 | Case::Scale => {}
    }
    cluster.clear().await
}
