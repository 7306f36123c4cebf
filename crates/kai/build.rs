//! Records the commit of optimised builds for `kai version`, and strips them. Debug builds record none: every commit would rebuild
//! all tests.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KAI_COMMIT");
    let given = std::env::var("KAI_COMMIT").ok();
    let is_optimised = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_optimised.then(head).flatten());
    println!("cargo::rustc-env=KAI_COMMIT={}", commit.as_deref().unwrap_or("not recorded"));
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let has_debug_information = std::env::var("DEBUG").is_ok_and(|text| text == "true");
    if is_optimised && is_linux && !has_debug_information {
        // Cargo does not pass `strip` of a profile on to a package with settings of its own.
        println!("cargo::rustc-link-arg-bins=-s");
    }
}

/// The commit that is checked out; none where the source is no clone.
fn head() -> Option<String> {
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
