//! Runs a command and passes on each line that it prints, with or without showing it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::Context;

/// What the variables start with in which `cargo run` describes the package `xtask` to this program.
const PACKAGE_VARIABLES: [&str; 5] =
    ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"];

/// The cargo that runs this program, in the environment in which a user starts cargo.
///
/// Build scripts rerun when variables that they read differ: with `CARGO_MANIFEST_DIR` of `xtask`, cargo builds `ring`
/// and everything above it again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_package) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_package(variable: &str) -> bool {
    PACKAGE_VARIABLES.iter().any(|prefix| variable.starts_with(prefix))
}

/// Runs `command` in `folder` and shows its output line by line; `read` gets every line. True when it
/// ended well.
pub(crate) fn show(
    command: Command,
    folder: &Path,
    mut read: impl FnMut(&str) + Send,
) -> anyhow::Result<bool> {
    read_lines(command, folder, |line| {
        println!("{line}");
        read(line);
    })
}

/// Runs `command` in `folder`; `read` gets every line of its output. True when it ended well.
pub(crate) fn read_lines(
    mut command: Command,
    folder: &Path,
    read: impl FnMut(&str) + Send,
) -> anyhow::Result<bool> {
    let described = format!("{command:?}");
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {described}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = Mutex::new(read);
    thread::scope(|scope| {
        scope.spawn(|| pass_lines_on(stdout, &read));
        scope.spawn(|| pass_lines_on(stderr, &read));
    });
    Ok(child.wait().with_context(|| format!("cannot wait for {described}"))?.success())
}

fn pass_lines_on<F: FnMut(&str)>(stream: Option<impl Read>, read: &Mutex<F>) {
    let Some(stream) = stream else { return };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Ok(mut read) = read.lock() {
            read(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_starts_without_the_description_of_this_package() {
        let command = cargo();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE"] {
            assert!(std::env::var_os(name).is_some(), "cargo sets {name} for tests");
            let removed = command.get_envs().any(|(key, value)| key == name && value.is_none());
            assert!(removed, "{name} is handed on");
        }
    }

    #[test]
    fn settings_of_the_user_are_handed_on() {
        for name in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_PROFILE_DEV_LTO"]
        {
            assert!(!describes_package(name), "{name} is removed");
        }
    }
}
