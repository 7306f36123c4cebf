//! The program for each platform.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use kai_image::Platform;

use crate::process::{cargo, show};

/// Profile of what is shipped; `release` where the workspace does not define it.
const SHIPPED: &str = "dist";
/// Profile whose programs keep everything that a debugger reads.
const DEVELOPMENT: &str = "dev";

/// The profile that the image is built with unless another is named.
pub(crate) fn default_profile(root: &Path) -> anyhow::Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let has_dist = manifest.contains(&format!("[profile.{SHIPPED}]"));
    Ok(if has_dist { SHIPPED } else { "release" }.to_owned())
}

/// Builds the program for a platform; its path.
pub(crate) fn program(
    root: &Path,
    platform: Platform,
    profile: &str,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--locked", "--package", "kai", "--profile", profile]);
    let own = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let mut built = own.unwrap_or_else(|| root.join("target"));
    if platform != Platform::host() {
        let tools = Tools::of(platform)?;
        let target = platform.rust_target();
        command.args(["--target", target]);
        let upper = target.replace('-', "_").to_uppercase();
        command.env(format!("CARGO_TARGET_{upper}_LINKER"), &tools.linker);
        command.env(format!("CC_{}", target.replace('-', "_")), &tools.linker);
        built.push(target);
    }
    if !show(command, root, |_| {})? {
        bail!("the program for {platform} cannot be built");
    }
    built.extend([if profile == DEVELOPMENT { "debug" } else { profile }, "kai"]);
    if profile == DEVELOPMENT { stripped(&built, platform, folder) } else { Ok(built) }
}

/// A copy without symbols.
fn stripped(program: &Path, platform: Platform, folder: &Path) -> anyhow::Result<PathBuf> {
    let strip = if platform == Platform::host() {
        "strip".to_owned()
    } else {
        format!("{}-linux-gnu-strip", platform.machine())
    };
    let copy = folder.join(format!("kai-{platform}"));
    let ended = Command::new(&strip).arg("-o").arg(&copy).arg(program).status();
    if !ended.with_context(|| format!("cannot start {strip}"))?.success() {
        bail!("{strip} failed on {}", program.display());
    }
    Ok(copy)
}

/// What a platform other than that of this machine needs.
struct Tools {
    linker: String,
}

impl Tools {
    fn of(platform: Platform) -> anyhow::Result<Self> {
        let (target, machine) = (platform.rust_target(), platform.machine());
        let linker = format!("{machine}-linux-gnu-gcc");
        if !runs(&linker, &["--version"]) {
            bail!("{linker} is not installed; run scripts/install-image-tools.sh");
        }
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = sysroot.context("cannot start rustc")?.stdout;
        let sysroot = String::from_utf8(sysroot).context("rustc prints no path")?;
        if !Path::new(sysroot.trim()).join("lib/rustlib").join(target).exists() {
            bail!("rustc has no standard library for {target}; run scripts/install-image-tools.sh");
        }
        Ok(Self { linker })
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
