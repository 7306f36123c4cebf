//! Bans, licences and sources of dependencies, checked by `cargo deny`, which is built once and kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::parts::cargo_with;
use crate::process::show;
use crate::tally::Tally;

/// The version of cargo-deny.
const VERSION: &str = "0.20.2";

/// Checks `deny.toml`. Advisories are checked separately: a new one is not caused by a change.
pub(crate) fn check(root: &Path) -> anyhow::Result<Tally> {
    let program = cargo_deny(root)?;
    let mut command = Command::new(program);
    command.args(["--log-level", "error", "check", "--hide-inclusion-graph"]);
    command.args(["bans", "licenses", "sources"]);
    show(command, root, |_| {}).map(Tally::of_one)
}

/// Where cargo-deny is kept, beside the built control plane.
fn folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or_else(home);
    let cache = cache.context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("kai-control-plane").join(format!("cargo-deny-{VERSION}")))
}

/// The program, built now where it is not kept from an earlier time: unoptimised, for it runs a second.
fn cargo_deny(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = folder()?;
    let program = folder.join("bin/cargo-deny");
    if !program.exists() {
        let root_flag = folder.display().to_string();
        let arguments = ["install", "--debug", "--locked", "cargo-deny", "--version", VERSION];
        let target = folder.join("target");
        let target_folder = target.display().to_string();
        let variables = [("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_TARGET_DIR", &*target_folder)];
        let arguments = [arguments.as_slice(), &["--root", &root_flag]].concat();
        ensure!(show(cargo_with(&arguments, &variables), root, |_| {})?, "cannot build cargo-deny");
        std::fs::remove_dir_all(&target).context("cannot remove what cargo-deny was built from")?;
    }
    Ok(program)
}
