//! KAI's scheduler flags, as one table: on the command line of `kai run` and in `SchedulingShard.spec.args`. A flag that has
//! no meaning here is accepted with a notice; one that is not in the table does not exist.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use kai_api::duration::{Units, parse_duration};
use kai_api::names::{node, objects, workload};
use kai_core::time::Span;
use kai_translate::gpus::whole_gpu_policy;
use kai_translate::partition::Partition;

use crate::planner::Settings;

/// The value of a duration without end.
pub const FOREVER: &str = "forever";

/// Everything that flags set.
#[derive(Clone, Debug, PartialEq)]
pub struct Flagged {
    /// How the cluster is scheduled.
    pub settings: Settings,
    /// Namespace of the leases.
    pub namespace: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// Where metrics are; none: nowhere.
    pub listen: Option<SocketAddr>,
    /// Port of what only this machine may ask; none: nowhere.
    pub plugin_port: Option<u16>,
    /// KAI's configuration file.
    pub scheduler_conf: Option<PathBuf>,
    /// How much is logged.
    pub verbosity: u8,
    pub log_json: bool,
    /// The version is logged at the start.
    pub log_version: bool,
}

impl Default for Flagged {
    fn default() -> Self {
        let key = workload::NODE_POOL.to_owned();
        let partition = Partition { key, value: String::new() };
        Self {
            settings: Settings { partition, ..Settings::default() },
            namespace: objects::NAMESPACE.to_owned(),
            leader_elect: false,
            listen: Some(everywhere(8080)),
            plugin_port: Some(8081),
            scheduler_conf: None,
            verbosity: 3,
            log_json: false,
            log_version: true,
        }
    }
}

/// What a flag is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// A planner: also in a shard.
    Planner,
    /// What every planner of the process looks at: only on the command line.
    Planners,
    /// The rest of the process: only on the command line.
    Process,
}

/// What a flag does.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// It sets something; what is wrong with its value otherwise.
    Sets(Scope, fn(&mut Flagged, &str) -> Result<(), String>),
    /// Without meaning here; the reason.
    Nothing(&'static str),
}

#[derive(Clone, Copy)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// KAI's default, as it is shown.
    pub default: &'static str,
    /// Help text: a verb or noun phrase without a full stop.
    pub help: &'static str,
    /// It may be given without a value.
    pub is_switch: bool,
    pub meaning: Meaning,
}

impl Flag {
    /// It changes what is planned.
    pub const fn is_about_plans(&self) -> bool {
        match self.meaning {
            Meaning::Sets(Scope::Planner | Scope::Planners, _) | Meaning::Nothing(_) => true,
            Meaning::Sets(Scope::Process, _) => false,
        }
    }
}

/// What is wrong with a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// There is no such flag.
    #[error("unknown flag: --{0}")]
    Unknown(String),
    /// Its value makes no sense.
    #[error("invalid argument {value:?} for \"--{name}\" flag: {why}")]
    Value {
        name: &'static str,
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What came of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Set,
    /// It means nothing here; why.
    Nothing(&'static str),
}

/// Applies the value of a flag.
pub fn apply(flagged: &mut Flagged, name: &str, value: &str) -> Result<Applied, FlagError> {
    let flag = FLAGS.iter().find(|flag| flag.name == name);
    let flag = flag.ok_or_else(|| FlagError::Unknown(name.to_owned()))?;
    match flag.meaning {
        Meaning::Nothing(why) => Ok(Applied::Nothing(why)),
        Meaning::Sets(_, set) => match set(flagged, value) {
            Ok(()) => Ok(Applied::Set),
            Err(why) => Err(FlagError::Value { name: flag.name, value: value.to_owned(), why }),
        },
    }
}

/// Sets the flags of a shard. What is wrong with one of them does not keep the others from being set.
pub fn apply_shard_args<'a>(
    flagged: &mut Flagged,
    args: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut notices = Vec::new();
    for (name, value) in args {
        let flag = FLAGS.iter().find(|flag| flag.name == name);
        let belongs_elsewhere = |flag: &Flag| {
            matches!(flag.meaning, Meaning::Sets(Scope::Planners | Scope::Process, _))
        };
        if flag.is_some_and(belongs_elsewhere) {
            notices.push(format!("--{name} belongs to the process, not to a shard: it is ignored"));
            continue;
        }
        match apply(flagged, name, value) {
            Ok(Applied::Set) => {}
            Ok(Applied::Nothing(why)) => {
                notices.push(format!("--{name} has no meaning here: {why}"));
            }
            Err(error) => notices.push(error.to_string()),
        }
    }
    notices
}

const fn planner(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    set: fn(&mut Flagged, &str) -> Result<(), String>,
) -> Flag {
    Flag { name, default, help, is_switch: false, meaning: Meaning::Sets(Scope::Planner, set) }
}

const fn planners(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    set: fn(&mut Flagged, &str) -> Result<(), String>,
) -> Flag {
    Flag { name, default, help, is_switch: false, meaning: Meaning::Sets(Scope::Planners, set) }
}

const fn process(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    set: fn(&mut Flagged, &str) -> Result<(), String>,
) -> Flag {
    Flag { name, default, help, is_switch: false, meaning: Meaning::Sets(Scope::Process, set) }
}

const fn switch(flag: Flag) -> Flag {
    Flag { is_switch: true, ..flag }
}

const fn nothing(name: &'static str, default: &'static str, why: &'static str) -> Flag {
    Flag {
        name,
        default,
        help: "Accepted for compatibility; has no effect",
        is_switch: false,
        meaning: Meaning::Nothing(why),
    }
}

const NO_PROFILER: &str = "there is no Go profiler";

/// Every flag of KAI's scheduler.
pub const FLAGS: &[Flag] = &[
    planners(
        "scheduler-name",
        objects::SCHEDULER_NAME,
        "Schedule pods with this spec.schedulerName",
        |to, value| {
            value.clone_into(&mut to.settings.rules.scheduler_name);
            if let Some(grouper) = &mut to.settings.grouper {
                value.clone_into(&mut grouper.scheduler_name);
            }
            Ok(())
        },
    ),
    process(
        "namespace",
        objects::NAMESPACE,
        "Namespace of leases and other objects of the installation",
        |to, value| {
            value.clone_into(&mut to.namespace);
            value.clone_into(&mut to.settings.namespace);
            Ok(())
        },
    ),
    process("metrics-namespace", "kai", "Prefix of metric names", |to, value| {
        value.clone_into(&mut to.settings.metrics.namespace);
        Ok(())
    }),
    planners(
        "resource-reservation-app-label",
        objects::RESERVATION,
        "Value of the label app of reservation pods",
        |to, value| {
            value.clone_into(&mut to.settings.rules.reservation_app);
            Ok(())
        },
    ),
    switch(planner(
        "restrict-node-scheduling",
        "false",
        "Place GPU pods only on GPU workers and other pods only on CPU workers",
        |to, value| boolean(value, &mut to.settings.config.params.restrict_node_scheduling),
    )),
    planner(
        "whole-gpu-policy",
        "physical",
        "What a pod with nvidia.com/gpu: 1 holds on a time-sliced node: physical, one GPU, or replica, a replica's part of its memory; the node label kai.scheduler/whole-gpu-policy has precedence",
        |to, value| {
            let policy = whole_gpu_policy(value);
            to.settings.config.params.whole_gpu_policy =
                policy.ok_or("must be physical or replica")?;
            Ok(())
        },
    ),
    planners(
        "gpu-memory-reserve-mib",
        "0",
        "MiB of each GPU that are never given out; what a reservation pod measured on an idle card, and the node label kai.scheduler/gpu-memory-reserve-mib, have precedence",
        |to, value| {
            let mib = value.parse().ok().filter(|mib: &i64| *mib >= 0);
            to.settings.config.params.gpu_memory_reserve_mib =
                mib.ok_or("must be a whole number of MiB, 0 or more")?;
            Ok(())
        },
    ),
    planners(
        "nodepool-label-key",
        workload::NODE_POOL,
        "Node label that divides the cluster into shards; empty disables shards",
        |to, value| {
            value.clone_into(&mut to.settings.partition.key);
            if let Some(grouper) = &mut to.settings.grouper {
                value.clone_into(&mut grouper.node_pool_label_key);
            }
            Ok(())
        },
    ),
    planners(
        "queue-label-key",
        workload::QUEUE,
        "Label that names the queue of a workload",
        |to, value| {
            to.settings.config.params.queue_label_key = value.into();
            if let Some(grouper) = &mut to.settings.grouper {
                value.clone_into(&mut grouper.queue_label_key);
            }
            Ok(())
        },
    ),
    switch(process(
        "queue-authorization",
        "false",
        "Require that the service account of a pod has the verb use on the queue and the priority class of its workload",
        |to, value| {
            let grouper = to.settings.grouper.get_or_insert_default();
            boolean(value, &mut grouper.authorize_queues)
        },
    )),
    planner(
        "partition-label-value",
        "",
        "Label value of the shard to schedule; empty selects nodes without the label",
        |to, value| {
            value.clone_into(&mut to.settings.partition.value);
            Ok(())
        },
    ),
    planners(
        "scheduler-conf",
        "",
        "Path to a configuration file with actions, plugins and their arguments",
        |to, value| {
            to.scheduler_conf = (!value.is_empty()).then(|| value.into());
            Ok(())
        },
    ),
    nothing(
        "schedule-period",
        "1s",
        "a change is planned at once, and nothing is planned without one",
    ),
    switch(process(
        "leader-elect",
        "false",
        "Run as leader or standby; only the holder of a function's lease writes",
        |to, value| boolean(value, &mut to.leader_elect),
    )),
    switch(process("version", "true", "Log the version at start", |to, value| {
        boolean(value, &mut to.log_version)
    })),
    process(
        "listen-address",
        ":8080",
        "Address of metrics and health; 0 disables them",
        |to, value| {
            to.listen = address(value)?;
            Ok(())
        },
    ),
    switch(nothing("enable-profiler", "false", NO_PROFILER)),
    nothing("profiler-port", "8182", NO_PROFILER),
    nothing("pyroscope-address", "", NO_PROFILER),
    nothing("pyroscope-mutex-profiler-rate", "5", NO_PROFILER),
    nothing("pyroscope-block-profiler-rate", "5", NO_PROFILER),
    process(
        "v",
        "3",
        "Log level: up to 2 warnings, 3 writes, 4 plans, 5 and above everything",
        |to, value| number(value, &mut to.verbosity),
    ),
    switch(process("log-json", "false", "Log in JSON format", |to, value| {
        boolean(value, &mut to.log_json)
    })),
    nothing("log-flush-frequency", "5s", "every line is written at once"),
    planner(
        "max-consolidation-preemptees",
        "16",
        "Maximum number of pods that one consolidation moves; -1 removes the limit",
        |to, value| {
            let most: i64 = value.parse().map_err(|_| WANTS_NUMBER.to_owned())?;
            to.settings.config.params.max_consolidation_preemptees = usize::try_from(most).ok();
            Ok(())
        },
    ),
    nothing("qps", "50", "the API server limits its clients itself"),
    nothing("burst", "300", "the API server limits its clients itself"),
    switch(planner(
        "detailed-fit-errors",
        "false",
        "Name every node in unschedulable reasons",
        |to, value| boolean(value, &mut to.settings.config.params.detailed_fit_errors),
    )),
    switch(planner(
        "update-pod-eviction-condition",
        "false",
        "Set the condition DisruptionTarget before deleting a victim; the eviction API sets it itself",
        |to, value| boolean(value, &mut to.settings.mark_victims),
    )),
    planner(
        "over-limit-reason",
        "Unschedulable",
        "Reason of the condition PodScheduled of pods over a limit of their queue: Unschedulable, as KAI, or OverQueueLimit, for which autoscalers add no nodes; the latter is used where the node scale adjuster runs",
        |to, value| {
            to.settings.status.marks_over_limit = match value {
                "Unschedulable" => false,
                "OverQueueLimit" => true,
                _ => return Err("must be Unschedulable or OverQueueLimit".to_owned()),
            };
            Ok(())
        },
    ),
    switch(planner(
        "schedule-csi-storage",
        "false",
        "Consider CSI storage capacity",
        |to, value| boolean(value, &mut to.settings.config.params.schedule_csi_storage),
    )),
    switch(planner(
        "use-scheduling-signatures",
        "true",
        "Try only one of several identical pending jobs per cycle",
        |to, value| boolean(value, &mut to.settings.config.params.use_scheduling_signatures),
    )),
    switch(planner(
        "full-hierarchy-fairness",
        "true",
        "Divide fair shares over the whole queue hierarchy",
        |to, value| boolean(value, &mut to.settings.config.params.full_hierarchy_fairness),
    )),
    switch(planner(
        "allow-consolidating-reclaim",
        "true",
        "Do not count victims that are placed elsewhere as reclaimed",
        |to, value| boolean(value, &mut to.settings.config.params.allow_consolidating_reclaim),
    )),
    planner(
        "num-of-status-recording-workers",
        "5",
        "Maximum number of status writes in flight",
        |to, value| {
            let mut workers = 0_u16;
            number(value, &mut workers)?;
            to.settings.status.workers = usize::from(workers.max(1));
            Ok(())
        },
    ),
    planner(
        "default-staleness-grace-period",
        "60s",
        "How long a gang may run below its minimum before it is evicted; negative means forever",
        |to, value| span(value, &mut to.settings.config.params.default_staleness_grace),
    ),
    planner(
        "disruption-budget-delay",
        "10m",
        "How long disruption budgets may delay the reclaim of over-quota work before victims are deleted; forever means without end",
        |to, value| {
            let delay = &mut to.settings.config.params.disruption_budget_delay;
            if value == FOREVER {
                *delay = None;
                return Ok(());
            }
            span(value, delay.insert(Span::ZERO))?;
            if delay.is_some_and(|delay| delay.nanos < 0) {
                return Err("must be a duration such as 10m, or forever".to_owned());
            }
            Ok(())
        },
    ),
    planner(
        "stuck-in-releasing-threshold",
        "2m",
        "How long after its deletion a terminating pod counts as stuck",
        |to, value| span(value, &mut to.settings.rules.stuck_after),
    ),
    process(
        "plugin-server-port",
        "8081",
        "Port of the snapshot endpoint on the loopback address; 0 disables it",
        |to, value| {
            let mut port = 0_u16;
            number(value, &mut port)?;
            to.plugin_port = (port != 0).then_some(port);
            Ok(())
        },
    ),
    planner("cpu-worker-node-label-key", node::CPU_WORKER, "Label of CPU workers", |to, value| {
        to.settings.config.params.worker_labels.cpu = value.into();
        Ok(())
    }),
    planner("gpu-worker-node-label-key", node::GPU_WORKER, "Label of GPU workers", |to, value| {
        to.settings.config.params.worker_labels.gpu = value.into();
        Ok(())
    }),
    planner(
        "mig-worker-node-label-key",
        "node-role.kubernetes.io/mig-enabled",
        "Label of MIG nodes",
        |to, value| {
            to.settings.config.params.worker_labels.mig = value.into();
            Ok(())
        },
    ),
    nothing("feature-gates", "", "features are found out from the API server"),
];

const WANTS_NUMBER: &str = "must be a number";

fn boolean(value: &str, to: &mut bool) -> Result<(), String> {
    *to = match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
        "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
        _ => return Err("must be true or false".to_owned()),
    };
    Ok(())
}

fn number<T: std::str::FromStr>(value: &str, to: &mut T) -> Result<(), String> {
    *to = value.parse().map_err(|_| WANTS_NUMBER.to_owned())?;
    Ok(())
}

fn span(value: &str, to: &mut Span) -> Result<(), String> {
    let nanos = parse_duration(value, Units::Go).map_err(|error| error.to_string())?;
    *to = Span { nanos };
    Ok(())
}

fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// Reads `:8080`, `127.0.0.1:8080` or `0`, which is nowhere.
pub fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" || text.is_empty() {
        return Ok(None);
    }
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| "must be :PORT or ADDRESS:PORT".to_owned())?;
        return Ok(Some(everywhere(port)));
    }
    text.parse().map(Some).map_err(|_| "must be :PORT or ADDRESS:PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_what_the_table_says() {
        for flag in FLAGS {
            let mut flagged = Flagged::default();
            apply(&mut flagged, flag.name, flag.default).expect(flag.name);
            assert_eq!(flagged, Flagged::default(), "{}", flag.name);
        }
    }

    /// KAI's flags with their defaults.
    const KAI: [(&str, &str); 38] = [
        ("allow-consolidating-reclaim", "true"),
        ("burst", "300"),
        ("cpu-worker-node-label-key", "node-role.kubernetes.io/cpu-worker"),
        ("default-staleness-grace-period", "60s"),
        ("detailed-fit-errors", "false"),
        ("enable-profiler", "false"),
        ("feature-gates", ""),
        ("full-hierarchy-fairness", "true"),
        ("gpu-worker-node-label-key", "node-role.kubernetes.io/gpu-worker"),
        ("leader-elect", "false"),
        ("listen-address", ":8080"),
        ("log-flush-frequency", "5s"),
        ("log-json", "false"),
        ("max-consolidation-preemptees", "16"),
        ("metrics-namespace", "kai"),
        ("mig-worker-node-label-key", "node-role.kubernetes.io/mig-enabled"),
        ("namespace", "kai-scheduler"),
        ("nodepool-label-key", "kai.scheduler/node-pool"),
        ("num-of-status-recording-workers", "5"),
        ("partition-label-value", ""),
        ("plugin-server-port", "8081"),
        ("profiler-port", "8182"),
        ("pyroscope-address", ""),
        ("pyroscope-block-profiler-rate", "5"),
        ("pyroscope-mutex-profiler-rate", "5"),
        ("qps", "50"),
        ("queue-label-key", "kai.scheduler/queue"),
        ("resource-reservation-app-label", "kai-resource-reservation"),
        ("restrict-node-scheduling", "false"),
        ("schedule-csi-storage", "false"),
        ("schedule-period", "1s"),
        ("scheduler-conf", ""),
        ("scheduler-name", "kai-scheduler"),
        ("stuck-in-releasing-threshold", "2m"),
        ("update-pod-eviction-condition", "false"),
        ("use-scheduling-signatures", "true"),
        ("v", "3"),
        ("version", "true"),
    ];

    /// Flags that KAI does not have.
    const OURS: [&str; 5] = [
        "disruption-budget-delay",
        "gpu-memory-reserve-mib",
        "queue-authorization",
        "whole-gpu-policy",
        "over-limit-reason",
    ];

    #[test]
    fn disruption_budgets_delay_for_a_time_or_forever() {
        let delay = |value: &str| {
            let mut flagged = Flagged::default();
            apply(&mut flagged, "disruption-budget-delay", value)?;
            Ok::<_, FlagError>(flagged.settings.config.params.disruption_budget_delay)
        };
        assert_eq!(delay("90s"), Ok(Some(Span::from_seconds(90.0))));
        assert_eq!(delay("forever"), Ok(None));
        assert!(delay("-1s").is_err() && delay("soon").is_err());
    }

    #[test]
    fn the_flags_are_kais_with_kais_defaults() {
        let kais = FLAGS.iter().filter(|flag| !OURS.contains(&flag.name));
        let mut ours: Vec<(&str, &str)> = kais.map(|flag| (flag.name, flag.default)).collect();
        ours.sort_unstable();
        assert_eq!(ours, KAI);
    }

    #[test]
    fn a_shard_sets_what_belongs_to_it_and_names_the_rest_as_problems() {
        let mut flagged = Flagged::default();
        let args = [
            ("allow-consolidating-reclaim", "false"),
            ("default-staleness-grace-period", "-1s"),
            ("detailed-fit-errors", "perhaps"),
            ("listen-address", ":9"),
            ("qps", "5"),
            ("shedule-period", "1s"),
        ];
        let notices = apply_shard_args(&mut flagged, args);
        assert!(!flagged.settings.config.params.allow_consolidating_reclaim);
        assert!(flagged.settings.config.params.default_staleness_grace.nanos < 0);
        assert_eq!(
            notices,
            [
                "invalid argument \"perhaps\" for \"--detailed-fit-errors\" flag: must be true or false",
                "--listen-address belongs to the process, not to a shard: it is ignored",
                "--qps has no meaning here: the API server limits its clients itself",
                "unknown flag: --shedule-period",
            ]
        );
    }

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        assert_eq!(address(":8080"), Ok(Some(everywhere(8080))));
        assert_eq!(address("127.0.0.1:9"), Ok(Some(SocketAddr::from(([127, 0, 0, 1], 9)))));
        assert_eq!(address("0"), Ok(None));
        assert!(address("8080").is_err());
    }
}
