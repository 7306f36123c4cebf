//! Why a sub-group finds no domain: data first, KAI's texts from it.

use crate::input::{ObjectName, Text};

/// Why a sub-group finds no domain, or why one domain is too small for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyRefusal {
    /// Namespace and name of the pod group.
    pub job: ObjectName,
    /// The sub-group; none: the whole job.
    pub sub_group: Option<Text>,
    /// The topology of the constraint.
    pub topology: Text,
    /// The label of the level that is required.
    pub required: Option<Text>,
    /// Why no domain fits, or one does not.
    pub kind: TopologyRefusalKind,
}

/// Why no domain fits, or one does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyRefusalKind {
    /// There is no such topology.
    UnknownTopology,
    /// The constraint names a topology but no level.
    NoLevel,
    /// The topology has no such level, or none that can be preferred below the required one.
    UnknownLevel {
        /// The level as the constraint names it.
        level: Text,
        /// Which part of the constraint names it.
        role: LevelRole,
    },
    /// All nodes that may be used have too little free capacity together.
    StartTooSmall {
        /// The domain that holds them all; none: the cluster.
        domain: Option<Text>,
    },
    /// One domain can hold too few pods.
    PodCapacity {
        /// Label values of the domain, joined by dots.
        domain: Text,
        /// Pods it can hold.
        capacity: i64,
        /// Pods to be placed.
        needed: i64,
    },
    /// One domain has too little of some resources.
    Shortages {
        /// Label values of the domain, joined by dots.
        domain: Text,
        /// Resources of which too little is free.
        shortages: Vec<DomainShortage>,
    },
    /// No domain of the wanted levels fits.
    NoDomain,
}

/// Which part of a constraint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelRole {
    /// All pods must be together.
    Required,
    /// All pods should be together.
    Preferred,
}

/// Too little of one resource in one domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DomainShortage {
    /// Resource of which too little is free.
    pub what: ShortOf,
    /// How much was asked for.
    pub requested: i64,
    /// How much is free.
    pub available: i64,
}

/// What a domain can lack, in the order of texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ShortOf {
    /// Instances of a MIG profile.
    MigProfile(Text),
    /// GPUs in hundredths of a device.
    Gpus,
    /// Processor time, in millicores.
    Cpu,
    /// Amount of memory, in bytes.
    Memory,
    /// Another resource by name, in the unit of the node's allocatable.
    Named(Text),
}

impl TopologyRefusal {
    /// Machine-readable reason of the refusal, as KAI writes it.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            TopologyRefusalKind::PodCapacity { .. } | TopologyRefusalKind::Shortages { .. } => {
                "Not enough resources for the workload"
            }
            _ => "PodSchedulingErrors",
        }
    }

    /// Whether KAI shows it on the job; it only logs mistakes in the constraint itself.
    pub fn is_shown_by_kai(&self) -> bool {
        !matches!(
            self.kind,
            TopologyRefusalKind::NoLevel | TopologyRefusalKind::UnknownLevel { .. }
        )
    }

    /// Messages of the refusal in KAI's words, joined by commas.
    pub fn text(&self) -> String {
        self.messages().join(", ")
    }

    /// KAI's messages, which are counted over all refusals of a job.
    pub fn messages(&self) -> Vec<String> {
        let topology = &self.topology;
        match &self.kind {
            TopologyRefusalKind::UnknownTopology => {
                vec![format!("Requested topology {topology} does not exist")]
            }
            TopologyRefusalKind::NoLevel => {
                let name = self.sub_group.as_deref().unwrap_or_default();
                vec![format!(
                    "no topology constraints were found for subgroup {name}, with topology name \
                     {topology}"
                )]
            }
            TopologyRefusalKind::UnknownLevel { level, role } => {
                let who = match &self.sub_group {
                    Some(name) => format!("sub-group {name}"),
                    None => "workload".to_owned(),
                };
                let role = match role {
                    LevelRole::Required => "required",
                    LevelRole::Preferred => "preferred",
                };
                vec![format!(
                    "topology constraint error: {who} specified '{level}' as the {role} topology \
                     constraint level, but the topology tree '{topology}' does not contain a level \
                     with this name"
                )]
            }
            TopologyRefusalKind::StartTooSmall { domain } => {
                let whole = domain.as_deref().unwrap_or("the cluster");
                let unsatisfied = self.unsatisfied();
                vec![format!("{unsatisfied}: not enough resources in {whole} to allocate the job")]
            }
            TopologyRefusalKind::PodCapacity { domain, capacity, needed } => {
                vec![format!(
                    "node-group {domain} can allocate only {capacity} of {needed} required pods"
                )]
            }
            TopologyRefusalKind::Shortages { shortages, .. } => {
                shortages.iter().map(DomainShortage::message).collect()
            }
            TopologyRefusalKind::NoDomain => vec![self.unsatisfied()],
        }
    }

    /// KAI's message with all numbers: with the domain in angle brackets and the sub-group where it is about one
    /// domain.
    pub fn detail(&self) -> String {
        let (domain, text) = match &self.kind {
            TopologyRefusalKind::PodCapacity { domain, .. } => (domain, self.text()),
            TopologyRefusalKind::Shortages { domain, shortages } => {
                let details: Vec<String> =
                    shortages.iter().map(|shortage| shortage.detail(domain)).collect();
                (domain, details.join(", "))
            }
            _ => return self.text(),
        };
        match &self.sub_group {
            Some(name) => format!("<{domain}>: subgroup {name}: {text}"),
            None => format!("<{domain}>: {text}"),
        }
    }

    fn unsatisfied(&self) -> String {
        let sub_group = match &self.sub_group {
            Some(name) => format!(", subgroup {name}"),
            None => String::new(),
        };
        format!(
            "topology {}, requirement {} couldn't be satisfied for job <{}>{sub_group}",
            self.topology,
            self.required.as_deref().unwrap_or_default(),
            self.job
        )
    }
}

impl DomainShortage {
    fn message(&self) -> String {
        let what = match &self.what {
            ShortOf::MigProfile(profile) => {
                return format!("node-group(s) didn't have enough of mig profile: {profile}");
            }
            ShortOf::Gpus => "GPUs",
            ShortOf::Cpu => "CPU cores",
            ShortOf::Memory => "memory",
            ShortOf::Named(name) => name,
        };
        format!("node-group(s) didn't have enough resources: {what}")
    }

    fn detail(&self, domain: &str) -> String {
        let show: fn(i64) -> String = match &self.what {
            ShortOf::Gpus => |centi| three_digits(centi as f64 / 100.0),
            ShortOf::Cpu => |milli| three_decimals(milli, 1_000),
            ShortOf::Memory => |bytes| three_decimals(bytes, 1_000_000_000),
            ShortOf::MigProfile(_) | ShortOf::Named(_) => |amount| amount.to_string(),
        };
        let what = match &self.what {
            ShortOf::Gpus => "resource: GPUs",
            ShortOf::Cpu => "resources: CPU cores",
            ShortOf::Memory => "resources: memory",
            ShortOf::MigProfile(name) | ShortOf::Named(name) => &format!("resource: {name}"),
        };
        format!(
            "{domain} didn't have enough {what}, requested: {}, available: {}",
            show(self.requested),
            show(self.available)
        )
    }
}

/// Cut to three decimals, without trailing zeros.
pub(super) fn three_decimals(amount: i64, unit: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let thousandths = (i128::from(amount).abs() * 1_000) / i128::from(unit);
    let text = format!("{sign}{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Three significant digits, in exponent form from a thousand on.
pub(super) fn three_digits(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let rounded = format!("{number:.2e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..3).contains(&exponent) {
        let decimals = usize::try_from(2 - exponent).unwrap_or_default();
        let text = format!("{number:.decimals$}");
        if !text.contains('.') {
            return text;
        }
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
