//! The kubeconfig file of `kai up`: a context is merged into it and removed again when the cluster ends. Entries of
//! other tools stay as they are.

mod entries;
mod file;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::output;
use entries::{Entries, MergedContext};
use file::Lock;

/// How to reach a server: the values of the `cluster` and `user` entries.
pub(super) struct Connection {
    pub(super) cluster: Value,
    pub(super) user: Value,
}

/// A context in a kubeconfig file that exists as long as this value.
pub(super) struct Kubeconfig {
    path: PathBuf,
    context: MergedContext,
    /// What the file held before; `None` if it did not exist, or held only contexts of clusters that are gone.
    before: Option<String>,
    /// What was written. A file that still holds exactly this is restored byte by byte, comments included.
    written: String,
}

impl Kubeconfig {
    /// Merges a context into the file and makes it the current one. A new file can be read by its owner only; an
    /// existing one keeps its mode.
    pub(super) fn merge(path: &Path, connection: &Connection) -> anyhow::Result<Self> {
        let path = file::resolve(path);
        let failed = || format!("cannot add a context to the kubeconfig {}", path.display());
        let _lock = Lock::acquire(&path).with_context(failed)?;
        let existing = file::read(&path).with_context(failed)?;
        let mut entries = Entries::parse(existing.as_deref().unwrap_or("")).with_context(failed)?;
        let removed_stale = entries.remove_stale(process_is_alive);
        let before = match existing {
            Some(_) if removed_stale && entries.is_empty() => None,
            Some(_) if removed_stale => Some(entries.render().with_context(failed)?),
            existing => existing,
        };
        let context = entries.merge(connection, std::process::id());
        let written = entries.render().with_context(failed)?;
        file::replace(&path, &written).with_context(failed)?;
        Ok(Self { path, context, before, written })
    }

    /// Name of the context.
    pub(super) fn context(&self) -> &str {
        self.context.name()
    }

    fn remove(&self) -> anyhow::Result<()> {
        let _lock = Lock::acquire(&self.path)?;
        let Some(now) = file::read(&self.path)? else { return Ok(()) };
        let left = if now == self.written {
            self.before.clone()
        } else {
            let mut entries = Entries::parse(&now)?;
            entries.remove(&self.context);
            let is_ours = self.before.is_none() && entries.is_empty();
            if is_ours { None } else { Some(entries.render()?) }
        };
        match left {
            Some(text) => file::replace(&self.path, &text),
            None => std::fs::remove_file(&self.path).map_err(anyhow::Error::from),
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            output::complain(&format!(
                "kai: cannot remove the context {} from {}: {error:#}\n",
                self.context.name(),
                self.path.display()
            ));
        }
    }
}

fn process_is_alive(id: u64) -> bool {
    match std::fs::metadata(format!("/proc/{id}")) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests;
