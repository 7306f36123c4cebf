//! Builds `libkai_guard.so` as it is shipped: zig links against an old glibc, whatever the machine has.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

const TARGETS: [(&str, &str); 2] =
    [("x86_64", "x86_64-unknown-linux-gnu"), ("aarch64", "aarch64-unknown-linux-gnu")];
/// Oldest C library that the result runs with: that of `CentOS` 7.
const GLIBC: &str = "2.17";

/// Builds both architectures into `out/guard/<architecture>/libkai_guard.so`, and installs zig first if it is absent.
pub(crate) fn build(root: &Path) -> anyhow::Result<()> {
    let has_zig = Command::new("cargo").args(["zigbuild", "--help"]).output()?.status.success();
    if !has_zig {
        run(Command::new("pip3").args(["install", "ziglang", "cargo-zigbuild"]), "pip3 install")?;
    }
    for (architecture, target) in TARGETS {
        run(Command::new("rustup").args(["target", "add", target]), "rustup target add")?;
        let versioned = format!("{target}.{GLIBC}");
        let mut command = Command::new("cargo");
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
