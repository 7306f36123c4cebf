//! Amounts of resources as statuses report them: sums of what pods request, exact to a thousand-millionth.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kai_api::names::{gpu, resources};
use kai_api::quantity::{Quantity, RawQuantity};
use kai_core::fairness::{Amounts, QueueResource};
use kai_core::input::pod::{GpuRequest, PodRequest};
use kai_core::input::{PodSpec, Text};
use kai_core::status::Status;

const UNIT: i128 = 1_000_000_000;
const MILLI: i128 = UNIT / 1000;

/// Amounts by resource, in the order of names. What is nothing is not listed. A list, as there are few resources and several
/// sums per pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sum(Vec<(Text, i128)>);

impl Sum {
    /// Adds `amount` thousand-millionths of a resource.
    fn add_nano(&mut self, resource: &str, amount: i128) {
        match self.position(resource) {
            Ok(at) => {
                self.0[at].1 += amount;
                if self.0[at].1 == 0 {
                    self.0.remove(at);
                }
            }
            Err(at) if amount != 0 => {
                self.0.reserve_exact(1);
                self.0.insert(at, (interned(resource), amount));
            }
            Err(_) => {}
        }
    }

    fn position(&self, resource: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (**name).cmp(resource))
    }

    /// Adds whole pieces of a resource.
    pub fn add_whole(&mut self, resource: &str, count: i64) {
        self.add_nano(resource, i128::from(count) * UNIT);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            self.add_nano(resource, *amount);
        }
    }

    /// Takes all of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            self.add_nano(resource, -*amount);
        }
    }

    /// As it stands in a status.
    pub fn quantities(&self) -> BTreeMap<String, RawQuantity> {
        let shown = |(resource, nano): &(Text, i128)| {
            (resource.to_string(), quantity(resource, *nano).into())
        };
        self.0.iter().map(shown).collect()
    }

    /// The resources that queues share, as they stand in a status.
    pub fn shared(&self) -> BTreeMap<String, RawQuantity> {
        let is_shared =
            |name: &str| [resources::CPU, resources::MEMORY, gpu::NVIDIA, gpu::AMD].contains(&name);
        self.quantities().into_iter().filter(|(name, _)| is_shared(name)).collect()
    }

    /// How much there is of a resource that queues share: milli-CPU, bytes, devices.
    pub fn in_planner_units(&self, resource: QueueResource) -> f64 {
        match resource {
            QueueResource::Cpu => self.of(resources::CPU) * 1000.0,
            QueueResource::Memory => self.of(resources::MEMORY),
            QueueResource::Gpu => self.gpus(),
        }
    }

    /// GPUs of all vendors.
    pub fn gpus(&self) -> f64 {
        self.of(gpu::NVIDIA) + self.of(gpu::AMD)
    }

    /// How much there is of a resource, in its own unit.
    pub fn of(&self, resource: &str) -> f64 {
        self.position(resource).map_or(0.0, |at| self.0[at].1 as f64 / UNIT as f64)
    }
}

/// The name of a resource; names that every pod has exist once.
fn interned(resource: &str) -> Text {
    static COMMON: LazyLock<[Text; 4]> = LazyLock::new(|| {
        [resources::CPU, resources::MEMORY, gpu::NVIDIA, gpu::AMD].map(Text::from)
    });
    let known = COMMON.iter().find(|name| ***name == *resource);
    known.cloned().unwrap_or_else(|| resource.into())
}

/// Bytes are written with binary suffixes, everything else with decimal ones.
fn quantity(resource: &str, nano: i128) -> Quantity {
    let in_bytes = matches!(resource, resources::MEMORY | resources::EPHEMERAL_STORAGE)
        || resource.starts_with(resources::HUGE_PAGES_PREFIX);
    let whole = i64::try_from(nano / UNIT).unwrap_or(i64::MAX);
    if nano % UNIT == 0 {
        return if in_bytes { Quantity::from_bytes(whole) } else { Quantity::from_value(whole) };
    }
    // Thousandths are what people and schedulers count in; a part of one counts as a whole one, as quantities do.
    let milli = (nano + MILLI - 1).div_euclid(MILLI);
    Quantity::parse(&format!("{milli}m")).unwrap_or(Quantity::from_value(whole))
}

/// What a pod asks for and what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Demand {
    /// In use or waited for.
    pub requested: Sum,
    /// What pods with a node use.
    pub allocated: Sum,
}

impl Demand {
    /// Reads it off a pod; `device_mib` is the memory of one GPU of its node, `whole` what its vendor calls whole GPUs.
    pub fn of(pod: &PodSpec, device_mib: Option<i64>, whole: &str) -> Self {
        if is_over(pod.status) {
            return Self::default();
        }
        let mut requested = plain(&pod.request);
        let mut allocated = requested.clone();
        match &pod.request.gpu {
            GpuRequest::Memory { mib, devices } => {
                let all = i128::from(*mib) * i128::from(*devices);
                requested.add_nano(gpu::MEMORY_RESOURCE, all * UNIT);
                if let Some(device) = device_mib.filter(|mib| *mib > 0) {
                    allocated.add_nano(gpu::NVIDIA, all * UNIT / i128::from(device));
                }
            }
            other => {
                gpus(&mut requested, other, whole);
                gpus(&mut allocated, other, whole);
            }
        }
        if pod.node.is_none() {
            allocated = Sum::default();
        }
        Self { requested, allocated }
    }
}

/// A pod that asks for nothing any more.
pub fn is_over(status: Status) -> bool {
    matches!(status, Status::Succeeded | Status::Failed | Status::Deleted)
}

impl Demand {
    /// With GPUs that a pod claims.
    #[must_use]
    pub fn with_claimed(&self, claimed: &Sum, has_node: bool) -> Self {
        let mut all = self.clone();
        all.requested.add(claimed);
        if has_node {
            all.allocated.add(claimed);
        }
        all
    }
}

/// The request of a pod without its GPUs.
fn plain(request: &PodRequest) -> Sum {
    let mut sum = Sum::default();
    sum.add_nano(resources::CPU, i128::from(request.cpu_milli) * MILLI);
    sum.add_nano(resources::MEMORY, i128::from(request.memory_bytes) * UNIT);
    for (resource, amount) in &request.other {
        // The planner counts storage in bytes and extended resources in thousandths.
        let unit = match &**resource {
            resources::EPHEMERAL_STORAGE | "storage" => UNIT,
            _ => MILLI,
        };
        sum.add_nano(resource, i128::from(*amount) * unit);
    }
    sum
}

fn gpus(sum: &mut Sum, request: &GpuRequest, whole: &str) {
    match request {
        GpuRequest::None | GpuRequest::Memory { .. } => {}
        GpuRequest::Whole { count } => sum.add_nano(whole, i128::from(*count) * UNIT),
        GpuRequest::Fraction { portion, devices } => {
            let nano = (portion * UNIT as f64).round() as i128;
            sum.add_nano(gpu::NVIDIA, nano * i128::from(*devices));
        }
        GpuRequest::Mig(profiles) => {
            for (profile, count) in profiles {
                sum.add_nano(profile, i128::from(*count) * UNIT);
            }
        }
    }
}

/// A quota or a limit, as it stands in a status; -1 is unlimited.
pub fn resources_of(bounds: &Amounts) -> BTreeMap<String, RawQuantity> {
    let quantity = |resource: QueueResource| {
        let bound = bounds[resource];
        if bound < 0.0 {
            return Quantity::from_value(-1);
        }
        match resource {
            QueueResource::Cpu => Quantity::from_milli(bound as i64),
            QueueResource::Memory => Quantity::from_value(bound as i64),
            QueueResource::Gpu => Quantity::from_milli((bound * 1000.0).round() as i64),
        }
    };
    let name = |resource: QueueResource| match resource {
        QueueResource::Cpu => resources::CPU,
        QueueResource::Memory => resources::MEMORY,
        QueueResource::Gpu => gpu::NVIDIA,
    };
    let all = QueueResource::ALL.into_iter();
    all.map(|resource| (name(resource).to_owned(), quantity(resource).into())).collect()
}

/// Do two lists say the same, whatever the notation?
pub fn same_quantities(
    left: &BTreeMap<String, RawQuantity>,
    right: &BTreeMap<String, RawQuantity>,
) -> bool {
    left.len() == right.len()
        && left.iter().all(|(resource, amount)| {
            let other = right.get(resource).map(RawQuantity::parse);
            matches!((amount.parse(), other), (Ok(one), Some(Ok(other))) if one == other)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sum: &Sum) -> Vec<String> {
        sum.quantities().iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect()
    }

    #[test]
    fn sums_are_exact_and_read_like_kubernetes() {
        let mut sum = Sum::default();
        for _ in 0..3 {
            gpus(&mut sum, &GpuRequest::Fraction { portion: 0.1, devices: 1 }, gpu::NVIDIA);
        }
        sum.add(&plain(&PodRequest {
            cpu_milli: 1500,
            memory_bytes: 3 << 30,
            other: vec![("vendor/thing".into(), 2000)],
            ..PodRequest::default()
        }));
        assert_eq!(
            texts(&sum),
            ["cpu=1500m", "memory=3Gi", "nvidia.com/gpu=300m", "vendor/thing=2"]
        );
        let copy = sum.clone();
        sum.subtract(&copy);
        assert_eq!(sum, Sum::default());
    }

    #[test]
    fn whole_gpus_are_called_what_their_vendor_calls_them() {
        let mut sum = Sum::default();
        gpus(&mut sum, &GpuRequest::Whole { count: 2 }, gpu::AMD);
        gpus(&mut sum, &GpuRequest::Whole { count: 1 }, gpu::NVIDIA);
        assert_eq!(texts(&sum), ["amd.com/gpu=2", "nvidia.com/gpu=1"]);
        assert_eq!(sum.in_planner_units(QueueResource::Gpu), 3.0);
    }

    #[test]
    fn notation_makes_no_difference() {
        let list = |text: &str| BTreeMap::from([("cpu".to_owned(), RawQuantity(text.to_owned()))]);
        assert!(same_quantities(&list("1500m"), &list("1.5")));
        assert!(!same_quantities(&list("1500m"), &list("2")));
        assert!(!same_quantities(&list("1"), &BTreeMap::new()));
    }
}
