//! Colours, where somebody sees them, and boxes of text.

use std::fmt::Write;

/// What a text is, by which it is coloured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Title,
    Faint,
    Good,
    Waiting,
    Bad,
}

/// Colours texts on a terminal, and leaves them alone elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    pub(super) coloured: bool,
}

impl Paint {
    pub(super) fn text(self, ink: Ink, text: &str) -> String {
        if !self.coloured {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Title => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Waiting => "33",
            Ink::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// A table with columns as wide as they must be.
pub(crate) fn table(rows: &[Vec<String>], indent: &str) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A bar: who has how much of `whole`, and what is left.
pub(super) fn bar(parts: &[(char, u64)], whole: u64, width: usize) -> String {
    let cells = |amount: u64| (amount.saturating_mul(width as u64) / whole.max(1)) as usize;
    let mut bar = String::new();
    for (letter, amount) in parts {
        let length = cells(*amount).max(1).min(width.saturating_sub(bar.chars().count()));
        bar.extend(std::iter::repeat_n(*letter, length));
    }
    let rest = width.saturating_sub(bar.chars().count());
    bar.extend(std::iter::repeat_n('·', rest));
    bar
}

/// A text in lines of at most `width` letters, each after `indent`.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line + 1 + word.chars().count() > width && line > indent.len() {
            lines.push(indent.to_owned());
        }
        if let Some(line) = lines.last_mut() {
            if line.len() > indent.len() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_who_has_what() {
        assert_eq!(bar(&[('a', 40), ('b', 20)], 80, 8), "aaaabb··");
        assert_eq!(bar(&[], 80, 4), "····");
        assert_eq!(bar(&[('a', 1)], 1000, 4), "a···");
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(wrapped("one two three", 9, "  "), "  one two\n  three\n");
    }
}
