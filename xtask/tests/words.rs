//! The project uses one word for one idea: words of the glossary that have a better one stay out of the tree.

use std::path::{Path, PathBuf};

/// Words that are not used, and what to write instead.
const UNUSED: [(&str, &str); 39] = [
    ("surroundings", "environment"),
    ("told to go", "evicted"),
    ("tell to go", "evict"),
    ("tells to go", "evicts"),
    ("had to go", "was evicted"),
    ("made others go", "preemptor"),
    ("fares", "status, condition"),
    ("fared", "outcome"),
    ("in vain", "without success"),
    ("heed", "apply, follow"),
    ("looked after", "reconciled"),
    ("promised a place", "nominated"),
    ("entitled to", "fair share, quota"),
    ("somebody", "the actor: another writer, a pod, the caller"),
    ("whoever", "the actor: the writer, the holder, the caller"),
    ("comes to no end", "is cyclic, exceeds the deadline"),
    ("made to go", "evicted"),
    ("make others go", "evict others"),
    ("tells it to go", "evicts it"),
    ("makes room", "frees capacity"),
    ("make room", "free capacity"),
    ("promised", "nominated"),
    ("promises", "nominates, nominations"),
    ("way out", "releasing, terminating"),
    ("part of a gpu", "GPU fraction"),
    ("parts of gpus", "GPU fractions"),
    ("puts up with", "tolerates"),
    ("wishes", "what is configured, settings"),
    ("wished", "configured, requested"),
    ("wish", "setting, request"),
    ("told", "reported, logged, received"),
    ("tell", "report, distinguish"),
    ("tells", "reports, distinguishes"),
    ("telling", "reporting"),
    ("nobody", "the actor that is absent: no pod, no client"),
    ("heard", "observed, received"),
    ("hear", "observe, receive"),
    ("hears", "observes, receives"),
    ("room", "free capacity"),
];

const PLACES: [&str; 9] = [
    "crates",
    "docs",
    "deploy",
    "xtask",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

fn files(place: &Path, found: &mut Vec<PathBuf>) {
    if place.is_dir() {
        let entries =
            std::fs::read_dir(place).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| !path.ends_with("target")) {
            files(path, found);
        }
    } else if place
        .extension()
        .is_some_and(|kind| ["rs", "md", "yaml", "toml"].iter().any(|known| kind == *known))
    {
        found.push(place.to_path_buf());
    }
}

/// Whether the line has the phrase as whole words.
fn has(line: &str, phrase: &str) -> bool {
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    line.match_indices(phrase).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + phrase.len()..]);
        !is_word(before.chars().next_back()) && !is_word(after.chars().next())
    })
}

#[test]
fn words_of_the_glossary_stay_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for place in PLACES {
        files(&root.join(place), &mut found);
    }
    let mut wrong = Vec::new();
    for path in found.iter().filter(|path| !path.ends_with("xtask/tests/words.rs")) {
        let text = std::fs::read_to_string(path).expect("a text file");
        let text = text.to_lowercase().replace('_', " "); // names are sentences, too
        let place = path.strip_prefix(&root).unwrap_or(path);
        for (number, line) in text.lines().enumerate() {
            let unused = UNUSED.iter().filter(|(phrase, _)| has(line, phrase));
            for (phrase, better) in unused {
                let place = place.display();
                wrong.push(format!("{place}:{}: \"{phrase}\": write {better}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn phrases_are_found_as_whole_words() {
    assert!(has("it was told to go.", "told to go"));
    assert!(!has("welfares", "fares"));
}
