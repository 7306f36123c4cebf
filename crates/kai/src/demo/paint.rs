//! Colours, where the output is a terminal, bars and broken YAML.

/// What a text is, by which it is coloured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Title,
    Faint,
    Good,
    Waiting,
    Bad,
}

/// Colours of the terminal that can be distinguished on dark and light backgrounds.
const HUES: [u8; 10] = [33, 208, 71, 161, 37, 134, 136, 170, 64, 67];

/// Colours texts on a terminal, and keeps them plain elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) coloured: bool,
}

impl Paint {
    /// A row about a pod, by how far it is.
    pub(crate) fn pod_row(self, phase: &str, row: &str) -> String {
        let ink = match phase {
            "Running" | "Succeeded" => Ink::Good,
            "Pending" => Ink::Waiting,
            _ => Ink::Bad,
        };
        self.text(ink, row)
    }

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

    /// A text in one of many colours.
    pub(super) fn hued(self, hue: usize, text: &str) -> String {
        if !self.coloured || text.is_empty() {
            return text.to_owned();
        }
        let code = HUES[hue % HUES.len()];
        format!("\u{1b}[38;5;{code}m{text}\u{1b}[0m")
    }
}

/// A bar of `width` cells: the amounts of the pods with these numbers of `whole`, then free cells. Every pod has at least
/// one cell, and so has free capacity.
pub(super) fn bar(paint: Paint, parts: &[(usize, u64)], whole: u64, width: usize) -> String {
    let used: u64 = parts.iter().map(|(_, amount)| amount).sum();
    let used_cells_at_most = width.saturating_sub(usize::from(used < whole));
    let cells = |amount: u64| {
        let rounded = (amount.saturating_mul(width as u64) + whole / 2) / whole.max(1);
        usize::try_from(rounded).unwrap_or(width)
    };
    let (mut bar, mut filled, mut so_far) = (String::new(), 0, 0_u64);
    for (number, amount) in parts {
        so_far = so_far.saturating_add(*amount);
        let end = cells(so_far).max(filled + 1).min(used_cells_at_most);
        let letter = if paint.coloured { '█' } else { char::from(b'a' + (number % 26) as u8) };
        let cells: String = std::iter::repeat_n(letter, end.saturating_sub(filled)).collect();
        bar.push_str(&paint.hued(*number, &cells));
        filled = end.max(filled);
    }
    bar.extend(std::iter::repeat_n('·', width.saturating_sub(filled)));
    bar
}

/// A line of YAML in lines of at most `width` letters where it can be: flow maps and lists are broken after commas, so
/// that it stays the same YAML.
pub(super) fn yaml_lines(line: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), line.to_owned());
    let indent = " ".repeat(line.len() - line.trim_start_matches([' ', '-']).len() + 2);
    while rest.chars().count() > width {
        let fits = |(at, _): &(usize, &str)| rest[..*at].chars().count() < width;
        let breaks = rest.match_indices(", ").filter(|(at, _)| *at > indent.len());
        let Some((at, _)) = breaks.take_while(fits).last() else { break };
        let next = format!("{indent}{}", &rest[at + 2..]);
        rest.truncate(at + 1);
        lines.push(std::mem::replace(&mut rest, next));
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_amount_of_each_pod() {
        let plain = Paint { coloured: false };
        assert_eq!(bar(plain, &[(0, 40), (1, 20)], 80, 8), "aaaabb··");
        assert_eq!(bar(plain, &[], 80, 4), "····");
        assert_eq!(bar(plain, &[(0, 1)], 1000, 4), "a···");
        assert_eq!(bar(plain, &[(0, 80), (1, 80), (2, 80), (3, 80)], 326, 8), "aabbccd·");
        assert_eq!(bar(plain, &[(0, 80), (1, 80)], 160, 4), "aabb");
        let coloured = bar(Paint { coloured: true }, &[(0, 40)], 80, 4);
        assert_eq!(coloured, "\u{1b}[38;5;33m██\u{1b}[0m··");
    }

    #[test]
    fn broken_yaml_is_the_same_yaml() {
        let line = "- {name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}";
        let lines = yaml_lines(line, 40);
        assert!(
            lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= 50),
            "{lines:?}"
        );
        let read =
            |text: &str| -> serde_json::Value { serde_saphyr::from_str(text).expect("YAML") };
        assert_eq!(read(&lines.join("\n")), read(line));
        assert_eq!(yaml_lines("kind: Pod", 4), ["kind: Pod"]);
    }
}
