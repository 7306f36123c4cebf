//! Reading, locking and replacing a file that other programs change as well.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::output;

/// Mode of a file that holds a token.
const OWNER_ONLY: u32 = 0o600;
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The file that `path` leads to: a symbolic link stays one.
pub(super) fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The text of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot read the file"),
    }
}

/// Replaces the text of a file at once: readers find the old text or the new one. The mode stays.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode() & 0o7777,
        Err(_) => OWNER_ONLY,
    };
    let unfinished = beside(path, &format!(".{}.unfinished", std::process::id()));
    let written = write_new(&unfinished, text, mode)
        .and_then(|()| fs::rename(&unfinished, path).context("cannot replace the file"));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(OWNER_ONLY);
    let mut file = options.open(path).with_context(failed)?;
    file.set_permissions(fs::Permissions::from_mode(mode)).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.sync_all().with_context(failed)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The lock file that kubectl and other tools respect while they change a kubeconfig.
pub(super) struct Lock(PathBuf);

impl Lock {
    /// Waits a moment for other tools.
    pub(super) fn acquire(path: &Path) -> anyhow::Result<Self> {
        let lock = beside(path, ".lock");
        for _ in 1..LOCK_TRIES {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    output::wait(LOCK_PAUSE);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create {}", lock.display()));
                }
            }
        }
        anyhow::bail!(
            "another program holds the lock {}; remove it if no such program runs",
            lock.display()
        )
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
