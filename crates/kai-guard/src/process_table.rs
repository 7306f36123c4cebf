//! What `/proc` says of processes, as text: start time, state, mapped files.

/// Fields of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Clock ticks between boot and the start of the process.
    pub start_ticks: u64,
    /// The process ended and waits for its parent; it holds no memory.
    pub has_ended: bool,
}

/// Reads `/proc/<pid>/stat`. The command may contain spaces and brackets.
pub fn parse_stat(text: &str) -> Option<ProcessStat> {
    let after_command = text.rsplit_once(')')?.1;
    let mut fields = after_command.split_ascii_whitespace();
    let state = fields.next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(ProcessStat { start_ticks, has_ended: matches!(state, "Z" | "X" | "x") })
}

/// Whether `/proc/<pid>/maps` lists a mapping of the file with this inode.
pub fn maps_inode(maps: &str, inode: u64) -> bool {
    maps.lines().any(|line| {
        line.split_ascii_whitespace().nth(4).and_then(|field| field.parse().ok()) == Some(inode)
    })
}

/// Identity of a process, unique over reboots and PID namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// PID in the namespace of the process.
    pub pid: u32,
    /// Clock ticks between boot and the start of the process; 0 when `/proc` is not readable.
    pub start_ticks: u64,
    /// Inode of the PID namespace; 0 when unknown.
    pub pid_namespace: u64,
    /// Hash of the boot id; 0 when unknown.
    pub boot: u64,
}

/// FNV-1a; keys of the region, never a security boundary. Never zero.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_brackets_in_the_command_is_read() {
        let line = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 999 1";
        assert_eq!(parse_stat(line), Some(ProcessStat { start_ticks: 777, has_ended: false }));
        let zombie = line.replace(" S ", " Z ");
        assert!(parse_stat(&zombie).is_some_and(|stat| stat.has_ended));
        assert_eq!(parse_stat("42 (x"), None);
    }

    #[test]
    fn own_stat_is_readable() {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(parse_stat(&text).is_some_and(|stat| stat.start_ticks > 0 && !stat.has_ended));
    }

    #[test]
    fn mapped_inode_is_found() {
        let maps = "7f00-7f10 rw-s 00000000 00:2a 1234   /kai-guard/usage/region\n7f20-7f30 rw-p 0 00:00 0";
        assert!(maps_inode(maps, 1234));
        assert!(!maps_inode(maps, 123));
    }
}
