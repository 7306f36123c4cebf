//! Ports for programs of tests, which need their port before they start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::bail;

/// Below the ports that the system gives to connections: no connection can come between the moment a port is found free and
/// the moment its program listens.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A free port. Test processes begin to look at different places and never try a port twice, so that two
/// of them hardly find the same one.
pub fn free_port() -> anyhow::Result<u16> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let place = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(place)?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {FIRST} to {} is free", FIRST + COUNT - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_and_none_that_is_taken() {
        let first = free_port().expect("a port");
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).ok();
        let next: BTreeSet<u16> = (0..8).map(|_| free_port().expect("a port")).collect();
        assert_eq!(next.len(), 8);
        assert!(!next.contains(&first));
        assert!(taken.is_none() || !next.contains(&(first + 1)));
    }
}
