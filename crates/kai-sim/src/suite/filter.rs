//! Which of the scenarios found are run.

use crate::format::Scenario;

/// Which scenarios are run; what is absent lets all pass.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those whose id matches.
    pub id: Option<IdPattern>,
    /// Only those with this tag.
    pub feature: Option<String>,
}

impl Filter {
    /// Whether the scenario, called `id`, is run.
    pub fn accepts(&self, id: &str, scenario: &Scenario) -> bool {
        let feature_fits = |wanted: &String| scenario.features.contains(wanted);
        self.id.as_ref().is_none_or(|pattern| pattern.matches(id))
            && self.feature.as_ref().is_none_or(feature_fits)
    }
}

/// A pattern for ids. With `*` (any text) or `?` (any one character) it describes the whole id; without
/// them it is a text that occurs in the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPattern(String);

impl IdPattern {
    /// The pattern written as `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether `id` matches the pattern.
    pub fn matches(&self, id: &str) -> bool {
        if self.0.contains(['*', '?']) {
            let pattern: Vec<char> = self.0.chars().collect();
            let id: Vec<char> = id.chars().collect();
            matches_whole(&pattern, &id)
        } else {
            id.contains(&self.0)
        }
    }
}

/// The usual two-pointer match: on a mismatch, let the last `*` swallow one more character.
fn matches_whole(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut last_star = None;
    while position < text.len() {
        match pattern.get(at) {
            Some('*') => {
                last_star = Some((at, position));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[position] => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((star, swallowed)) = last_star else { return false };
                last_star = Some((star, swallowed + 1));
                at = star + 1;
                position = swallowed + 1;
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}
