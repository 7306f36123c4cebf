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

/// Writes `text` to standard error; a failure cannot be reported anywhere.
pub(crate) fn complain(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Whether standard error is a terminal.
pub(crate) fn someone_watches() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard output shows colours: it is a terminal, and the user did not turn them off.
pub(crate) fn is_coloured() -> bool {
    is_terminal() && allows_colours(|name| std::env::var(name).ok())
}

/// `NO_COLOR` with any value, and terminals that know nothing of colours.
pub(crate) fn allows_colours(variable: impl Fn(&str) -> Option<String>) -> bool {
    let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && variable("TERM").as_deref() != Some("dumb")
}

/// Gives a person time to read. Nothing else in the product waits like this.
#[expect(clippy::disallowed_methods, reason = "people read in their own time, not in virtual time")]
pub(crate) fn wait(span: Duration) {
    std::thread::sleep(span);
}

/// Columns of the terminal; a usual width where standard output is none.
pub(crate) fn width() -> usize {
    const USUAL: usize = 100;
    const NARROW: usize = 80;
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let default = || if is_terminal() { terminal_width().unwrap_or(NARROW) } else { USUAL };
    columns.unwrap_or_else(default)
}

/// Shells do not hand `COLUMNS` on; `stty` asks the terminal.
fn terminal_width() -> Option<usize> {
    let terminal = std::fs::File::open("/dev/tty").ok()?;
    let mut stty = std::process::Command::new("stty");
    let said =
        stty.arg("size").stdin(terminal).stderr(std::process::Stdio::null()).output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    said.split_whitespace().nth(1)?.parse().ok().filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_can_be_turned_off() {
        let of = |set: &'static [(&str, &str)]| {
            allows_colours(move |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("TERM", "xterm")]));
        assert!(of(&[("NO_COLOR", "")]));
        assert!(!of(&[("NO_COLOR", "1")]));
        assert!(!of(&[("TERM", "dumb")]));
    }
}
