//! `kai manifests`

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_api::names::defaults::IMAGE_PULL_POLICY;
use kai_api::names::objects::SCHEDULER_NAME;
use kai_install::deployments;
use kai_install::deployments::{Layout, Wanted};
use kai_install::hardening::hardened;
use kai_install::manifests;
use kai_settings::flags::{self, FOREVER, FlagError, Flagged};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai manifests | kubectl apply --server-side -f -
  kai manifests --gpu-sharing | kubectl apply --server-side -f -
  kai manifests --openshift | oc apply --server-side -f -
  kai manifests --deploy functions --image example/kai:1   one Deployment and account per function
  kai manifests --node-scale-adjuster --numa-agent         for autoscaled nodes and NUMA zones
  kai manifests --deploy nothing                           without Deployments and webhooks, to start kai by hand";

/// How `kai run` is installed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ManifestsArguments {
    /// Deployments to print: one process for everything but admission, one per function, or none.
    #[arg(long, value_enum, default_value = "process")]
    deploy: Deploy,

    /// Image of the Deployments.
    #[arg(long, default_value = concat!("localhost/kai-scheduler/kai:", env!("CARGO_PKG_VERSION")))]
    image: String,

    /// Let pods request fractions of GPUs
    #[arg(long)]
    gpu_sharing: bool,

    /// MiB of each GPU that are never granted to pods, until a reservation pod measured what the driver uses
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    gpu_memory_reserve_mib: u32,

    /// Let reservation pods see the processes of their nodes (hostPID, root, `CAP_SYS_PTRACE`), to measure the
    /// memory that each sharing pod holds and whether its limit is enforced [default: true if the cluster limits GPU memory]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    observe_processes: Option<bool>,

    /// Install on `OpenShift`: fix no user id and add `SecurityContextConstraints`
    #[arg(long)]
    openshift: bool,

    /// Image pull policy of all containers, reservation pods included
    #[arg(long, default_value = IMAGE_PULL_POLICY, value_name = "POLICY", value_parser = ["IfNotPresent", "Always", "Never"])]
    pull_policy: String,

    /// Replicas of each Deployment; one is the leader, the others are standbys
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    replicas: u32,

    /// How long disruption budgets may delay the reclaim of over-quota work before victims are deleted; with `forever` no account may delete pods
    #[arg(long, default_value = "10m", value_name = "DURATION", value_parser = budget_delay)]
    disruption_budget_delay: String,

    /// Require that the service account of a pod has the verb `use` on the queue and the priority class of its workload
    #[arg(long)]
    queue_authorization: bool,

    /// Serve metrics over TLS, and only to accounts with the verb `get` on the non-resource URL `/metrics`
    #[arg(long)]
    metrics_authentication: bool,

    /// Schedule pods with this `spec.schedulerName`.
    #[arg(long, default_value = SCHEDULER_NAME, value_name = "NAME")]
    scheduler_name: String,

    /// Run the node scale adjuster: scaling pods make the cluster's autoscaler add nodes for pods that share GPUs.
    #[arg(long)]
    node_scale_adjuster: bool,

    /// Add the DaemonSet that records the NUMA zones of pods.
    #[arg(long)]
    numa_agent: bool,

    /// Add the admission policy that denies pods of every scheduler which choose GPUs through `NVIDIA_VISIBLE_DEVICES`.
    #[arg(long)]
    block_nvidia_visible_devices: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Deploy {
    Process,
    Functions,
    Nothing,
}

impl From<Deploy> for Layout {
    fn from(deploy: Deploy) -> Self {
        match deploy {
            Deploy::Process => Self::Process,
            Deploy::Functions => Self::Functions,
            Deploy::Nothing => Self::Nothing,
        }
    }
}

/// A value of `--disruption-budget-delay`, as it was given.
fn budget_delay(text: &str) -> Result<String, FlagError> {
    flags::apply(&mut Flagged::default(), "disruption-budget-delay", text)?;
    Ok(text.to_owned())
}

/// Prints what is installed; the exit status.
pub(crate) fn run(arguments: &ManifestsArguments) -> anyhow::Result<u8> {
    let mut text = match arguments.deploy {
        Deploy::Nothing => manifests::all(),
        Deploy::Process | Deploy::Functions => manifests::without_queues(),
    };
    let wanted = Wanted {
        layout: arguments.deploy.into(),
        image: &arguments.image,
        scheduler_name: &arguments.scheduler_name,
        scale_adjuster: arguments.node_scale_adjuster,
        numa_agent: arguments.numa_agent,
        gpu_sharing: arguments.gpu_sharing,
        openshift: arguments.openshift,
        pull_policy: &arguments.pull_policy,
        replicas: arguments.replicas,
        queue_authorization: arguments.queue_authorization,
        metrics_authentication: arguments.metrics_authentication,
        gpu_memory_reserve_mib: arguments.gpu_memory_reserve_mib,
        observe_processes: arguments.observe_processes,
        disruption_budget_delay: &arguments.disruption_budget_delay,
    };
    let deletes =
        (arguments.disruption_budget_delay != FOREVER).then_some(manifests::DELETE_VICTIMS);
    let by_hand = (wanted.layout == Layout::Nothing).then_some(manifests::BY_HAND);
    let asks = arguments.queue_authorization.then_some(manifests::QUEUE_AUTHORIZATION);
    let blocked =
        arguments.block_nvidia_visible_devices.then_some(manifests::BLOCK_VISIBLE_DEVICES);
    let readers = arguments.metrics_authentication.then_some(manifests::METRICS_AUTHENTICATION);
    for document in [deletes, asks, readers, by_hand, blocked].into_iter().flatten() {
        text = format!("{text}---\n{}\n", document.trim_end());
    }
    text = manifests::with_scheduler_name(&text, &arguments.scheduler_name);
    for object in hardened(deployments::objects(wanted)) {
        let written = serde_saphyr::to_string(&object).context("an object is no YAML")?;
        text = format!("{text}---\n{}\n", written.trim_end());
    }
    output::print(&text)?;
    Ok(0)
}
