//! The folder of material shared beside the repository: recorded scenarios and vectors. Tests that need
//! it say loudly when it is not there.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Overrides where the shared folder is; a relative path starts at the workspace root.
pub const SHARED_VARIABLE: &str = "KAI_SHARED";

/// The shared folder, which exists.
#[derive(Clone, Debug)]
pub struct SharedFolder {
    root: PathBuf,
}

impl SharedFolder {
    /// The folder, if it is there: what `KAI_SHARED` names, else `../shared` beside the workspace.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os(SHARED_VARIABLE).map(PathBuf::from);
        let root = workspace_root().join(named.unwrap_or_else(|| PathBuf::from("../shared")));
        root.join("scenarios").is_dir().then_some(Self { root })
    }

    /// As [`SharedFolder::find`], and says on stderr that `what` is skipped if it is not there.
    pub fn find_or_skip(what: &str) -> Option<Self> {
        let found = Self::find();
        if found.is_none() {
            // Not `eprintln!`: the test harness would swallow the line of a test that passes.
            let line = format!("SKIPPED {what}: no shared folder (set {SHARED_VARIABLE})\n");
            // A line that cannot be written is no reason to fail.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        found
    }

    /// Scenarios, profiles and vectors.
    pub fn scenarios(&self) -> PathBuf {
        self.root.join("scenarios")
    }

    /// Folder of the recorded scenarios.
    pub fn recorded(&self) -> PathBuf {
        self.scenarios().join("scenarios")
    }

    /// Arguments and results of pure functions.
    pub fn vectors(&self) -> PathBuf {
        self.scenarios().join("vectors")
    }
}

/// The nearest folder upwards that holds the lock file; cargo starts tests inside their crate.
pub fn workspace_root() -> PathBuf {
    let start =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), Into::into);
    let upwards = start.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    upwards.map(Path::to_path_buf).unwrap_or(start)
}
