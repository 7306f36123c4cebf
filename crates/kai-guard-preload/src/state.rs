//! State of this process: mode, limits, devices, tables. A forked child starts with a fresh state.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kai_guard::allocations::{PhysicalTable, PointerTable};
use kai_guard::limits::{DeviceLimits, DeviceUuid, Limits, Mode, Policy};
use kai_guard::region::{DeviceIndex, GuardState};

use crate::attach::{self, Attached};
use crate::cuda::{ATTRIBUTE_INTEGRATED, CuDevice, SUCCESS};
use crate::hooks::{graphs::Graphs, pools::Pools};
use crate::{account, measured, symbols};

/// Ordinals that are cached; CUDA numbers devices from 0 and no machine has more.
const ORDINALS: usize = 64;

/// Everything about this process.
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) other_devices: Policy,
    on_failure: Policy,
    pub(crate) context_bytes: u64,
    /// Absent when the accounting could not start.
    pub(crate) attached: Option<Attached>,
    limits: Mutex<Limits>,
    devices: [OnceLock<Option<Box<Device>>>; ORDINALS],
    pub(crate) pointers: PointerTable,
    pub(crate) physicals: PhysicalTable,
    pub(crate) pools: Pools,
    pub(crate) graphs: Graphs,
    pub(crate) nvml: measured::Nvml,
    /// Allocations and frees that have not returned yet.
    pub(crate) in_flight: AtomicU64,
}

/// A device with limits.
pub(crate) struct Device {
    pub(crate) ordinal: CuDevice,
    pub(crate) uuid: DeviceUuid,
    pub(crate) index: DeviceIndex,
    pub(crate) limit: AtomicU64,
    /// Burst has to be compared with the neighbours' requests.
    pub(crate) has_burst_rule: AtomicBool,
    /// Pinned host memory is memory of the device.
    pub(crate) is_unified: bool,
    /// Managed bytes, which NVML does not show.
    pub(crate) managed: AtomicU64,
    /// Bytes taken since NVML was last queried.
    pub(crate) unmeasured: AtomicU64,
    /// Contexts of this process.
    pub(crate) contexts: AtomicU64,
    /// NVML handle: 0 unknown, `usize::MAX` absent.
    pub(crate) nvml_handle: AtomicUsize,
    /// The pool of `cuMemAllocAsync`; null when unknown.
    pub(crate) current_pool: AtomicPtr<crate::hooks::pools::Pool>,
}

/// What happens on a device.
#[derive(Clone, Copy)]
pub(crate) enum Account<'a> {
    /// Allocations are charged against the limit of the device.
    Limited(&'a Attached, &'a Device),
    /// Every allocation is refused.
    Closed,
    /// Allocations are neither charged nor refused.
    Free,
}

const UNKNOWN_MODE: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN_MODE);
static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());
static IS_ATTACHING: AtomicBool = AtomicBool::new(false);
static HAS_FORK_HANDLER: AtomicBool = AtomicBool::new(false);

/// Whether this process is counted. The limits file is read once for this.
pub(crate) fn is_on() -> bool {
    match MODE.load(Ordering::Acquire) {
        ON => true,
        OFF => false,
        _ => {
            let (limits, _) = attach::effective_limits();
            let mode = if limits.mode == Mode::Off { OFF } else { ON };
            MODE.store(mode, Ordering::Release);
            mode == ON
        }
    }
}

/// State of this process; `None` in mode off.
pub(crate) fn get() -> Option<&'static State> {
    let known = STATE.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: states are leaked, never freed.
        return Some(unsafe { &*known });
    }
    if !is_on() {
        return None;
    }
    while IS_ATTACHING.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_err() {
        std::thread::yield_now();
    }
    let mut state = STATE.load(Ordering::Acquire);
    if state.is_null() {
        state = Box::into_raw(Box::new(State::new()));
        register_fork_handler();
        STATE.store(state, Ordering::Release);
    }
    IS_ATTACHING.store(false, Ordering::Release);
    // SAFETY: states are leaked, never freed.
    Some(unsafe { &*state })
}

unsafe extern "C" {
    /// What `pthread_atfork` calls; exported by every glibc, whereas `pthread_atfork` is in a static archive.
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        object: *mut c_void,
    ) -> i32;
}

/// A child has its own PID and no GPU memory: it attaches again when it uses CUDA. Its copy of the parent's tables
/// is never touched, so locks that other threads of the parent held do not matter.
extern "C" fn after_fork() {
    STATE.store(std::ptr::null_mut(), Ordering::Release);
    IS_ATTACHING.store(false, Ordering::Release);
}

fn register_fork_handler() {
    if !HAS_FORK_HANDLER.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler only stores to atomics, which is allowed after fork.
        unsafe { __register_atfork(None, None, Some(after_fork), std::ptr::null_mut()) };
        // A panic must not write to the workload's standard error. This is our own copy of the standard library.
        std::panic::set_hook(Box::new(|_| {}));
    }
}

impl State {
    fn new() -> Self {
        let (limits, mut failure) = attach::effective_limits();
        let attached = match attach::attach() {
            Ok(attached) => Some(attached),
            Err(reason) => {
                failure = failure.or_else(|| Some(reason.to_owned()));
                None
            }
        };
        let region = attached.as_ref().map(|attached| attached.region);
        if let Some(region) =
            region.or_else(|| attach::map_region().ok().map(|(region, ..)| region))
        {
            match (&failure, limits.mode) {
                (Some(reason), _) => region.publish_state(GuardState::Failed, reason),
                (None, Mode::Enforce) => region.publish_state(GuardState::Enforcing, ""),
                (None, _) => region.publish_state(GuardState::Reporting, ""),
            }
        }
        Self {
            mode: limits.mode,
            other_devices: limits.other_devices,
            on_failure: limits.on_failure,
            context_bytes: limits.context_bytes,
            attached: attached.filter(|_| failure.is_none()),
            limits: Mutex::new(limits),
            devices: [const { OnceLock::new() }; ORDINALS],
            pointers: PointerTable::default(),
            physicals: PhysicalTable::default(),
            pools: Pools::default(),
            graphs: Graphs::default(),
            nvml: measured::Nvml::default(),
            in_flight: AtomicU64::new(0),
        }
    }

    /// The account of a device.
    pub(crate) fn account(&self, ordinal: CuDevice) -> Account<'_> {
        let is_enforced = self.mode == Mode::Enforce;
        let Some(attached) = &self.attached else {
            let refuses = is_enforced && self.on_failure == Policy::Refuse;
            return if refuses { Account::Closed } else { Account::Free };
        };
        let Some(cell) = usize::try_from(ordinal).ok().and_then(|index| self.devices.get(index))
        else {
            return Account::Free;
        };
        let device = match cell.get() {
            Some(device) => device,
            None => match self.find_device(attached, ordinal) {
                // The driver does not answer yet; it will not allocate either.
                None => return Account::Free,
                Some(found) => cell.get_or_init(|| found),
            },
        };
        match device {
            Some(device) => Account::Limited(attached, device),
            None if is_enforced && self.other_devices == Policy::Refuse => Account::Closed,
            None => Account::Free,
        }
    }

    /// The account of the device of the current context.
    pub(crate) fn current_account(&self) -> Account<'_> {
        current_device().map_or(Account::Free, |ordinal| self.account(ordinal))
    }

    /// `None` when the driver does not answer, `Some(None)` for a device without limits.
    #[allow(clippy::option_option, reason = "three answers, used in one place")]
    fn find_device(&self, attached: &Attached, ordinal: CuDevice) -> Option<Option<Box<Device>>> {
        let uuid = device_uuid(ordinal)?;
        let limits = self.limits_of(uuid);
        let found = limits.and_then(|limits| Some((limits, attached.region.device(uuid)?)));
        let Some((limits, index)) = found else { return Some(None) };
        let mut integrated = 0;
        let is_unified = symbols::cu_device_get_attribute().is_some_and(|ask| {
            // SAFETY: the driver writes one int.
            let answer = unsafe { ask(&raw mut integrated, ATTRIBUTE_INTEGRATED, ordinal) };
            answer == SUCCESS && integrated != 0
        });
        let device = Device {
            ordinal,
            uuid,
            index,
            limit: AtomicU64::new(0),
            has_burst_rule: AtomicBool::new(false),
            is_unified,
            managed: AtomicU64::new(0),
            unmeasured: AtomicU64::new(0),
            contexts: AtomicU64::new(0),
            nvml_handle: AtomicUsize::new(0),
            current_pool: AtomicPtr::new(std::ptr::null_mut()),
        };
        device.apply(attached, &limits);
        Some(Some(Box::new(device)))
    }

    /// Limits of a device as read last.
    pub(crate) fn limits_of(&self, uuid: DeviceUuid) -> Option<DeviceLimits> {
        lock(&self.limits).devices.iter().find(|limits| limits.uuid == uuid).copied()
    }

    /// Reads the limits file again. A broken file changes nothing.
    pub(crate) fn reload_limits(&self, attached: &Attached, device: &Device) {
        let Ok(limits) = attach::read_limits() else { return };
        let own = limits.devices.iter().find(|limits| limits.uuid == device.uuid).copied();
        if let (Mode::Enforce | Mode::Report, Some(own)) = (limits.mode, own) {
            device.apply(attached, &own);
            *lock(&self.limits) = limits;
        }
    }

    /// All devices of this process that have been used.
    pub(crate) fn used_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter_map(|cell| cell.get()?.as_deref())
    }

    /// Marks an allocation or free as running.
    pub(crate) fn begin(&self) -> account::Operation<'_> {
        account::Operation::new(&self.in_flight)
    }
}

impl Device {
    fn apply(&self, attached: &Attached, limits: &DeviceLimits) {
        self.limit.store(limits.limit_bytes, Ordering::Relaxed);
        self.has_burst_rule.store(limits.has_burst_rule(), Ordering::Relaxed);
        attached.region.publish_limits(self.index, limits);
    }
}

/// Device of the current context.
pub(crate) fn current_device() -> Option<CuDevice> {
    let mut ordinal = 0;
    let ask = symbols::cu_ctx_get_device()?;
    // SAFETY: the driver writes one device ordinal.
    (unsafe { ask(&raw mut ordinal) } == SUCCESS).then_some(ordinal)
}

fn device_uuid(ordinal: CuDevice) -> Option<DeviceUuid> {
    let ask = symbols::cu_device_get_uuid_v2().or_else(symbols::cu_device_get_uuid)?;
    let mut bytes = [0_u8; 16];
    // SAFETY: the driver writes 16 bytes.
    (unsafe { ask(bytes.as_mut_ptr(), ordinal) } == SUCCESS).then_some(DeviceUuid(bytes))
}

/// A poisoned lock only means that a hook panicked; the data stays usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
