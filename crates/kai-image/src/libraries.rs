//! Shared libraries that `kai` and NVIDIA's `libnvidia-ml.so.1` need.
//!
//! `kai` loads NVML at run time, so it cannot be a static program: the image carries glibc and its loader.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::platform::Platform;
use crate::tree::Tree;

/// Libraries beside the loader. The empty ones of today's glibc (`libdl`, `libpthread`, `librt`) are named by NVML.
pub const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"];

/// Path of the dynamic loader in the image; programs name it.
pub const fn loader(platform: Platform) -> &'static str {
    match platform {
        Platform::Amd64 => "/lib64/ld-linux-x86-64.so.2",
        Platform::Arm64 => "/lib/ld-linux-aarch64.so.1",
    }
}

/// Folder of the libraries in the image; the loader searches it.
pub fn folder(platform: Platform) -> String {
    format!("/lib/{}-linux-gnu", platform.machine())
}

/// Adds loader and libraries of this machine: the machine's own for its platform, and the libraries of Debian's cross compiler for others.
pub fn add(tree: &mut Tree, platform: Platform) -> anyhow::Result<()> {
    let loader = loader(platform);
    let loader_file = loader.rsplit('/').next().unwrap_or(loader);
    tree.copy(&find(platform, loader_file)?, loader)?;
    for library in LIBRARIES {
        tree.copy(&find(platform, library)?, &format!("{}/{library}", folder(platform)))?;
    }
    Ok(())
}

fn find(platform: Platform, file: &str) -> anyhow::Result<PathBuf> {
    let triplet = format!("{}-linux-gnu", platform.machine());
    let own = ["/lib/", "/usr/lib/"].map(|folder| format!("{folder}{triplet}"));
    let folders = if platform == Platform::host() {
        [own.as_slice(), &["/lib64".to_owned(), "/lib".to_owned()]].concat()
    } else {
        vec![format!("/usr/{triplet}/lib")]
    };
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(file));
    match paths.find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => bail!(
            "{file} for {platform} is in none of {}; install gcc-{}-linux-gnu",
            folders.join(", "),
            platform.machine()
        ),
    }
}
