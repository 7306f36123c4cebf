//! The GPU request of a pod: whole devices, a fraction or an amount of memory of each of several devices, MIG instances, or
//! claims. This module alone reads the annotations; every component asks it, so that all of them have one answer.
//!
//! A request that contradicts itself is a [`GpuProblem`] in the words of KAI's admission webhook. Such a pod is denied, is not
//! planned and is not bound. A pod that has a node already counts with the part that can be read: MIG instances before a
//! fraction, a fraction before memory, memory before whole devices.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::names::gpu;
use crate::quantity::Quantity;

/// Annotations that decide how much of which devices a pod gets.
pub const REQUEST_ANNOTATIONS: [&str; 3] = [gpu::FRACTION, gpu::MEMORY, gpu::FRACTION_NUM_DEVICES];

/// What a pod requests of GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum GpuRequest {
    /// No GPU.
    #[default]
    None,
    /// Whole devices.
    Whole { count: i64 },
    /// The same share of each of several devices.
    Shared {
        /// Share of each device.
        share: GpuShare,
        /// Number of devices, at least 1.
        devices: i64,
    },
    /// MIG instances.
    Mig {
        /// Number of instances by resource name.
        instances: BTreeMap<String, i64>,
        /// Annotations request them, as in older releases of KAI.
        by_annotation: bool,
    },
    /// Devices of resource claims only.
    Claim,
}

impl GpuRequest {
    /// Share of each device and number of devices, where devices are shared.
    pub const fn shared(&self) -> Option<(GpuShare, i64)> {
        match self {
            Self::Shared { share, devices } => Some((*share, *devices)),
            Self::None | Self::Whole { .. } | Self::Mig { .. } | Self::Claim => None,
        }
    }
}

impl fmt::Display for GpuRequest {
    /// Renders the request in a few characters, for tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::Whole { count } => write!(f, "{count}"),
            Self::Shared { share, devices: 1 } => write!(f, "{share}"),
            Self::Shared { share, devices } => write!(f, "{devices} x {share}"),
            Self::Mig { instances, .. } => {
                let named = instances.iter().map(|(name, count)| {
                    format!("{count} x {}", name.trim_start_matches(gpu::MIG_PREFIX))
                });
                f.write_str(&named.collect::<Vec<_>>().join(", "))
            }
            Self::Claim => f.write_str("claim"),
        }
    }
}

/// Share of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuShare {
    /// Fraction of the memory of the device, in (0, 1].
    Fraction(f64),
    /// MiB, at least 1.
    Memory(i64),
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(portion) => write!(f, "{portion}"),
            Self::Memory(mib) => write!(f, "{mib} MiB"),
        }
    }
}

/// A field that is malformed or contradicts another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct GpuProblem {
    /// Path of the annotation.
    pub field: String,
    /// KAI's message where KAI has one.
    pub message: String,
}

impl GpuProblem {
    fn of(annotation: &str, message: impl Into<String>) -> Self {
        Self { field: format!("metadata.annotations[{annotation}]"), message: message.into() }
    }
}

/// A GPU request as far as it can be read, with its problems in the order in which KAI reports them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// The request; of a contradictory one the part that counts for a pod with a node.
    pub request: GpuRequest,
    /// Problems; empty for a valid request.
    pub problems: Vec<GpuProblem>,
}

/// GPU resources of the containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuResources {
    /// Whole devices of every vendor.
    pub whole: i64,
    /// MIG instances by resource name.
    pub mig: BTreeMap<String, i64>,
    /// A container names a device resource in its requests or limits, whatever the amount.
    pub is_named: bool,
    /// The pod has resource claims.
    pub has_claims: bool,
}

impl GpuResources {
    /// Adds an amount that a container requests; other resources than devices are ignored.
    pub fn add(&mut self, resource: &str, amount: i64) {
        if !is_device(resource) {
            return;
        }
        self.is_named = true;
        if resource.starts_with(gpu::MIG_PREFIX) {
            let instances = self.mig.entry(resource.to_owned()).or_default();
            *instances = instances.saturating_add(amount);
        } else {
            self.whole = self.whole.saturating_add(amount);
        }
    }
}

/// Is it a resource of a GPU device plugin?
pub fn is_device(resource: &str) -> bool {
    resource == gpu::NVIDIA || resource == gpu::AMD || resource.starts_with(gpu::MIG_PREFIX)
}

/// The annotations of a pod that request GPUs, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuAnnotations<'a> {
    fraction: Option<&'a str>,
    memory: Option<&'a str>,
    devices: Option<&'a str>,
    container: Option<&'a str>,
    /// MIG instances by resource name, as older releases of KAI requested them.
    mig: Vec<(&'a str, &'a str)>,
}

impl<'a> GpuAnnotations<'a> {
    /// Finds them among the annotations of a pod.
    pub fn of<K: Borrow<str> + Ord, V: AsRef<str>>(annotations: &'a BTreeMap<K, V>) -> Self {
        let get = |key: &str| annotations.get(key).map(AsRef::as_ref);
        let from = (Bound::Included(gpu::MIG_PREFIX), Bound::Unbounded);
        let mig =
            annotations.range::<str, _>(from).map(|(key, text)| (key.borrow(), text.as_ref()));
        Self {
            fraction: get(gpu::FRACTION),
            memory: get(gpu::MEMORY),
            devices: get(gpu::FRACTION_NUM_DEVICES),
            container: get(gpu::FRACTION_CONTAINER),
            mig: mig.take_while(|(key, _)| key.starts_with(gpu::MIG_PREFIX)).collect(),
        }
    }

    /// The pod requests a share of devices, whether or not it can be read.
    pub const fn request_share(&self) -> bool {
        self.fraction.is_some() || self.memory.is_some()
    }

    /// Name of the container that gets the share; none: the first container.
    pub const fn container(&self) -> Option<&'a str> {
        self.container
    }

    /// The request of a pod with these annotations and resources.
    pub fn read(&self, resources: GpuResources) -> GpuReading {
        let mut problems = Vec::new();
        self.contradictions(&resources, &mut problems);
        let share = self.share(&mut problems);
        let devices = self.devices(&mut problems);
        let annotated = self.annotated_mig(&mut problems);
        let GpuResources { whole, mut mig, has_claims, .. } = resources;
        let by_annotation = !annotated.is_empty();
        mig.retain(|_, count| *count != 0);
        let request = match share {
            _ if by_annotation => GpuRequest::Mig { instances: annotated, by_annotation },
            _ if !mig.is_empty() => GpuRequest::Mig { instances: mig, by_annotation },
            Some(share) => GpuRequest::Shared { share, devices },
            None if whole != 0 => GpuRequest::Whole { count: whole },
            None if has_claims => GpuRequest::Claim,
            None => GpuRequest::None,
        };
        GpuReading { request, problems }
    }

    fn contradictions(&self, resources: &GpuResources, problems: &mut Vec<GpuProblem>) {
        let has_devices = resources.is_named || !self.mig.is_empty();
        if self.fraction.is_some() && has_devices {
            let message =
                "cannot have both GPU fraction request and whole GPU resource request/limit";
            problems.push(GpuProblem::of(gpu::FRACTION, message));
        }
        if self.memory.is_some() && (self.fraction.is_some() || has_devices) {
            let message = "cannot request both GPU and GPU memory";
            problems.push(GpuProblem::of(gpu::MEMORY, message));
        }
        if self.devices.is_some() && !self.request_share() {
            let message = "cannot request multiple fractional devices without specifying fraction portion or gpu-memory";
            problems.push(GpuProblem::of(gpu::FRACTION_NUM_DEVICES, message));
        }
    }

    fn share(&self, problems: &mut Vec<GpuProblem>) -> Option<GpuShare> {
        let memory = self.memory.and_then(|text| {
            positive(text, problems, || {
                let message =
                    "gpu-memory annotation value must be a positive integer greater than 0";
                GpuProblem::of(gpu::MEMORY, message)
            })
        });
        let portion = self.fraction.and_then(|text| {
            problems.extend(
                portion_problem(text).map(|message| GpuProblem::of(gpu::FRACTION, message)),
            );
            text.parse().ok().filter(|portion: &f64| *portion > 0.0 && *portion <= 1.0)
        });
        portion.map(GpuShare::Fraction).or(memory.map(GpuShare::Memory))
    }

    fn devices(&self, problems: &mut Vec<GpuProblem>) -> i64 {
        let Some(text) = self.devices else { return 1 };
        let read = positive(text, problems, || {
            let message =
                "fraction count annotation value must be a positive integer greater than 0";
            GpuProblem::of(gpu::FRACTION_NUM_DEVICES, message)
        });
        read.unwrap_or(1)
    }

    fn annotated_mig(&self, problems: &mut Vec<GpuProblem>) -> BTreeMap<String, i64> {
        let instances = self.mig.iter().filter_map(|(key, text)| {
            let count = positive(text, problems, || {
                let message = format!("must be a whole number above 0, is {text:?}");
                GpuProblem::of(key, message)
            });
            Some(((*key).to_owned(), count?))
        });
        instances.collect()
    }
}

/// A number above 0. One that is written in another way than with digits is a problem, and still counts where a pod has it.
fn positive(
    text: &str,
    problems: &mut Vec<GpuProblem>,
    problem: impl FnOnce() -> GpuProblem,
) -> Option<i64> {
    let number = text.parse().ok().filter(|number: &i64| *number > 0);
    if number.is_none() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        problems.push(problem());
    }
    number
}

/// What is wrong with a fraction: it has to be a float between 0 and 1, both excluded, and also a quantity.
fn portion_problem(text: &str) -> Option<String> {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let within = |number: f64| number.is_nan() || (number > 0.0 && number < 1.0);
    if !is_hexadecimal && !text.parse().is_ok_and(within) {
        let message = "gpu-fraction annotation value must be a positive number smaller than 1.0";
        return Some(message.to_owned());
    }
    Quantity::parse(text).err().map(|_| {
        format!(
            "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: {text}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRACTION: &str = "gpu-fraction";
    const MEMORY: &str = "gpu-memory";
    const DEVICES: &str = "gpu-fraction-num-devices";
    const MIG: &str = "nvidia.com/mig-1g.5gb";

    fn read(annotations: &[(&str, &str)], resources: &[(&str, i64)]) -> GpuReading {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let mut all = GpuResources::default();
        for (name, amount) in resources {
            all.add(name, *amount);
        }
        GpuAnnotations::of(&annotations).read(all)
    }

    fn shared(share: GpuShare, devices: i64) -> GpuRequest {
        GpuRequest::Shared { share, devices }
    }

    fn mig(count: i64, by_annotation: bool) -> GpuRequest {
        GpuRequest::Mig { instances: BTreeMap::from([(MIG.to_owned(), count)]), by_annotation }
    }

    #[test]
    fn valid_requests_are_read_without_problems() {
        let half = GpuShare::Fraction(0.5);
        for (annotations, resources, wanted) in [
            (&[][..], &[][..], GpuRequest::None),
            (&[], &[("cpu", 4)], GpuRequest::None),
            (&[], &[("nvidia.com/gpu", 1), ("amd.com/gpu", 2)], GpuRequest::Whole { count: 3 }),
            (&[], &[("nvidia.com/gpu", 0)], GpuRequest::None),
            (&[], &[(MIG, 2)], mig(2, false)),
            (&[(MIG, "2")], &[], mig(2, true)),
            (&[(FRACTION, "0.5")], &[], shared(half, 1)),
            (&[(FRACTION, "5e-1"), (DEVICES, "2")], &[], shared(half, 2)),
            (&[(MEMORY, "2000"), (DEVICES, "3")], &[], shared(GpuShare::Memory(2000), 3)),
        ] {
            let reading = read(annotations, resources);
            assert_eq!(reading.request, wanted, "{annotations:?} {resources:?}");
            assert_eq!(reading.problems, [], "{annotations:?} {resources:?}");
        }
    }

    #[test]
    fn contradictions_are_problems_and_the_fraction_counts() {
        let half = shared(GpuShare::Fraction(0.5), 1);
        let memory = shared(GpuShare::Memory(100), 1);
        let both = "cannot have both GPU fraction request and whole GPU resource request/limit";
        for (annotations, resources, field, message, counts) in [
            (
                &[(FRACTION, "0.5"), (MEMORY, "100")][..],
                &[][..],
                MEMORY,
                "cannot request both GPU and GPU memory",
                half.clone(),
            ),
            (&[(FRACTION, "0.5")], &[("nvidia.com/gpu", 1)], FRACTION, both, half.clone()),
            (&[(FRACTION, "0.5")], &[("nvidia.com/gpu", 0)], FRACTION, both, half.clone()),
            (&[(FRACTION, "0.5")], &[("amd.com/gpu", 1)], FRACTION, both, half),
            (&[(FRACTION, "0.5")], &[(MIG, 1)], FRACTION, both, mig(1, false)),
            (&[(FRACTION, "0.5"), (MIG, "1")], &[], FRACTION, both, mig(1, true)),
            (
                &[(MEMORY, "100")],
                &[("nvidia.com/gpu", 1)],
                MEMORY,
                "cannot request both GPU and GPU memory",
                memory,
            ),
            (
                &[(DEVICES, "2")],
                &[],
                DEVICES,
                "cannot request multiple fractional devices without specifying fraction portion or gpu-memory",
                GpuRequest::None,
            ),
        ] {
            let reading = read(annotations, resources);
            assert_eq!(reading.problems, [GpuProblem::of(field, message)], "{annotations:?}");
            assert_eq!(reading.request, counts, "{annotations:?} {resources:?}");
        }
    }

    #[test]
    fn malformed_values_are_problems_of_their_annotation() {
        let one = shared(GpuShare::Fraction(1.0), 1);
        for (annotations, field, counts) in [
            (&[(FRACTION, "1")][..], FRACTION, one),
            (&[(FRACTION, "0")], FRACTION, GpuRequest::None),
            (&[(FRACTION, "half")], FRACTION, GpuRequest::None),
            (&[(FRACTION, "NaN")], FRACTION, GpuRequest::None),
            (&[(FRACTION, "")], FRACTION, GpuRequest::None),
            (&[(MEMORY, "0")], MEMORY, GpuRequest::None),
            (&[(MEMORY, "5Gi")], MEMORY, GpuRequest::None),
            (&[(MEMORY, "+5")], MEMORY, shared(GpuShare::Memory(5), 1)),
            (&[(MEMORY, "5"), (DEVICES, "0")], DEVICES, shared(GpuShare::Memory(5), 1)),
            (&[(MIG, "many")], MIG, GpuRequest::None),
        ] {
            let reading = read(annotations, &[]);
            let fields: Vec<&str> = reading.problems.iter().map(|one| one.field.as_str()).collect();
            assert_eq!(fields, [format!("metadata.annotations[{field}]")], "{annotations:?}");
            assert_eq!(reading.request, counts, "{annotations:?}");
        }
    }

    #[test]
    fn claims_count_where_nothing_else_is_requested() {
        let claims = GpuResources { has_claims: true, ..GpuResources::default() };
        let whole = GpuResources { whole: 1, ..claims.clone() };
        let none = BTreeMap::<String, String>::new();
        assert_eq!(GpuAnnotations::of(&none).read(claims).request, GpuRequest::Claim);
        assert_eq!(GpuAnnotations::of(&none).read(whole).request, GpuRequest::Whole { count: 1 });
    }

    #[test]
    fn requests_are_short_in_tables() {
        let text = |annotations, resources| read(annotations, resources).request.to_string();
        assert_eq!(text(&[], &[]), "0");
        assert_eq!(text(&[], &[("nvidia.com/gpu", 4)]), "4");
        assert_eq!(text(&[(FRACTION, "0.5")], &[]), "0.5");
        assert_eq!(text(&[(MEMORY, "8000"), (DEVICES, "2")], &[]), "2 x 8000 MiB");
        assert_eq!(text(&[], &[(MIG, 2)]), "2 x 1g.5gb");
    }
}
