//! Everything the binary prints goes through here.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Writes `text` to standard output. A reader that went away is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

/// Writes `text` to standard error; where that fails, there is nobody left to tell.
pub(crate) fn complain(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Whether somebody watches standard error.
pub(crate) fn someone_watches() -> bool {
    io::stderr().is_terminal()
}

/// Whether somebody watches standard output.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Gives a person time to read. Nothing else in the product waits like this.
#[expect(clippy::disallowed_methods, reason = "people read in their own time, not in virtual time")]
pub(crate) fn wait(span: Duration) {
    std::thread::sleep(span);
}

/// Columns of the terminal, or a width that fits most of them.
pub(crate) fn width() -> usize {
    const USUAL: usize = 100;
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(USUAL)
}
