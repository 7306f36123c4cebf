//! Runs a command, shows what it prints and lets somebody read along.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::Context;

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` in `folder` and shows its output line by line; `read` gets every line. True when it
/// ended well.
pub(crate) fn show(
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
        scope.spawn(|| show_lines(stdout, &read));
        scope.spawn(|| show_lines(stderr, &read));
    });
    Ok(child.wait().with_context(|| format!("cannot wait for {described}"))?.success())
}

fn show_lines<F: FnMut(&str)>(stream: Option<impl Read>, read: &Mutex<F>) {
    let Some(stream) = stream else { return };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        println!("{line}");
        if let Ok(mut read) = read.lock() {
            read(&line);
        }
    }
}
