//! Recorded scenarios in which we knowingly do something else than the recorded scheduler did.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// Being right must not become a pretext.
const MOST: usize = 5;

/// The contents of `tests/deviations.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deviations {
    /// Scenarios whose expectations rest on a fault we do not share.
    #[serde(default)]
    deviation: Vec<Deviation>,
    /// Scenarios whose recorded states come from behaviour the original test injected.
    #[serde(default)]
    injected: Vec<Injected>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    id: String,
    /// The fault of the reference that the expectation rests on.
    fault: u32,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Injected {
    id: String,
    reason: String,
}

impl Deviations {
    /// Reads the list that is committed.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let file = root.join("tests/deviations.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let list: Self = toml::from_str(text)?;
        ensure!(list.deviation.len() <= MOST, "more than {MOST} deviations");
        let reasons = list.injected.iter().map(|entry| &entry.reason);
        let mut reasons = reasons.chain(list.deviation.iter().map(|entry| &entry.reason));
        ensure!(reasons.all(|reason| !reason.is_empty()), "a deviation without a reason");
        ensure!(list.deviation.iter().all(|entry| entry.fault > 0), "a deviation without a fault");
        Ok(list)
    }

    /// Ids that fail by default, all of them and no others.
    pub(crate) fn by_default(&self) -> BTreeSet<&str> {
        self.deviation.iter().map(|entry| entry.id.as_str()).collect()
    }

    /// Ids whose recorded states need not come about.
    pub(crate) fn injected(&self) -> BTreeSet<&str> {
        self.injected.iter().map(|entry| entry.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_need_a_fault_and_a_reason() {
        let entry = |fault: u32, reason: &str| {
            Deviations::parse(&format!(
                "[[deviation]]\nid = 'a'\nfault = {fault}\nreason = '{reason}'"
            ))
        };
        assert_eq!(entry(3, "why").unwrap().by_default(), ["a"].into());
        assert!(entry(0, "why").is_err());
        assert!(entry(3, "").is_err());
        assert!(Deviations::parse("[[deviation]]\nid = 'a'").is_err());
        assert!(Deviations::parse("").unwrap().by_default().is_empty());
    }
}
