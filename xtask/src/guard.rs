//! Builds `libkai_guard.so` as it is shipped: zig links against an old glibc, whatever the machine has.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::process::cargo;
use crate::tally::Tally;

const TARGETS: [(&str, &str); 2] =
    [("x86_64", "x86_64-unknown-linux-gnu"), ("aarch64", "aarch64-unknown-linux-gnu")];
/// Oldest C library that the result runs with: that of `CentOS` 7.
const GLIBC: &str = "2.17";
/// Python packages of the linker, in the versions that the library was tested with.
const ZIG: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];
/// Programs that tests of the library need, and the Debian packages that have them.
const TOOLS: [(&str, &str); 4] = [
    ("qemu-aarch64-static", "qemu-user-static"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("musl-gcc", "musl-tools"),
    ("readelf", "binutils"),
];

/// What the tests of the library need: the library as it is shipped, and programs for other platforms. Without them the
/// tests would be skipped.
pub(crate) fn prepare(root: &Path) -> anyhow::Result<Tally> {
    install_tools()?;
    build(root)?;
    Ok(Tally::of_one(true))
}

/// Installs the programs that are absent.
fn install_tools() -> anyhow::Result<()> {
    let is_absent = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|found| found.status.success())
    };
    let absent = TOOLS.iter().filter(|(program, _)| is_absent(program));
    let mut packages: Vec<&str> = absent.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    packages.push("libc6-dev-arm64-cross");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(&mut apt(&["update", "-q"]), "apt-get update")?;
    let install = ["install", "-qy", "--no-install-recommends"];
    run(apt(&install).args(&packages), "apt-get install")
}

/// Builds both architectures into `out/guard/<architecture>/libkai_guard.so`, and installs zig first if it is absent.
pub(crate) fn build(root: &Path) -> anyhow::Result<()> {
    let has_zig = cargo().args(["zigbuild", "--help"]).output()?.status.success();
    if !has_zig {
        run(Command::new("pip3").arg("install").args(ZIG), "pip3 install")?;
    }
    for (architecture, target) in TARGETS {
        run(Command::new("rustup").args(["target", "add", target]), "rustup target add")?;
        let versioned = format!("{target}.{GLIBC}");
        let mut command = cargo();
        command.args(["zigbuild", "--locked", "--profile", "guard", "-p", "kai-guard-preload"]);
        run(command.args(["--target", &versioned]).current_dir(root), "cargo zigbuild")?;
        let built = root.join("target").join(target).join("guard/libkai_guard_preload.so");
        let library = library(root, architecture);
        library.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::copy(&built, &library)
            .with_context(|| format!("{} was not built", built.display()))?;
        println!("{}", library.display());
    }
    Ok(())
}

/// Where the library of an architecture is.
pub(crate) fn library(root: &Path, architecture: &str) -> PathBuf {
    root.join("out/guard").join(architecture).join("libkai_guard.so")
}

fn run(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{name} did not start"))?;
    ensure!(status.success(), "{name} failed with {status}");
    Ok(())
}
