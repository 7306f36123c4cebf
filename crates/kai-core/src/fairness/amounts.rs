//! Amounts of the three resources that queues share, and how they compare with bounds.
//!
//! Rule: an *amount* is what is allocated or requested and is never negative; a *bound* is a quota, a limit or a
//! share and may be [`UNLIMITED`], which counts as +∞ (and equals itself). All maths is `f64` in native
//! units: milli-CPU, bytes, devices.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Index, IndexMut, Sub, SubAssign};

use crate::compatibility::Compatibility;

/// The bound that nothing exceeds.
pub const UNLIMITED: f64 = -1.0;

/// A resource that queues share. The order of the variants is the order in which violations are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueueResource {
    /// Processor time, in milli-CPU.
    Cpu,
    /// Amount of memory, in bytes.
    Memory,
    /// Devices, possibly fractions of one.
    Gpu,
}

impl QueueResource {
    /// Every resource, in order.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Gpu];
}

/// One number per resource.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Amounts([f64; 3]);

impl Amounts {
    /// Zero of every resource.
    pub const ZERO: Self = Self([0.0; 3]);

    /// No bound on anything.
    pub const UNBOUNDED: Self = Self([UNLIMITED; 3]);

    /// Milli-CPU, bytes and devices.
    pub const fn new(cpu: f64, memory: f64, gpu: f64) -> Self {
        Self([cpu, memory, gpu])
    }

    /// Adds what pods hold, or takes it back with a sign of -1. Pods hold hundredths of GPUs, and so does the sum: neither the
    /// order of additions nor one that was taken back leaves a trace. KAI compares sums with the noise of floats in them.
    pub(crate) fn charge(&mut self, held: &Self, sign: f64, compatibility: Compatibility) {
        for resource in QueueResource::ALL {
            self[resource] += sign * held[resource];
        }
        if !compatibility.is_kai() {
            let gpu = &mut self[QueueResource::Gpu];
            *gpu = (*gpu * 100.0).round() / 100.0;
        }
    }

    /// The number that `number_of` gives for each resource.
    pub fn from_fn(number_of: impl FnMut(QueueResource) -> f64) -> Self {
        Self(QueueResource::ALL.map(number_of))
    }

    /// The smaller number of each resource, −1 meaning minus one.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::from_fn(|resource| self[resource].min(other[resource]))
    }

    /// The tighter bound of each resource.
    #[must_use]
    pub fn tighter_bound(self, other: Self) -> Self {
        Self::from_fn(|resource| {
            if compare_bounds(self[resource], other[resource]) == Ordering::Greater {
                other[resource]
            } else {
                self[resource]
            }
        })
    }

    /// The first resource of which this amount exceeds its bound by more than `tolerance`.
    pub fn first_above(&self, bounds: &Self, tolerance: f64) -> Option<QueueResource> {
        QueueResource::ALL.into_iter().find(|&resource| {
            bounds[resource] != UNLIMITED && self[resource] > bounds[resource] + tolerance
        })
    }

    /// Whether this amount stays within its bound in every resource.
    pub fn within(&self, bounds: &Self, tolerance: f64) -> bool {
        self.first_above(bounds, tolerance).is_none()
    }

    /// Compares bounds with bounds: ≤ in every resource, ∞ = ∞.
    pub fn bounds_le(&self, other: &Self) -> bool {
        QueueResource::ALL
            .into_iter()
            .all(|resource| compare_bounds(self[resource], other[resource]) != Ordering::Greater)
    }
}

/// Compares two bounds, [`UNLIMITED`] being above every number and equal to itself.
pub fn compare_bounds(left: f64, right: f64) -> Ordering {
    match (left == UNLIMITED, right == UNLIMITED) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_numbers(left, right),
    }
}

/// Compares two finite numbers; unlike `total_cmp`, zero equals minus zero.
pub(super) fn compare_numbers(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

impl Index<QueueResource> for Amounts {
    type Output = f64;

    fn index(&self, resource: QueueResource) -> &f64 {
        &self.0[resource as usize]
    }
}

impl IndexMut<QueueResource> for Amounts {
    fn index_mut(&mut self, resource: QueueResource) -> &mut f64 {
        &mut self.0[resource as usize]
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_fn(|resource| self[resource] + other[resource])
    }
}

impl Sub for Amounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::from_fn(|resource| self[resource] - other[resource])
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Amounts {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The sum, equal for every order of the numbers: queues come in the order in which they were created.
pub(crate) fn sum_in_any_order(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.into_iter().sum()
}

/// A set of resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResourceSet(u8);

impl ResourceSet {
    /// The set without resources.
    pub const EMPTY: Self = Self(0);

    /// The resources of which there is more than zero.
    pub fn positive(amounts: &Amounts) -> Self {
        QueueResource::ALL
            .into_iter()
            .filter(|&resource| amounts[resource] > 0.0)
            .fold(Self::EMPTY, Self::with)
    }

    /// This set and `resource`.
    #[must_use]
    pub fn with(self, resource: QueueResource) -> Self {
        Self(self.0 | (1 << resource as u8))
    }

    /// This set less `resource`.
    #[must_use]
    pub fn without(self, resource: QueueResource) -> Self {
        Self(self.0 & !(1 << resource as u8))
    }

    /// The resources of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `resource` is in the set.
    pub fn contains(self, resource: QueueResource) -> bool {
        self.0 & (1 << resource as u8) != 0
    }

    /// The resources of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = QueueResource> {
        QueueResource::ALL.into_iter().filter(move |&resource| self.contains(resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_above_every_number_and_equal_to_itself() {
        assert_eq!(compare_bounds(UNLIMITED, 2.5), Ordering::Greater);
        assert_eq!(compare_bounds(2.5, UNLIMITED), Ordering::Less);
        assert_eq!(compare_bounds(UNLIMITED, UNLIMITED), Ordering::Equal);
        assert_eq!(compare_bounds(1.5, 2.5), Ordering::Less);
    }

    #[test]
    fn the_first_exceeded_resource_is_named_in_order() {
        let allocated = Amounts::new(2.0, 2.0, 2.0);
        let first_above = |bounds: Amounts| allocated.first_above(&bounds, 0.0);
        assert_eq!(first_above(Amounts::new(2.0, 1.0, 1.0)), Some(QueueResource::Memory));
        assert_eq!(first_above(Amounts::UNBOUNDED), None);
        assert!(allocated.within(&Amounts::new(2.0, UNLIMITED, 3.0), 0.0));
    }

    #[test]
    fn last_bits_of_a_sum_are_above_a_bound_only_without_tolerance() {
        let allocated = Amounts::new(0.0, 0.0, 0.1 + 0.2);
        let bound = Amounts::new(0.0, 0.0, 0.3);
        assert!(!allocated.within(&bound, 0.0));
        assert!(allocated.within(&bound, 1e-9));
    }

    #[test]
    fn tighter_bound_prefers_the_finite_one() {
        let left = Amounts::new(UNLIMITED, 3.0, UNLIMITED);
        let right = Amounts::new(1.0, UNLIMITED, UNLIMITED);
        assert_eq!(left.tighter_bound(right), Amounts::new(1.0, 3.0, UNLIMITED));
        assert!(left.tighter_bound(right).bounds_le(&left));
    }

    #[test]
    fn resource_sets_hold_what_is_positive() {
        let set = ResourceSet::positive(&Amounts::new(0.0, 5.0, 0.5));
        assert_eq!(set.iter().collect::<Vec<_>>(), [QueueResource::Memory, QueueResource::Gpu]);
        assert!(!set.without(QueueResource::Gpu).contains(QueueResource::Gpu));
    }
}
