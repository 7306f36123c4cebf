//! The limits file of a container: what `kai.scheduler/container.<c>.gpu-memory-limits` says.

use std::fmt;

use crate::MIB;

/// Devices that one container can have limits for.
pub const MAX_DEVICES: usize = 16;

/// Size of a CUDA context that is charged where NVML cannot measure it.
const DEFAULT_CONTEXT_MIB: u64 = 512;

/// What the library does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing; symbols resolve to the driver's own addresses.
    #[default]
    Off,
    /// Counts and never refuses.
    Report,
    /// Counts and refuses allocations above the limit.
    Enforce,
}

/// What happens to an allocation that cannot be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Fail with `CUDA_ERROR_OUT_OF_MEMORY`.
    #[default]
    Refuse,
    /// Pass the allocation to the driver.
    Pass,
}

/// UUID of a device or of a MIG instance, without its prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceUuid(pub [u8; 16]);

impl DeviceUuid {
    /// Reads `GPU-…` or `MIG-…`; hyphens are optional.
    pub fn parse(text: &str) -> Option<Self> {
        let digits =
            text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-")).unwrap_or(text);
        let mut bytes = [0_u8; 16];
        let mut nibbles = digits.chars().filter(|character| *character != '-');
        for byte in &mut bytes {
            let high = nibbles.next()?.to_digit(16)?;
            let low = nibbles.next()?.to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        nibbles.next().is_none().then_some(Self(bytes))
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(formatter, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Limits of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Device or MIG instance.
    pub uuid: DeviceUuid,
    /// Most that all processes of the container may hold, contexts included.
    pub limit_bytes: u64,
    /// What the scheduler placed the container by; more is burst.
    pub request_bytes: u64,
    /// Sum of the requests of other pods on the device.
    pub neighbors_bytes: Option<u64>,
    /// Part of these requests that the neighbours do not use yet.
    pub uncovered_bytes: Option<u64>,
}

impl DeviceLimits {
    /// Whether an allocation of `bytes` may be made, given what the device has in all and free, and what
    /// this container uses before the allocation. The limit itself is checked by the region.
    pub fn burst_fits(&self, bytes: u64, used: u64, total: u64, free: u64) -> bool {
        if used.saturating_add(bytes) <= self.request_bytes {
            return true;
        }
        let needed_by_neighbors = match (self.uncovered_bytes, self.neighbors_bytes) {
            (Some(uncovered), _) => uncovered,
            (None, Some(requests)) => {
                let used_by_others = total.saturating_sub(free).saturating_sub(used);
                requests.saturating_sub(used_by_others)
            }
            (None, None) => return true,
        };
        free.saturating_sub(bytes) >= needed_by_neighbors && free >= bytes
    }

    /// Whether burst has to be compared with the device's free memory at all.
    pub fn has_burst_rule(&self) -> bool {
        self.request_bytes < self.limit_bytes
            && (self.neighbors_bytes.is_some() || self.uncovered_bytes.is_some())
    }
}

/// Contents of the limits file of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What the library does.
    pub mode: Mode,
    /// Allocations when the accounting cannot start.
    pub on_failure: Policy,
    /// Allocations on devices that the file does not name.
    pub other_devices: Policy,
    /// Size of a context where NVML cannot measure it.
    pub context_bytes: u64,
    /// One entry per device.
    pub devices: Vec<DeviceLimits>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            on_failure: Policy::Refuse,
            other_devices: Policy::Refuse,
            context_bytes: DEFAULT_CONTEXT_MIB * MIB,
            devices: Vec::new(),
        }
    }
}

/// Why a limits file is invalid, and what it said before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// The word at fault.
    pub word: String,
    /// What is wrong with it.
    pub reason: &'static str,
    /// Mode and policies that the file says in spite of the fault.
    pub readable: Box<Limits>,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "limits file: {}: {:?}", self.reason, self.word)
    }
}

impl std::error::Error for LimitsError {}

/// Reads a limits file. An empty one is `off`.
///
/// # Errors
/// A known word is malformed, or the version is not `v1`. Mode and policies are read all the same.
pub fn parse(text: &str) -> Result<Limits, LimitsError> {
    let mut limits = Limits::default();
    let mut fault: Option<(&str, &'static str)> = None;
    let mut words = text.split_whitespace();
    match words.next() {
        None => return Ok(limits),
        Some("v1") => {}
        Some(version) => fault = Some((version, "unknown version, expected v1")),
    }
    for word in words {
        if let Err(reason) = apply(&mut limits, word) {
            fault = fault.or(Some((word, reason)));
        }
    }
    match fault {
        None => Ok(limits),
        Some((word, reason)) => {
            Err(LimitsError { word: word.to_owned(), reason, readable: Box::new(limits) })
        }
    }
}

fn apply(limits: &mut Limits, word: &str) -> Result<(), &'static str> {
    let Some((key, value)) = word.split_once('=') else { return Ok(()) };
    match key {
        "mode" => limits.mode = mode(value)?,
        "on-failure" => limits.on_failure = policy(value)?,
        "other-devices" => limits.other_devices = policy(value)?,
        "context" => limits.context_bytes = mebibytes(value)?,
        "device" => {
            let device = device(value)?;
            if limits.devices.iter().any(|other| other.uuid == device.uuid) {
                return Err("device named twice");
            }
            if limits.devices.len() == MAX_DEVICES {
                return Err("more than 16 devices");
            }
            limits.devices.push(device);
        }
        _ => {}
    }
    Ok(())
}

fn mode(value: &str) -> Result<Mode, &'static str> {
    match value {
        "off" => Ok(Mode::Off),
        "report" => Ok(Mode::Report),
        "enforce" => Ok(Mode::Enforce),
        _ => Err("mode is off, report or enforce"),
    }
}

fn policy(value: &str) -> Result<Policy, &'static str> {
    match value {
        "refuse" => Ok(Policy::Refuse),
        "pass" => Ok(Policy::Pass),
        _ => Err("policy is refuse or pass"),
    }
}

fn mebibytes(value: &str) -> Result<u64, &'static str> {
    let mebibytes: u64 = value.parse().map_err(|_| "not a whole number of MiB")?;
    mebibytes.checked_mul(MIB).ok_or("not a whole number of MiB")
}

fn device(value: &str) -> Result<DeviceLimits, &'static str> {
    let mut parts = value.split(',');
    let uuid = parts.next().and_then(DeviceUuid::parse).ok_or("not a device UUID")?;
    let (mut limit, mut request, mut neighbors, mut uncovered) = (None, None, None, None);
    for part in parts {
        let Some((key, value)) = part.split_once('=') else { return Err("expected KEY=MIB") };
        match key {
            "limit" => limit = Some(mebibytes(value)?),
            "request" => request = Some(mebibytes(value)?),
            "neighbors" => neighbors = Some(mebibytes(value)?),
            "uncovered" => uncovered = Some(mebibytes(value)?),
            _ => {}
        }
    }
    let limit_bytes = limit.ok_or("device without limit")?;
    let request_bytes = request.unwrap_or(limit_bytes);
    if request_bytes > limit_bytes {
        return Err("request above limit");
    }
    Ok(DeviceLimits {
        uuid,
        limit_bytes,
        request_bytes,
        neighbors_bytes: neighbors,
        uncovered_bytes: uncovered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-8a5f0000-0000-0000-0000-00000000002a";

    #[test]
    fn file_with_every_word_is_read() {
        let text = format!(
            "v1 mode=enforce on-failure=pass\nother-devices=pass context=600 later=1 \
             device={UUID},limit=8192,request=4096,neighbors=12288,new=3"
        );
        let limits = parse(&text).unwrap();
        assert_eq!(limits.mode, Mode::Enforce);
        assert_eq!((limits.on_failure, limits.other_devices), (Policy::Pass, Policy::Pass));
        assert_eq!(limits.context_bytes, 600 * MIB);
        assert_eq!(
            limits.devices,
            [DeviceLimits {
                uuid: DeviceUuid::parse(UUID).unwrap(),
                limit_bytes: 8192 * MIB,
                request_bytes: 4096 * MIB,
                neighbors_bytes: Some(12288 * MIB),
                uncovered_bytes: None,
            }]
        );
        assert_eq!(format!("GPU-{}", limits.devices[0].uuid), UUID);
    }

    #[test]
    fn empty_file_is_off() {
        assert_eq!(parse(" \n").unwrap().mode, Mode::Off);
    }

    #[test]
    fn faults_are_named_and_the_mode_is_kept() {
        for (words, reason) in [
            ("mode=enforce device=GPU-1,limit=1", "not a device UUID"),
            ("mode=enforce device=8a5f0000000000000000000000000000", "device without limit"),
            (
                "mode=enforce device=8a5f0000000000000000000000000000,limit=-1",
                "not a whole number of MiB",
            ),
            (
                "mode=enforce device=8a5f0000000000000000000000000000,limit=1,request=2",
                "request above limit",
            ),
            (
                "mode=enforce device=8a5f0000000000000000000000000000,limit=1 \
                 device=GPU-8a5f0000-0000-0000-0000-000000000000,limit=1",
                "device named twice",
            ),
            ("mode=enforce on-failure=maybe", "policy is refuse or pass"),
        ] {
            let error = parse(&format!("v1 {words}")).unwrap_err();
            assert_eq!(error.reason, reason);
            assert_eq!(error.readable.mode, Mode::Enforce, "{words}");
        }
        assert_eq!(parse("v2 mode=report").unwrap_err().readable.mode, Mode::Report);
        assert!(parse("v1 mode=strict").is_err());
    }

    fn burstable(neighbors: Option<u64>, uncovered: Option<u64>) -> DeviceLimits {
        DeviceLimits {
            uuid: DeviceUuid::default(),
            limit_bytes: 80,
            request_bytes: 40,
            neighbors_bytes: neighbors,
            uncovered_bytes: uncovered,
        }
    }

    #[test]
    fn burst_waits_until_neighbors_requests_are_covered() {
        let device = burstable(Some(50), None);
        assert!(device.burst_fits(40, 0, 100, 100), "within the request");
        assert!(
            !device.burst_fits(20, 40, 100, 60),
            "neighbours use nothing of 50, 40 would stay free"
        );
        assert!(
            !device.burst_fits(20, 40, 100, 30),
            "neighbours use 30 of 50, only 10 would stay free"
        );
        assert!(device.burst_fits(10, 40, 100, 30), "neighbours use 30 of 50, 20 stay free");
    }

    #[test]
    fn uncovered_wins_over_the_sum_of_neighbors() {
        let device = burstable(Some(50), Some(10));
        assert!(device.burst_fits(20, 40, 100, 30));
        assert!(!device.burst_fits(21, 40, 100, 30));
        assert!(burstable(None, None).burst_fits(20, 40, 100, 20));
        assert!(!burstable(None, Some(0)).burst_fits(20, 40, 100, 19), "more than is free");
    }
}
