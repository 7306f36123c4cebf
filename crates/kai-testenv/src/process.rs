//! A program that ends with the test, however the test ends.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// The shell holds the program; it kills it when its standard input closes, which the system does when the test process dies. A
/// signal to all processes of a terminal must not end the shell before that: the API server survives such a signal.
const KEEPER: &str = r#"exec 3<&0
"$@" </dev/null 3<&- &
program=$!
trap '' INT TERM
(cat <&3 >/dev/null; kill -9 $program 2>/dev/null) &
wait $program
ended=$?
if [ -n "$REMOVE" ]; then rm -rf "$REMOVE"; fi
exit $ended"#;

/// A program that ends when this is dropped, and when the test process ends in whatever way.
#[derive(Debug)]
pub struct Process {
    keeper: Child,
}

impl Process {
    /// Starts a program; its output is written to `log`, or to the standard error of the test. The folder `remove` is deleted when the
    /// program ends.
    pub fn start<S: AsRef<OsStr>>(
        program: &Path,
        arguments: &[S],
        log: Option<&Path>,
        remove: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut keeper = Command::new("sh");
        keeper
            .args(["-c", KEEPER, "keeper"])
            .arg(program)
            .args(arguments)
            .env("REMOVE", remove.unwrap_or(Path::new("")))
            .stdin(Stdio::piped());
        if let Some(path) = log {
            let log = || {
                let file = File::options().create(true).append(true).open(path);
                file.with_context(|| format!("cannot write {}", path.display()))
            };
            keeper.stdout(log()?).stderr(log()?);
        }
        let keeper =
            keeper.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { keeper })
    }

    /// Whether the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.keeper.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
