use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::*;
use crate::process_table::ProcessIdentity;

struct Alive(&'static [u32]);

impl Liveness for Alive {
    fn is_alive(&self, owner: Owner, _position: usize) -> bool {
        let (Owner::Process(ProcessIdentity { pid, .. }) | Owner::Pid(pid)) = owner;
        self.0.contains(&pid)
    }
}

struct AllAlive;

impl Liveness for AllAlive {
    fn is_alive(&self, _: Owner, _: usize) -> bool {
        true
    }
}

fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start_ticks: u64::from(pid) * 10, pid_namespace: 7, boot: 9 }
}

fn region() -> Box<Region> {
    let region = Box::<Region>::default();
    region.open().unwrap();
    region
}

fn uuid(last: u8) -> DeviceUuid {
    DeviceUuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

#[test]
fn reservation_above_the_limit_is_refused_and_leaves_nothing() {
    let region = region();
    let device = region.device(uuid(1)).unwrap();
    let slot = region.take_slot(process(1), &Alive(&[1])).unwrap();
    assert!(region.reserve(slot, device, 60, 100));
    region.commit(slot, device, 60, 60);
    assert!(!region.reserve(slot, device, 41, 100));
    assert_eq!(region.used(device), 60);
    assert!(region.reserve(slot, device, 40, 100), "up to the limit exactly");
    region.commit(slot, device, 40, 10);
    assert_eq!(region.own(slot, device), OwnCharges { data: 70, pending: 0, overhead: 0 });
    region.release(slot, device, 1000);
    assert_eq!(region.used(device), 0, "never below zero");
    assert!(!region.reserve(slot, device, 1, 0), "limit zero");
    assert!(!region.reserve(slot, device, u64::MAX, 100), "no overflow");
}

#[test]
fn overhead_counts_and_devices_are_apart() {
    let region = region();
    let (one, two) = (region.device(uuid(1)).unwrap(), region.device(uuid(2)).unwrap());
    assert_eq!(region.device(uuid(1)), Some(one));
    let slot = region.take_slot(process(1), &Alive(&[1])).unwrap();
    region.set_overhead(slot, one, 30);
    assert!(!region.reserve(slot, one, 71, 100));
    assert!(region.reserve(slot, two, 71, 100));
    assert_eq!((region.used(one), region.used(two)), (30, 71));
}

#[test]
fn charges_of_a_killed_process_are_taken_back_even_when_undecided() {
    let region = region();
    let device = region.device(uuid(1)).unwrap();
    let killed = region.take_slot(process(1), &Alive(&[1, 2])).unwrap();
    let other = region.take_slot(process(2), &Alive(&[1, 2])).unwrap();
    assert!(region.reserve(killed, device, 90, 100));
    region.set_overhead(killed, device, 5);
    assert!(!region.reserve(other, device, 90, 100));
    assert_eq!(region.reap(&Alive(&[1, 2]), Some(2)), 0);
    assert_eq!(region.reap(&Alive(&[2]), Some(2)), 1);
    assert!(region.reserve(other, device, 90, 100));
    assert_eq!(
        region.take_slot(process(3), &Alive(&[2, 3])),
        Some(killed),
        "the slot is free again"
    );
}

#[test]
fn slot_of_a_process_that_ended_while_it_cleared_another_is_cleared() {
    let region = region();
    let device = region.device(uuid(1)).unwrap();
    let slot = region.take_slot(process(1), &Alive(&[1])).unwrap();
    assert!(region.reserve(slot, device, 10, 100));
    region.slots[0].owner.store(2 << 32 | 0x4d, SeqCst);
    assert_eq!(region.reap(&Alive(&[0x4d]), Some(3)), 0, "process 0x4d still clears it");
    assert_eq!(region.reap(&Alive(&[]), Some(3)), 1);
    assert_eq!(region.used(device), 0);
}

#[test]
fn exec_of_another_program_starts_without_charges() {
    let region = region();
    let device = region.device(uuid(1)).unwrap();
    let slot = region.take_slot(process(1), &Alive(&[1])).unwrap();
    assert!(region.reserve(slot, device, 10, 100));
    assert_eq!(region.take_slot(process(1), &Alive(&[1])), Some(slot));
    assert_eq!(region.own(slot, device), OwnCharges::default());
}

#[test]
fn process_257_gets_no_slot() {
    let region = region();
    for pid in 1..=256 {
        region.slots[pid as usize - 1].owner.store(1 << 32 | pid, SeqCst);
    }
    region.header.slots_used.store(256, SeqCst);
    assert_eq!(region.take_slot(process(5000), &AllAlive), None);
}

#[test]
fn damaged_region_is_neither_a_panic_nor_taken() {
    let region = region();
    region.header.slots_used.store(u64::MAX, SeqCst);
    let device = region.device(uuid(1)).unwrap();
    let slot = region.take_slot(process(1), &Alive(&[1])).unwrap();
    region.slots[3].charges[0].data.store(u64::MAX, SeqCst);
    assert_eq!(region.used(device), u64::MAX);
    assert!(!region.reserve(slot, device, 1, 100));
    region.header.magic.store(5, SeqCst);
    assert_eq!(region.open(), Err(UnknownFormat));
}

#[test]
fn eight_threads_never_exceed_the_limit_and_leak_nothing() {
    const LIMIT: u64 = 100;
    let region = region();
    let device = region.device(uuid(1)).unwrap();
    let (held, succeeded) = (AtomicU64::new(0), AtomicU64::new(0));
    // A slot is taken before the first reservation of its process: taking it again clears its charges.
    let slots =
        [1, 2, 3, 4].map(|pid| region.take_slot(process(pid), &Alive(&[1, 2, 3, 4])).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (region, held, succeeded) = (&region, &held, &succeeded);
            // Four processes with two threads each.
            let slot = slots[thread as usize / 2];
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    let bytes = 1 + (round * 7 + u64::from(thread)) % 40;
                    if region.reserve(slot, device, bytes, LIMIT) {
                        assert!(held.fetch_add(bytes, SeqCst) + bytes <= LIMIT);
                        region.commit(slot, device, bytes, bytes);
                        succeeded.fetch_add(1, SeqCst);
                        held.fetch_sub(bytes, SeqCst);
                        region.release(slot, device, bytes);
                    }
                }
            });
        }
    });
    assert_eq!(region.used(device), 0);
    assert!(succeeded.load(SeqCst) > 10_000, "most reservations succeed");
}
