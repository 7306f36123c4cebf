//! Packages that the image ships: crates that `kai` is linked from, and libraries of the system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use kai_image::Platform;
use serde_json::Value;

use crate::process::cargo;

/// A crate or a system library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Licence expression.
    pub(crate) licence: String,
    /// Kind of its package URL: `cargo` or `deb/debian`.
    pub(crate) kind: &'static str,
    /// Folder with licence texts.
    pub(crate) folder: PathBuf,
    /// Indices of the packages it depends on.
    pub(crate) dependencies: Vec<usize>,
}

/// Version of the workspace.
pub(crate) fn version_of_kai(root: &Path) -> anyhow::Result<String> {
    let metadata = metadata(root, &["--no-deps"])?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let kai = packages.into_iter().find(|package| package["name"] == "kai");
    let version = kai.and_then(|package| package["version"].as_str());
    Ok(version.context("cargo metadata names no package kai")?.to_owned())
}

/// Everything that is in the image for these platforms; `kai` is the first.
pub(crate) fn shipped(root: &Path, platforms: &[Platform]) -> anyhow::Result<Vec<Package>> {
    let mut filters = vec!["--filter-platform"];
    for platform in platforms {
        filters.extend([platform.rust_target(), "--filter-platform"]);
    }
    filters.pop();
    let mut packages = linked(&metadata(root, &filters)?)?;
    packages.extend(["libc6", "libgcc-s1"].into_iter().filter_map(system_package));
    Ok(packages)
}

fn metadata(root: &Path, more: &[&str]) -> anyhow::Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]).args(more);
    let output = command.current_dir(root).output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata prints no JSON")
}

/// The crates that `kai` is linked from, without those that only tests and build scripts use.
fn linked(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let described: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|one| (text(&one["id"]), one)).collect();
    let links: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let is_normal = |dependency: &&Value| {
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
            };
            let dependencies = list(&node["deps"]);
            let normal = dependencies.iter().filter(is_normal).map(|one| text(&one["pkg"]));
            (text(&node["id"]), normal.collect())
        })
        .collect();
    let first = described.iter().find(|(_, package)| package["name"] == "kai");
    let (first, _) = first.context("cargo metadata names no package kai")?;
    let mut order: Vec<String> = vec![first.clone()];
    let mut known: BTreeSet<String> = order.iter().cloned().collect();
    let mut next = 0;
    while let Some(id) = order.get(next).cloned() {
        next += 1;
        for dependency in links.get(&id).into_iter().flatten() {
            if known.insert(dependency.clone()) {
                order.push(dependency.clone());
            }
        }
    }
    let place: BTreeMap<&str, usize> =
        order.iter().enumerate().map(|(index, id)| (id.as_str(), index)).collect();
    let package = |id: &String| {
        let package = described.get(id).cloned().unwrap_or_default();
        let dependencies = links.get(id).into_iter().flatten();
        Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            kind: "cargo",
            folder: Path::new(&text(&package["manifest_path"]))
                .parent()
                .map(Path::to_path_buf)
                .unwrap_or_default(),
            dependencies: dependencies.filter_map(|on| place.get(on.as_str()).copied()).collect(),
        }
    };
    Ok(order.iter().map(package).collect())
}

/// A Debian package of this machine; none elsewhere.
fn system_package(name: &str) -> Option<Package> {
    let asked = Command::new("dpkg-query").args(["-W", "-f=${Version}", name]).output().ok()?;
    let version = String::from_utf8(asked.stdout).ok().filter(|_| asked.status.success())?;
    let licence = match name {
        "libc6" => "LGPL-2.1-or-later",
        _ => "GPL-3.0-or-later WITH GCC-exception-3.1",
    };
    Some(Package {
        name: name.to_owned(),
        version,
        licence: licence.to_owned(),
        kind: "deb/debian",
        folder: Path::new("/usr/share/doc").join(name),
        dependencies: Vec::new(),
    })
}
