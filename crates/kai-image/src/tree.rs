//! The files of an image.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use crate::tar::{Kind, Writer};

const FOLDER: u32 = 0o755;

/// Files, folders and links of an image, by path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Debug)]
enum Node {
    Folder { mode: u32 },
    File { content: Vec<u8>, mode: u32 },
    Link { target: String },
}

impl Tree {
    /// Adds a file with this content and mode.
    pub fn file(&mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) {
        self.insert(path, Node::File { content: content.into(), mode });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.insert(path, Node::Link { target: target.to_owned() });
    }

    /// Adds an empty folder with this mode.
    pub fn folder(&mut self, path: &str, mode: u32) {
        self.insert(path, Node::Folder { mode });
    }

    /// Adds a file of this machine. Links are followed; of the mode only the executable bit is kept, so that the image does
    /// not depend on the umask of the machine it is packed on.
    pub fn copy(&mut self, from: &Path, path: &str) -> anyhow::Result<()> {
        let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        let metadata =
            fs::metadata(from).with_context(|| format!("cannot read {}", from.display()))?;
        let is_executable = metadata.permissions().mode() & 0o100 != 0;
        self.file(path, content, if is_executable { 0o755 } else { 0o644 });
        Ok(())
    }

    /// Paths in the order of the archive.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    fn insert(&mut self, path: &str, node: Node) {
        let path = path.trim_matches('/');
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        for folder in folders {
            let usual = Node::Folder { mode: FOLDER };
            self.nodes.entry(folder.to_owned()).or_insert(usual);
        }
        self.nodes.insert(path.to_owned(), node);
    }

    /// The tree as a tar archive.
    pub fn pack(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = Writer::default();
        for (path, node) in &self.nodes {
            match node {
                Node::Folder { mode } => {
                    writer.append(&format!("{path}/"), *mode, Kind::Folder, &[])?;
                }
                Node::File { content, mode } => {
                    writer.append(path, *mode, Kind::File, content)?;
                }
                Node::Link { target } => {
                    writer.append(path, 0o777, Kind::Link { target }, &[])?;
                }
            }
        }
        Ok(writer.finish())
    }
}
