//! Tar archives in the ustar format: sorted, owned by root, dated 1970-01-01.

use anyhow::{Context, bail};

const BLOCK: usize = 512;
/// Longest name in the first field of a header.
const NAME: usize = 100;

/// What a header describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Folder,
    File,
    Link { target: &'a str },
}

/// An archive that grows.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends an entry. `path` has no leading slash.
    pub(crate) fn append(
        &mut self,
        path: &str,
        mode: u32,
        kind: Kind<'_>,
        content: &[u8],
    ) -> anyhow::Result<()> {
        let header = header(path, mode, kind, content.len())
            .with_context(|| format!("cannot pack {path}"))?;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        let padded = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(padded, 0);
        Ok(())
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let end = self.bytes.len() + 2 * BLOCK;
        self.bytes.resize(end, 0);
        self.bytes
    }
}

fn header(path: &str, mode: u32, kind: Kind<'_>, size: usize) -> anyhow::Result<[u8; BLOCK]> {
    let (prefix, name) = split(path)?;
    let (flag, target) = match kind {
        Kind::File => (b'0', ""),
        Kind::Link { target } => (b'2', target),
        Kind::Folder => (b'5', ""),
    };
    if target.len() > NAME {
        bail!("the link's target is longer than {NAME} bytes");
    }
    let mut block = [0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| {
        for (to, from) in block.iter_mut().skip(at).zip(text) {
            *to = *from;
        }
    };
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000\x000000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[flag]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    for (to, from) in block.iter_mut().skip(148).zip(sum.as_bytes()) {
        *to = *from;
    }
    Ok(block)
}

/// A long path is divided at a slash: at most 155 bytes before it and 100 after it.
fn split(path: &str) -> anyhow::Result<(&str, &str)> {
    if path.len() <= NAME {
        return Ok(("", path));
    }
    let parted = path.match_indices('/').filter_map(|(at, _)| path.split_at_checked(at));
    let mut parted = parted.map(|(prefix, name)| (prefix, name.trim_start_matches('/')));
    let fits = |(prefix, name): &(&str, &str)| {
        prefix.len() <= 155 && name.len() <= NAME && !name.is_empty()
    };
    parted.find(fits).context("the path is too long for a tar header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_divided_at_a_slash() {
        let path = format!("{}/{}", "a".repeat(120), "b".repeat(60));
        let (prefix, name) = split(&path).expect("it fits");
        assert_eq!((prefix.len(), name.len()), (120, 60));
        assert!(split(&"a".repeat(101)).is_err());
    }
}
