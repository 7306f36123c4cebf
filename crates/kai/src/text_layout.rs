//! Plain text in columns and lines.

use std::fmt::Write;

/// A table with columns as wide as they must be; every line starts with `indent`.
pub(crate) fn table<R: AsRef<[String]>>(rows: &[R], indent: &str) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for (cell, width) in row.as_ref().iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
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
    fn columns_are_as_wide_as_their_longest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        let rows = [row(["NODE", "GPUS"]), row(["größe-1", "8"]), row(["n", ""])];
        assert_eq!(table(&rows, "  "), "  NODE     GPUS\n  größe-1  8\n  n\n");
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(wrapped("one two three", 9, "  "), "  one two\n  three\n");
    }
}
