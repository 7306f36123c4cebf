//! `cargo xtask image-check`: the programs of the archive run with nothing but the files of the image, those of other
//! platforms under qemu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use kai_image::Platform;
use serde_json::Value;

const STUB_DEVICE: &str = "GPU-5a1b:32600:Stub";
/// Most bytes of a layer as registries store it, compressed.
const LARGEST_LAYER: usize = 25_000_000;
/// Where the stub of NVML is in the unpacked image.
const STUB: &str = "stub";

/// Checks every platform of an archive; false where one could not be run here.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<bool> {
    let archive = match arguments {
        [] => root.join("target/image/kai.tar"),
        [path] => PathBuf::from(path),
        _ => bail!("usage: cargo xtask image-check [ARCHIVE]"),
    };
    let work = root.join("target/image/check");
    if work.exists() {
        fs::remove_dir_all(&work).context("cannot remove the last check")?;
    }
    let layout = work.join("layout");
    unpack(&archive, &layout)?;
    let mut is_complete = true;
    for (platform, layer) in layers(&layout)? {
        let files = work.join(platform.architecture());
        unpack(&layer, &files)?;
        check_size(platform, &layer)?;
        check_documents(platform, &files)?;
        match Runner::of(platform) {
            Ok(runner) => check(root, &files, &runner)?,
            Err(why) => {
                println!("SKIPPED {platform}: {why}");
                is_complete = false;
            }
        }
    }
    Ok(is_complete)
}

fn unpack(archive: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder);
    said(&mut tar).with_context(|| format!("cannot unpack {}", archive.display())).map(|_| ())
}

/// The layer of every platform, found as a container runtime finds it.
fn layers(layout: &Path) -> anyhow::Result<Vec<(Platform, PathBuf)>> {
    let read = |path: &Path| -> anyhow::Result<Value> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap_or_default().replace(':', "/");
        layout.join("blobs").join(digest)
    };
    let index = read(&layout.join("index.json"))?;
    let platforms = read(&blob(&index["manifests"][0]))?;
    let mut found = Vec::new();
    for descriptor in platforms["manifests"].as_array().into_iter().flatten() {
        let architecture = descriptor["platform"]["architecture"].as_str().unwrap_or_default();
        let platform = Platform::named(architecture).context("the archive names no platform")?;
        let manifest = read(&blob(descriptor))?;
        found.push((platform, blob(&manifest["layers"][0])));
    }
    ensure!(!found.is_empty(), "the archive has no platforms");
    Ok(found)
}

/// The image is small enough to be pulled to every node.
fn check_size(platform: Platform, layer: &Path) -> anyhow::Result<()> {
    let output =
        Command::new("gzip").arg("-nc").arg(layer).output().context("cannot start gzip")?;
    ensure!(output.status.success(), "gzip failed on {}", layer.display());
    let bytes = output.stdout.len();
    println!("{platform}: {bytes} bytes compressed, at most {LARGEST_LAYER}");
    ensure!(bytes <= LARGEST_LAYER, "{platform}: the image is too large");
    Ok(())
}

/// The image has its bill of materials and the licences of everything in it.
fn check_documents(platform: Platform, files: &Path) -> anyhow::Result<()> {
    let documents = files.join(super::DOCUMENTS.trim_start_matches('/'));
    let read = |name: &str| {
        let path = documents.join(name);
        fs::read_to_string(&path).with_context(|| format!("{platform}: no {}", path.display()))
    };
    let bill: Value =
        serde_json::from_str(&read("kai.spdx.json")?).context("the bill is no JSON")?;
    let packages = bill["packages"].as_array().map_or(0, Vec::len);
    ensure!(packages > 1, "{platform}: the bill of materials names {packages} packages");
    let licences = read("third-party-licences.txt")?;
    ensure!(!licences.is_empty(), "{platform}: no licences");
    println!("{platform}: {packages} packages, {} bytes of licences", licences.len());
    Ok(())
}

/// How a program of a platform is run here.
struct Runner {
    platform: Platform,
    compiler: String,
}

impl Runner {
    fn of(platform: Platform) -> Result<Self, String> {
        let starts = |program: &str| Command::new(program).arg("--version").output().is_ok();
        let compiler = if platform == Platform::host() {
            "cc".to_owned()
        } else {
            format!("{}-linux-gnu-gcc", platform.machine())
        };
        let needed = [Some(compiler.clone()), emulator(platform)];
        match needed.into_iter().flatten().find(|program| !starts(program)) {
            Some(missing) => {
                Err(format!("{missing} is not installed; run scripts/install-image-tools.sh"))
            }
            None => Ok(Self { platform, compiler }),
        }
    }

    /// A command of the image: in a root of its own, or emulated with the libraries of the image.
    fn command(&self, files: &Path) -> Command {
        if let Some(emulator) = emulator(self.platform) {
            let mut command = Command::new(emulator);
            command.arg("-L").arg(files).arg(files.join("usr/bin/kai"));
            with_stub(&mut command, &files.join(STUB));
            command
        } else {
            let mut command = Command::new("chroot");
            command.arg(files).arg("/usr/bin/kai");
            with_stub(&mut command, &Path::new("/").join(STUB));
            command
        }
    }
}

/// Lets a program find the stub of NVML and what the stub needs. A program that finds the latter by itself starts itself anew,
/// which takes `/proc`.
fn with_stub(command: &mut Command, folder: &Path) {
    command.env("NVML_LIBRARY_PATHS", folder).env("LD_LIBRARY_PATH", folder);
}

fn emulator(platform: Platform) -> Option<String> {
    (platform != Platform::host()).then(|| format!("qemu-{}-static", platform.machine()))
}

fn check(root: &Path, files: &Path, runner: &Runner) -> anyhow::Result<()> {
    let mut stub = Command::new("sh");
    stub.arg(root.join("crates/kai-node/tests/stub-nvml/build.sh")).arg(files.join(STUB));
    said(stub.env("CC", &runner.compiler)).context("the stub of NVML cannot be built")?;
    let version = said(runner.command(files).arg("version"))?;
    let machine = runner.platform.machine();
    ensure!(version.starts_with("kai "), "{}: {version}", runner.platform);
    ensure!(version.contains(machine), "{}: another platform: {version}", runner.platform);
    let mut reserve = runner.command(files);
    reserve.args(["agent", "reserve", "--print"]).env("STUB_NVML_DEVICES", STUB_DEVICE);
    let printed = said(&mut reserve)?;
    ensure!(printed.contains("GPU-5a1b"), "{}: no device in {printed}", runner.platform);
    println!(
        "{}: {} finds {STUB_DEVICE}",
        runner.platform,
        version.lines().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
