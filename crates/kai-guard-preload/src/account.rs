//! Reservations: charged before the driver is called, corrected or taken back afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use kai_guard::MIB;
use kai_guard::limits::Mode;

use crate::attach::Attached;
use crate::cuda::CuDevice;
use crate::hooks::{graphs, pools, queries};
use crate::measured;
use crate::state::{Account, Device, State};

/// Within this distance of the limit NVML is queried before an allocation, because contexts and code grow unnoticed.
const NEAR: u64 = 1024 * MIB;
/// NVML is queried again after this many bytes near the limit,
const OFTEN: u64 = MIB;
/// and after this many bytes elsewhere: a tenant that overwrites the region gains no more than this.
const SELDOM: u64 = 4096 * MIB;
/// Larger allocations take blocks of their own.
const SMALL: u64 = MIB;
/// The driver gives memory in such blocks; smaller allocations share one.
const BLOCK: u64 = 2 * MIB;
const ALIGNMENT: u64 = 512;

/// Bytes the driver takes for a linear allocation.
pub(crate) fn charged_bytes(bytes: u64) -> u64 {
    let unit = if bytes > SMALL { BLOCK } else { ALIGNMENT };
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// A running allocation or free.
pub(crate) struct Operation<'a>(&'a AtomicU64);

impl<'a> Operation<'a> {
    pub(crate) fn new(in_flight: &'a AtomicU64) -> Self {
        in_flight.fetch_add(1, Ordering::SeqCst);
        Self(in_flight)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A reservation; taken back when dropped.
pub(crate) struct Reservation<'a> {
    attached: &'a Attached,
    pub(crate) device: &'a Device,
    bytes: u64,
    _operation: Operation<'a>,
}

impl Reservation<'_> {
    /// Ends the reservation; `bytes` stay charged.
    pub(crate) fn keep(mut self, bytes: u64) {
        self.end(bytes);
    }

    fn end(&mut self, kept: u64) {
        self.attached.region.commit(self.attached.slot, self.device.index, self.bytes, kept);
        self.bytes = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.end(0);
        }
    }
}

/// Answer to an allocation.
pub(crate) enum Verdict<'a> {
    /// Call the driver, then keep or drop the reservation.
    Reserved(Reservation<'a>),
    /// Return out of memory.
    Refused,
    /// Call the driver; nothing is charged.
    Free,
}

/// Reserves `bytes` on an account.
pub(crate) fn reserve<'a>(state: &'a State, account: Account<'a>, bytes: u64) -> Verdict<'a> {
    match account {
        Account::Closed => Verdict::Refused,
        Account::Free => Verdict::Free,
        Account::Limited(attached, device) => {
            let reservation = try_reserve(state, attached, device, bytes, bytes).or_else(|| {
                recover(state, attached, device);
                try_reserve(state, attached, device, bytes, bytes)
            });
            if let Some(reservation) = reservation {
                return Verdict::Reserved(reservation);
            }
            attached.region.count_refusal(device.index);
            Verdict::Refused
        }
    }
}

/// One attempt without recovery. `new_bytes` is the part of the reservation that will surely be taken; a pool mostly
/// serves from what it holds.
pub(crate) fn try_reserve<'a>(
    state: &'a State,
    attached: &'a Attached,
    device: &'a Device,
    bytes: u64,
    new_bytes: u64,
) -> Option<Reservation<'a>> {
    let operation = state.begin();
    let region = attached.region;
    if state.mode == Mode::Report {
        region.reserve_unchecked(attached.slot, device.index, bytes);
        return Some(Reservation { attached, device, bytes, _operation: operation });
    }
    let limit = device.limit.load(Ordering::Relaxed);
    if !region.reserve(attached.slot, device.index, bytes, limit) {
        return None;
    }
    let reservation = Reservation { attached, device, bytes, _operation: operation };
    let used = region.used(device.index);
    let unmeasured =
        device.unmeasured.fetch_add(new_bytes, Ordering::Relaxed).saturating_add(new_bytes);
    let is_near = used.saturating_add(NEAR) > limit;
    if unmeasured > SELDOM || (is_near && unmeasured > OFTEN) {
        measured::update_overhead(state, attached, device, bytes, 1);
        if region.used(device.index) > limit {
            return None;
        }
    }
    burst_fits(state, device, bytes, used).then_some(reservation)
}

fn burst_fits(state: &State, device: &Device, bytes: u64, used: u64) -> bool {
    if !device.has_burst_rule.load(Ordering::Relaxed) {
        return true;
    }
    let Some(limits) = state.limits_of(device.uuid) else { return true };
    if used <= limits.request_bytes {
        return true;
    }
    let Some((free, total)) = queries::real_memory() else { return true };
    limits.burst_fits(bytes, used.saturating_sub(bytes), total, free)
}

/// What is done before an allocation is refused: everything that could have become free in the meantime.
pub(crate) fn recover(state: &State, attached: &Attached, device: &Device) {
    pools::trim(state, device);
    graphs::trim_device(state, device.ordinal);
    state.pools.refresh(state);
    attached.region.reap(&attached.processes, Some(attached.pid));
    measured::update_overhead(state, attached, device, 0, 0);
    state.reload_limits(attached, device);
}

/// Takes bytes off the charges of a device.
pub(crate) fn release(state: &State, ordinal: CuDevice, bytes: u64) {
    if let Account::Limited(attached, device) = state.account(ordinal) {
        attached.region.release(attached.slot, device.index, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_take_whole_blocks() {
        assert_eq!(charged_bytes(1), 512);
        assert_eq!(charged_bytes(MIB), MIB);
        assert_eq!(charged_bytes(MIB + 1), 2 * MIB);
        assert_eq!(charged_bytes(3 * MIB), 4 * MIB);
        assert_eq!(charged_bytes(u64::MAX), u64::MAX);
    }
}
