//! `cargo xtask image`: the container image of `kai` for every platform, without Docker.

mod build;
pub(crate) mod check;
mod licences;
mod packages;
mod sbom;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kai_image::product::{self, GUARD_LIBRARY, REPOSITORY};
use kai_image::{Platform, Tree};

use crate::guard;

const DOCUMENTS: &str = "/usr/share/doc/kai";

/// Arguments of the command.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    platforms: Vec<Platform>,
    profile: String,
    name: String,
    folder: PathBuf,
}

impl Order {
    fn read(root: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let version = packages::version_of_kai(root)?;
        let mut order = Self {
            platforms: Platform::ALL.to_vec(),
            profile: build::default_profile(root)?,
            name: format!("{REPOSITORY}:{version}"),
            folder: root.join("target/image"),
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
            match *flag {
                "--platform" => order.platforms = platforms(value)?,
                "--profile" => (*value).clone_into(&mut order.profile),
                "--name" => (*value).clone_into(&mut order.name),
                "--output" => order.folder = value.into(),
                _ => bail!("unknown flag {flag}; see `cargo xtask help`"),
            }
        }
        Ok(order)
    }
}

fn platforms(text: &str) -> anyhow::Result<Vec<Platform>> {
    let named = |name: &str| {
        Platform::named(name).with_context(|| format!("unknown platform {name}: amd64 or arm64"))
    };
    text.split(',').map(named).collect()
}

/// Builds the programs and writes archive, bill of materials and licences.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<bool> {
    let order = Order::read(root, arguments)?;
    fs::create_dir_all(&order.folder)
        .with_context(|| format!("cannot create {}", order.folder.display()))?;
    let packages = packages::shipped(root, &order.platforms)?;
    let bill = sbom::spdx(&packages, &order.name);
    let texts = licences::collect(root, &packages)?;
    let mut trees = BTreeMap::new();
    guard::build(root)?;
    for platform in &order.platforms {
        let program = build::program(root, *platform, &order.profile, &order.folder)?;
        let mut tree = files(&program, *platform, &bill, &texts)?;
        tree.copy(&guard::library(root, platform.machine()), GUARD_LIBRARY)?;
        trees.insert(*platform, tree);
    }
    let archive = product::image(&order.name, trees).archive()?;
    let write = |name: &str, content: &[u8]| {
        let path = order.folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{:>9}  {}", format!("{} kB", content.len() / 1000), path.display());
        anyhow::Ok(())
    };
    write("kai.spdx.json", bill.as_bytes())?;
    write("third-party-licences.txt", texts.as_bytes())?;
    write("kai.tar", &archive.bytes)?;
    println!("{} {}", order.name, archive.digest);
    Ok(true)
}

fn files(program: &Path, platform: Platform, bill: &str, texts: &str) -> anyhow::Result<Tree> {
    let mut tree = product::files(program, platform)?;
    tree.file(&format!("{DOCUMENTS}/kai.spdx.json"), bill, 0o644);
    tree.file(&format!("{DOCUMENTS}/third-party-licences.txt"), texts, 0o644);
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use kai_image::libraries;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
    }

    #[test]
    fn packing_the_same_program_twice_gives_the_same_digest() {
        let stand_in = Path::new("/bin/true");
        let digest = |bill: &str| {
            let tree = files(stand_in, Platform::host(), bill, "licences").expect("files");
            let archive = product::image("kai:1", [(Platform::host(), tree)].into()).archive();
            archive.expect("an archive").digest
        };
        assert_eq!(digest("bill"), digest("bill"));
        assert_ne!(digest("bill"), digest("another bill"));
    }

    #[test]
    fn image_has_loader_and_libraries_of_the_program_and_of_nvml() {
        let tree = files(Path::new("/bin/true"), Platform::host(), "", "").expect("files");
        let paths: Vec<&str> = tree.paths().collect();
        let folder = libraries::folder(Platform::host());
        let wanted = libraries::LIBRARIES.map(|file| format!("{folder}/{file}"));
        let loader = libraries::loader(Platform::host()).to_owned();
        for path in wanted.iter().chain([&loader]) {
            assert!(paths.contains(&path.trim_start_matches('/')), "{path} is missing");
        }
    }

    #[test]
    fn flags_of_the_command_replace_the_defaults() {
        let order = Order::read(&root(), &["--platform", "arm64", "--name", "r/kai:2"]);
        let order = order.expect("an order");
        assert_eq!((order.platforms, order.name.as_str()), (vec![Platform::Arm64], "r/kai:2"));
        assert!(Order::read(&root(), &["--platform", "riscv"]).is_err());
        assert!(Order::read(&root(), &["--typo", "x"]).is_err());
        let usual = Order::read(&root(), &[]).expect("an order");
        assert_eq!(usual.platforms, Platform::ALL);
        let chart = fs::read_to_string(root().join("deploy/chart/values.yaml")).expect("values");
        let registry = REPOSITORY.trim_end_matches("/kai");
        assert!(
            chart.contains(&format!("registry: {registry}\n")),
            "the chart asks for {REPOSITORY}"
        );
    }
}
