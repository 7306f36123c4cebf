//! The gate of the planner's speed: instructions of small cases against committed ceilings. Times would depend on the
//! machine and on what else it does; instructions hardly do.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::process::cargo;
use crate::tally::Tally;

/// How much above its ceiling a count may be; a count as far below it is worth a new ceiling.
const SLACK: f64 = 0.10;

const CASES: [&str; 7] = [
    "allocate-100",
    "gang-512",
    "reclaim-large-100",
    "reclaim-many-100",
    "reclaim-no-100",
    "consolidate-100",
    "steady-100",
];

const HEADER: &str = "\
# Instructions of one cycle of each case, as callgrind counts them in a release build. `cargo xtask test` fails when a
# case takes over 10 % more; `cargo xtask ceilings` rewrites this file.
";

/// Highest allowed instruction count by case.
#[derive(Debug, PartialEq, Deserialize)]
struct Ceilings {
    instructions: BTreeMap<String, u64>,
}

/// Counts instructions and compares them with the ceilings.
pub(crate) fn gate(root: &Path) -> anyhow::Result<Tally> {
    if !valgrind_is_here() {
        println!("SKIPPED instruction counts: valgrind is not installed and cannot be");
        return Ok(Tally { skipped: CASES.len() as i64, ..Tally::default() });
    }
    let text = fs::read_to_string(file(root)).context("cannot read the ceilings")?;
    let ceilings: Ceilings = toml::from_str(&text).context("cannot read the ceilings")?;
    Ok(judge(&count(root)?, &ceilings.instructions))
}

pub(crate) fn rewrite(root: &Path) -> anyhow::Result<()> {
    ensure!(valgrind_is_here(), "valgrind is not installed");
    let counts = count(root)?;
    fs::write(file(root), rendered(&counts)?).context("cannot write the ceilings")?;
    println!("wrote {}", file(Path::new("")).display());
    Ok(())
}

fn file(root: &Path) -> PathBuf {
    root.join("benches/instruction-ceilings.toml")
}

/// Whether there is valgrind, if need be after installing it from the distribution's packages, which takes rights.
fn valgrind_is_here() -> bool {
    let has_valgrind = || runs("valgrind", &["--version"]);
    has_valgrind() || {
        println!("valgrind is not there: trying to install it");
        runs("apt-get", &["update", "-q"])
            && runs("apt-get", &["install", "-qy", "--no-install-recommends", "valgrind"])
            && has_valgrind()
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn count(root: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let output = cargo()
        .args(["run", "--quiet", "--locked", "--release", "--", "bench", "instructions"])
        .args(CASES)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "kai bench instructions ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("kai bench instructions printed no counts")
}

fn judge(counts: &BTreeMap<String, u64>, ceilings: &BTreeMap<String, u64>) -> Tally {
    let mut tally = Tally::default();
    for (case, &count) in counts {
        let Some(&ceiling) = ceilings.get(case) else {
            println!("FAILED {case}: no ceiling; run `cargo xtask ceilings`");
            tally.failed += 1;
            continue;
        };
        let ratio = count as f64 / ceiling as f64;
        let percent = (ratio - 1.0) * 100.0;
        println!("{case:<20}{count:>16} instructions, {percent:+.1} % against its ceiling");
        if ratio > 1.0 + SLACK {
            println!("FAILED {case}: over its ceiling of {ceiling}");
        } else if ratio < 1.0 - SLACK {
            println!("NOTE {case}: well below its ceiling; run `cargo xtask ceilings`");
        }
        tally += Tally::of_one(ratio <= 1.0 + SLACK);
    }
    for case in ceilings.keys().filter(|case| !counts.contains_key(*case)) {
        println!("FAILED {case}: has a ceiling, but was not counted");
        tally.failed += 1;
    }
    tally
}

fn rendered(counts: &BTreeMap<String, u64>) -> Result<String, std::fmt::Error> {
    let mut text = format!("{HEADER}\n[instructions]\n");
    for (case, count) in counts {
        writeln!(text, "{case} = {count}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
        entries.iter().map(|&(case, count)| (case.to_owned(), count)).collect()
    }

    #[test]
    fn a_tenth_more_is_allowed() {
        let ceilings = counts(&[("a", 1000)]);
        let failed = |count| judge(&counts(&[("a", count)]), &ceilings).failed;
        assert_eq!([500, 1000, 1100].map(failed), [0, 0, 0]);
        assert_eq!(failed(1101), 1);
    }

    #[test]
    fn cases_and_ceilings_belong_together() {
        assert_eq!(judge(&counts(&[("a", 1)]), &counts(&[])).failed, 1);
        assert_eq!(judge(&counts(&[]), &counts(&[("a", 1)])).failed, 1);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let written = counts(&[("allocate-100", 12), ("gang-512", 3)]);
        let read: Ceilings = toml::from_str(&rendered(&written).unwrap()).unwrap();
        assert_eq!(read.instructions, written);
    }
}
