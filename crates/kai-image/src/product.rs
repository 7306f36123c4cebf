//! The image of `kai`: the program, the libraries it needs, a user, and nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use crate::image::{Image, RunConfig};
use crate::libraries;
use crate::platform::Platform;
use crate::tree::Tree;

/// Repository of the image where no registry is named; the chart's default values say the same.
pub const REPOSITORY: &str = "localhost/kai-scheduler/kai";
/// Path of the program in the image.
pub const PROGRAM: &str = "/usr/bin/kai";
/// Path of the library that limits GPU memory in the image.
pub const GUARD_LIBRARY: &str = "/usr/lib/kai/libkai_guard.so";
/// User and group of its containers, where the cluster assigns none.
const USER: u32 = 10_000;

/// The image with these files.
pub fn image(name: &str, platforms: BTreeMap<Platform, Tree>) -> Image {
    let labels = [
        ("org.opencontainers.image.title", "kai"),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
        ("org.opencontainers.image.description", "GPU scheduler for Kubernetes"),
    ];
    let run = RunConfig {
        entrypoint: vec![PROGRAM.to_owned()],
        user: Some(format!("{USER}:{USER}")),
        env: vec!["PATH=/usr/bin:/bin".to_owned()],
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    };
    Image { name: name.to_owned(), run, platforms }
}

/// Its files for one platform.
pub fn files(program: &Path, platform: Platform) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    tree.copy(program, PROGRAM)?;
    libraries::add(&mut tree, platform)?;
    let users = format!("root:x:0:0:root:/:/\nkai:x:{USER}:{USER}:kai:/:/\n");
    tree.file("/etc/passwd", users, 0o644);
    tree.file("/etc/group", format!("root:x:0:\nkai:x:{USER}:\n"), 0o644);
    tree.folder("/tmp", 0o1777);
    Ok(tree)
}
