//! `value["key"] = …` on JSON panics where the value is no object. What comes from outside is decoded into types, or changed
//! through `kai_api::json`; no lint knows the operator, so this test reads the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that run in no cluster beside others: the cluster in memory, which makes the objects it changes, and tests.
const EXEMPT: [&str; 4] = ["kai-embed", "kai-e2e", "kai-bench", "kai-testenv"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Writes through an index with a text: `x["a"] = …`, `x["a"] += …`, `&mut x["a"]`.
fn writes_by_index(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with("//") {
        return false;
    }
    let mut rest = line;
    while let Some(at) = rest.find("\"]") {
        rest = &rest[at + 2..];
        // Further indices belong to the same place.
        let mut after = rest;
        while after.starts_with('[') {
            let Some(end) = after.find(']') else { break };
            after = &after[end + 1..];
        }
        let after = after.trim_start();
        let assigns = after.starts_with("= ") || after.starts_with("+= ");
        if assigns || after.starts_with(".take()") {
            return true;
        }
    }
    line.match_indices("&mut ").any(|(at, _)| {
        let place = &line[at + 5..];
        let end = place.find(|c: char| !(c.is_alphanumeric() || "_.[]\"".contains(c)));
        place[..end.unwrap_or(place.len())].contains("[\"")
    })
}

#[test]
fn json_is_not_written_by_index() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.join("src").is_dir() && !EXEMPT.contains(&name.as_str()) {
            sources(&path.join("src"), &mut files);
        }
    }
    assert!(files.len() > 100, "no sources found");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
        let text = fs::read_to_string(file).expect("a readable file");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = product.lines().enumerate().filter(|(_, line)| writes_by_index(line));
        found.extend(lines.map(|(at, line)| format!("{}:{}: {line}", file.display(), at + 1)));
    }
    assert!(found.is_empty(), "JSON is written by index, which can panic:\n{}", found.join("\n"));
}

#[test]
fn the_reader_finds_what_it_looks_for() {
    let found = [
        r#"pod["spec"] = json!({});"#,
        r#"pod["spec"]["containers"][0]["env"] = json!([]);"#,
        r#"again["count"] += 1;"#,
        r#"fill(&mut pod["spec"]["template"]);"#,
        r#"let name = pod["metadata"]["name"].take();"#,
    ];
    for line in found {
        assert!(writes_by_index(line), "{line}");
    }
    let fine = [
        r#"let x = pod["spec"]["x"].as_str();"#,
        r#"if pod["spec"] == json!({}) {"#,
        r#"// pod["spec"] = json!({});"#,
        r#"Some(_) if one["a"] => {}"#,
        r#"let all = ["a", "b"];"#,
        r#"json!({"a": ["b"], "c": 1})"#,
    ];
    for line in fine {
        assert!(!writes_by_index(line), "{line}");
    }
}
