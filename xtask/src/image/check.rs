//! `cargo xtask image-check`: the programs of the archive run with nothing but the files of the image, those of other
//! platforms under qemu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use kai_image::Platform;
use serde_json::Value;

const STUB_DEVICE: &str = "GPU-5a1b:32600:Stub";
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
            command.env("NVML_LIBRARY_PATHS", files.join(STUB));
            command
        } else {
            let mut command = Command::new("chroot");
            command.arg(files).arg("/usr/bin/kai").env("NVML_LIBRARY_PATHS", format!("/{STUB}"));
            command
        }
    }
}

fn emulator(platform: Platform) -> Option<String> {
    (platform != Platform::host()).then(|| format!("qemu-{}-static", platform.machine()))
}

fn check(root: &Path, files: &Path, runner: &Runner) -> anyhow::Result<()> {
    let mut stub = Command::new("sh");
    stub.arg(root.join("crates/kai-node/tests/stub-nvml/build.sh")).arg(files.join(STUB));
    said(stub.env("CC", &runner.compiler)).context("the stub of NVML cannot be built")?;
    let version = said(runner.command(files).arg("--version"))?;
    ensure!(version.starts_with("kai "), "{}: {version}", runner.platform);
    let mut reserve = runner.command(files);
    reserve.args(["agent", "reserve", "--print"]).env("STUB_NVML_DEVICES", STUB_DEVICE);
    let printed = said(&mut reserve)?;
    ensure!(printed.contains("GPU-5a1b"), "{}: no device in {printed}", runner.platform);
    println!("{}: {} finds {STUB_DEVICE}", runner.platform, version.trim());
    Ok(())
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
