//! Records the commit of optimised builds for `kai version`. Debug builds record none: every commit would rebuild all tests.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KAI_COMMIT");
    let given = std::env::var("KAI_COMMIT").ok();
    // `dist` counts as a debug profile for cargo, and `release` compiles this package without optimisation.
    let is_optimised = std::env::var("DEBUG").is_ok_and(|debug| debug == "false");
    let commit = given.or_else(|| is_optimised.then(head).flatten());
    println!("cargo::rustc-env=KAI_COMMIT={}", commit.as_deref().unwrap_or("not recorded"));
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
