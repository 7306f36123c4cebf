//! Stream-ordered memory: the bytes that a pool holds are charged, not the requested ones.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kai_guard::MIB;

use crate::account::{self, Reservation, recover, try_reserve};
use crate::attach::Attached;
use crate::cuda::{
    CuDevice, CuDevicePtr, CuResult, Handle, LOCATION_DEVICE, LOCATION_NONE, Location,
    OUT_OF_MEMORY, POINTER_MEMPOOL_HANDLE, POINTER_RANGE_SIZE, POOL_RESERVED_CURRENT,
    POOL_USED_CURRENT, PoolProperties, SUCCESS,
};
use crate::hooks::hooks;
use crate::state::{Account, Device, State, current_device, lock};
use crate::symbols;

/// Pools grow in such steps on every driver tested so far; the charge is corrected with what the pool says afterwards.
const STEP: u64 = 32 * MIB;

hooks! {
    cuMemAllocAsync(pointer: *mut CuDevicePtr, bytes: usize, stream: Handle) = allocate;
    cuMemAllocAsync_ptsz(pointer: *mut CuDevicePtr, bytes: usize, stream: Handle) = allocate;
    cuMemAllocFromPoolAsync(pointer: *mut CuDevicePtr, bytes: usize, pool: Handle, stream: Handle) = allocate_from_pool;
    cuMemAllocFromPoolAsync_ptsz(pointer: *mut CuDevicePtr, bytes: usize, pool: Handle, stream: Handle) = allocate_from_pool;
    cuMemPoolCreate(pool: *mut Handle, properties: *const PoolProperties) = create;
    cuMemPoolDestroy(pool: Handle) = destroy;
    cuMemPoolTrimTo(pool: Handle, bytes: usize) = trim_to;
    cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *mut std::ffi::c_void) = set_attribute;
    cuMemPoolImportFromShareableHandle(pool: *mut Handle, handle: *mut std::ffi::c_void, kind: c_int, flags: u64) = import;
    cuDeviceSetMemPool(device: CuDevice, pool: Handle) = set_current;
    cuMemSetMemPool(location: *mut Location, kind: c_int, pool: Handle) = set_current_at;
    cuStreamSynchronize(stream: Handle) = synchronize;
    cuStreamSynchronize_ptsz(stream: Handle) = synchronize;
    cuEventSynchronize(event: Handle) = synchronize;
    cuCtxSynchronize() = synchronize_context;
    cuCtxSynchronize_v2(context: Handle) = synchronize;
}

/// A pool whose memory is charged. Records are never freed: a process has few pools.
pub(crate) struct Pool {
    handle: usize,
    /// `None`: memory of the host or of another process.
    ordinal: Option<CuDevice>,
    /// Bytes charged for the pool. The lock covers the question to the driver and the charge.
    charged: Mutex<u64>,
    is_destroyed: AtomicBool,
    /// Bytes in use when the pool was destroyed; its memory is released with the last of them.
    left: AtomicU64,
}

/// All pools of the process.
#[derive(Default)]
pub(crate) struct Pools {
    by_handle: Mutex<BTreeMap<usize, &'static Pool>>,
    /// Something was freed since pools were last queried.
    is_stale: AtomicBool,
    has_orphans: AtomicBool,
}

/// A pointer that belongs to a destroyed pool.
pub(crate) struct Orphan {
    pool: &'static Pool,
    bytes: u64,
}

impl Pool {
    fn attribute(&self, attribute: c_int) -> Option<u64> {
        let mut value = 0_u64;
        let ask = symbols::cu_pool_attribute()?;
        // SAFETY: both attributes are 64-bit numbers; a destroyed pool is not queried.
        let answer = unsafe { ask(self.handle as Handle, attribute, (&raw mut value).cast()) };
        (answer == SUCCESS).then_some(value)
    }

    /// Brings the charge in line with what the pool holds; `charged` is the locked charge. Returns by how much it grew.
    fn update(
        &self,
        charged: &mut u64,
        attached: &Attached,
        device: &Device,
        reservation: Option<Reservation<'_>>,
    ) -> u64 {
        if self.is_destroyed.load(Ordering::Acquire) {
            return 0;
        }
        let Some(holds) = self.attribute(POOL_RESERVED_CURRENT) else { return 0 };
        let grown = holds.saturating_sub(*charged);
        let region = attached.region;
        match reservation {
            Some(reservation) => reservation.keep(grown),
            None if grown > 0 => {
                region.reserve_unchecked(attached.slot, device.index, grown);
                region.commit(attached.slot, device.index, grown, grown);
            }
            None => {}
        }
        if holds < *charged {
            region.release(attached.slot, device.index, *charged - holds);
        }
        *charged = holds;
        grown
    }
}

impl Pools {
    fn get(&self, handle: Handle, ordinal: Option<CuDevice>) -> &'static Pool {
        let mut pools = lock(&self.by_handle);
        pools.entry(handle as usize).or_insert_with(|| {
            Box::leak(Box::new(Pool {
                handle: handle as usize,
                ordinal,
                charged: Mutex::new(0),
                is_destroyed: AtomicBool::new(false),
                left: AtomicU64::new(0),
            }))
        })
    }

    fn all(&self) -> Vec<&'static Pool> {
        lock(&self.by_handle).values().copied().collect()
    }

    /// Asks all pools what they hold.
    pub(crate) fn refresh(&self, state: &State) {
        self.is_stale.store(false, Ordering::Release);
        for pool in self.all() {
            if let Some(Account::Limited(attached, device)) =
                pool.ordinal.map(|ordinal| state.account(ordinal))
            {
                pool.update(&mut lock(&pool.charged), attached, device, None);
            }
        }
    }

    /// The destroyed pool that a pointer belongs to. Costs nothing while no pool was destroyed in use.
    pub(crate) fn orphaned(&self, pointer: CuDevicePtr) -> Option<Orphan> {
        if !self.has_orphans.load(Ordering::Acquire) {
            return None;
        }
        let ask = symbols::cu_pointer_attribute()?;
        let (mut handle, mut bytes) = (0_usize, 0_usize);
        // SAFETY: the driver writes a handle and a size.
        let answers = unsafe {
            ask((&raw mut handle).cast(), POINTER_MEMPOOL_HANDLE, pointer) == SUCCESS
                && ask((&raw mut bytes).cast(), POINTER_RANGE_SIZE, pointer) == SUCCESS
        };
        let pools = lock(&self.by_handle);
        let pool = pools
            .get(&handle)
            .filter(|pool| answers && pool.is_destroyed.load(Ordering::Acquire))?;
        Some(Orphan { pool, bytes: bytes as u64 })
    }

    /// A pointer that is not in the table was freed.
    pub(crate) fn freed(&self, state: &State, orphan: Option<&Orphan>) {
        self.is_stale.store(true, Ordering::Release);
        let Some(&Orphan { pool, bytes }) = orphan else { return };
        let subtract = |left: u64| Some(left.saturating_sub(bytes));
        let before = pool.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, subtract);
        if before.is_ok_and(|left| left <= bytes) {
            pool.forget(state);
        }
    }
}

impl Pool {
    /// The pool holds nothing any more.
    fn forget(&self, state: &State) {
        let charged = std::mem::take(&mut *lock(&self.charged));
        if let Some(ordinal) = self.ordinal {
            account::release(state, ordinal, charged);
        }
    }
}

/// Asks pools again if something was freed.
pub(crate) fn refresh_if_needed(state: &State) {
    if state.pools.is_stale.load(Ordering::Acquire) {
        state.pools.refresh(state);
    }
}

/// Makes the pools of a device release their unused memory.
pub(crate) fn trim(state: &State, device: &Device) {
    let address = crate::hooks::real(&reals::cuMemPoolTrimTo, "cuMemPoolTrimTo");
    if address == 0 {
        return;
    }
    // SAFETY: the address is that of the driver's `cuMemPoolTrimTo`.
    let trim = unsafe {
        std::mem::transmute::<usize, unsafe extern "C" fn(Handle, usize) -> CuResult>(address)
    };
    let own = |pool: &&Pool| pool.ordinal == Some(device.ordinal) && *lock(&pool.charged) > 0;
    for pool in state.pools.all().into_iter().filter(own) {
        if !pool.is_destroyed.load(Ordering::Acquire) {
            // SAFETY: the pool exists.
            unsafe { trim(pool.handle as Handle, 0) };
        }
    }
}

fn current_pool(state: &State, device: &Device) -> Option<&'static Pool> {
    let known = device.current_pool.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: pools are leaked, never freed.
        return Some(unsafe { &*known });
    }
    let mut handle: Handle = std::ptr::null_mut();
    let ask = symbols::cu_device_get_mem_pool()?;
    // SAFETY: the driver writes one handle.
    if unsafe { ask(&raw mut handle, device.ordinal) } != SUCCESS {
        return None;
    }
    let pool = state.pools.get(handle, Some(device.ordinal));
    device.current_pool.store(std::ptr::from_ref(pool).cast_mut(), Ordering::Release);
    Some(pool)
}

unsafe fn allocate(
    state: &State,
    real: unsafe extern "C" fn(*mut CuDevicePtr, usize, Handle) -> CuResult,
    pointer: *mut CuDevicePtr,
    bytes: usize,
    stream: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(pointer, bytes, stream) };
    match state.current_account() {
        Account::Closed => OUT_OF_MEMORY,
        Account::Free => call(),
        Account::Limited(attached, device) => match current_pool(state, device) {
            Some(pool) => charged(state, attached, device, pool, bytes, call),
            None => call(),
        },
    }
}

unsafe fn allocate_from_pool(
    state: &State,
    real: unsafe extern "C" fn(*mut CuDevicePtr, usize, Handle, Handle) -> CuResult,
    pointer: *mut CuDevicePtr,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(pointer, bytes, pool, stream) };
    let record = state.pools.get(pool, current_device());
    let Some(ordinal) = record.ordinal else { return call() };
    match state.account(ordinal) {
        Account::Closed => OUT_OF_MEMORY,
        Account::Free => call(),
        Account::Limited(attached, device) => charged(state, attached, device, record, bytes, call),
    }
}

/// Reserves a step of growth, calls the driver and charges by how much the pool grew. A pool often serves from what it
/// holds, but this cannot be known beforehand: its unused memory may be in pieces that are too small. So where a step does
/// not fit, pools first release what they do not use, as they do when the card is full.
fn charged(
    state: &State,
    attached: &Attached,
    device: &Device,
    pool: &Pool,
    bytes: usize,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let step = (bytes as u64).checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
    let reservation = try_reserve(state, attached, device, step, 0).or_else(|| {
        recover(state, attached, device);
        try_reserve(state, attached, device, step, 0)
    });
    let Some(reservation) = reservation else {
        attached.region.count_refusal(device.index);
        return OUT_OF_MEMORY;
    };
    let result = call();
    let reservation = Some(reservation).filter(|_| result == SUCCESS);
    let grown = pool.update(&mut lock(&pool.charged), attached, device, reservation);
    if grown > 0 {
        device.unmeasured.fetch_add(grown, Ordering::Relaxed);
    }
    result
}

unsafe fn create(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *const PoolProperties) -> CuResult,
    pool: *mut Handle,
    properties: *const PoolProperties,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the handle and the properties are valid.
    unsafe {
        let result = real(pool, properties);
        if result == SUCCESS {
            let Location { kind, id } = (*properties).location;
            let ordinal = match kind {
                LOCATION_DEVICE => Some(id),
                LOCATION_NONE => current_device(),
                _ => None,
            };
            lock(&state.pools.by_handle).remove(&(pool.read() as usize));
            state.pools.get(pool.read(), ordinal);
        }
        result
    }
}

/// Memory of an imported pool is charged to the process that made it.
unsafe fn import(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *mut std::ffi::c_void, c_int, u64) -> CuResult,
    pool: *mut Handle,
    handle: *mut std::ffi::c_void,
    kind: c_int,
    flags: u64,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the handle.
    unsafe {
        let result = real(pool, handle, kind, flags);
        if result == SUCCESS {
            lock(&state.pools.by_handle).remove(&(pool.read() as usize));
            state.pools.get(pool.read(), None);
        }
        result
    }
}

unsafe fn destroy(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    pool: Handle,
) -> CuResult {
    let _operation = state.begin();
    let record = lock(&state.pools.by_handle).get(&(pool as usize)).copied();
    let left = record.and_then(|record| record.attribute(POOL_USED_CURRENT)).unwrap_or(0);
    // SAFETY: the caller's argument.
    let result = unsafe { real(pool) };
    if result != SUCCESS {
        return result;
    }
    forget_current_pools(state);
    if let Some(record) = record {
        record.is_destroyed.store(true, Ordering::Release);
        record.left.store(left, Ordering::Release);
        if left == 0 {
            record.forget(state);
        } else {
            state.pools.has_orphans.store(true, Ordering::Release);
        }
    }
    result
}

unsafe fn trim_to(
    state: &State,
    real: unsafe extern "C" fn(Handle, usize) -> CuResult,
    pool: Handle,
    bytes: usize,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(pool, bytes) };
    state.pools.refresh(state);
    result
}

unsafe fn set_attribute(
    state: &State,
    real: unsafe extern "C" fn(Handle, c_int, *mut std::ffi::c_void) -> CuResult,
    pool: Handle,
    attribute: c_int,
    value: *mut std::ffi::c_void,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(pool, attribute, value) };
    state.pools.is_stale.store(true, Ordering::Release);
    result
}

unsafe fn set_current(
    state: &State,
    real: unsafe extern "C" fn(CuDevice, Handle) -> CuResult,
    device: CuDevice,
    pool: Handle,
) -> CuResult {
    forget_current_pools(state);
    // SAFETY: the caller's arguments.
    let result = unsafe { real(device, pool) };
    forget_current_pools(state);
    result
}

unsafe fn set_current_at(
    state: &State,
    real: unsafe extern "C" fn(*mut Location, c_int, Handle) -> CuResult,
    location: *mut Location,
    kind: c_int,
    pool: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(location, kind, pool) };
    forget_current_pools(state);
    result
}

fn forget_current_pools(state: &State) {
    for device in state.used_devices() {
        device.current_pool.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// After waiting for the device, pools give unused memory back to the driver.
unsafe fn synchronize(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    object: Handle,
) -> CuResult {
    // SAFETY: the caller's argument.
    let result = unsafe { real(object) };
    refresh_if_needed(state);
    result
}

unsafe fn synchronize_context(state: &State, real: unsafe extern "C" fn() -> CuResult) -> CuResult {
    // SAFETY: no arguments.
    let result = unsafe { real() };
    refresh_if_needed(state);
    result
}
