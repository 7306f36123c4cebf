//! The kubeconfig, which holds the token: only its owner may read it, and it goes when the cluster ends.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

/// A kubeconfig that lives as long as this.
pub(super) struct Kubeconfig {
    path: PathBuf,
}

impl Kubeconfig {
    /// Writes it. What was there before is replaced, so that nobody keeps a right to read it.
    pub(super) fn write(path: &Path, config: &Value) -> anyhow::Result<Self> {
        let failed = || format!("cannot write {}", path.display());
        let unfinished = path.with_extension("unfinished");
        let _ = fs::remove_file(&unfinished);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .with_context(failed)?;
        let text = serde_json::to_string_pretty(config)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        fs::rename(&unfinished, path).with_context(failed)?;
        Ok(Self { path: path.to_path_buf() })
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Whoever moved it away wanted to keep it.
        let _ = fs::remove_file(&self.path);
    }
}
