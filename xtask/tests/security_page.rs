//! `docs/security.md` names the tests that repeat each attack: they exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Names of functions behind `#[test]` or `#[tokio::test]`.
fn tests(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            found.extend(rest.split_once('(').map(|(name, _)| name));
            is_test = false;
        }
    }
    found
}

/// Names in backticks of the last column of the table of attacks.
fn named(page: &str) -> Vec<&str> {
    let table = page.split("## Attacks and their tests").nth(1).expect("the table of attacks");
    let table = table.split("\n## ").next().expect("a section");
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|---"));
    let last = rows.filter_map(|row| row.trim_end_matches('|').rsplit(" | ").next());
    let words = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.filter(|word| word.contains('_') && !word.contains('.')).collect()
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let mut source = String::new();
    sources(&root().join("crates"), &mut source);
    let existing = tests(&source);
    let named = named(&page);
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !existing.contains(**name)).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:?}");
}
