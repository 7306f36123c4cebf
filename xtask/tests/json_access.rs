//! JSON that comes from outside is never changed by `value["key"] = …`, which panics where the value is no object: the
//! sources of the product are searched for it. `kai_api::json::set` and `pointer_mut` do the same without panics.

mod source_files;

use std::fs;

use source_files::{rust_files, workspace_root};

/// Crates that change objects of their own only: benchmarks, the embedded cluster and tests.
const OWN_OBJECTS_ONLY: &[&str] = &["kai-bench", "kai-embed", "kai-e2e", "kai-testenv"];

#[test]
fn no_source_of_the_product_changes_json_by_index() {
    let mut files = Vec::new();
    let crates = workspace_root().join("crates");
    for folder in fs::read_dir(&crates).expect("crates") {
        let folder = folder.expect("a crate").path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !OWN_OBJECTS_ONLY.contains(&name) {
            rust_files(&folder.join("src"), &mut files);
        }
    }
    assert!(files.len() > 100, "no sources found");
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("#[cfg(test)]") {
                break;
            }
            if changes_by_index(line) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new(), "use kai_api::json::set or pointer_mut");
}

/// Does the line write through an index that is a text or a constant?
fn changes_by_index(line: &str) -> bool {
    let code = line.trim_start();
    if ["//", "const ", "pub const ", "static "].iter().any(|start| code.starts_with(start)) {
        return false;
    }
    let Some(end) = last_text_index(code) else { return false };
    let (before, after) = code.split_at(end);
    let after = after.trim_start();
    let assigns = ["= ", "+= "].iter().any(|sign| after.starts_with(sign)) || after == "=";
    let is_pattern = before.contains("let [") || code.starts_with('[');
    let mutates = [".take()", ".get_mut(", ".as_array_mut(", ".as_object_mut(", ".push("]
        .iter()
        .any(|call| after.starts_with(call));
    let borrows = before.rfind("&mut ").is_some_and(|start| {
        before[start + 5..].chars().all(|letter| !matches!(letter, ' ' | '(' | ','))
    });
    !is_pattern && (assigns || mutates || borrows)
}

/// Where the last index of the line ends that is a text or a constant, with indices behind it.
fn last_text_index(code: &str) -> Option<usize> {
    let mut found = None;
    for (start, _) in code.match_indices('[') {
        let is_index = code[..start].ends_with(|letter: char| {
            letter.is_alphanumeric() || matches!(letter, '_' | ']' | ')')
        });
        let Some(length) = code[start..].find(']') else { continue };
        let inner = &code[start + 1..start + length];
        let is_text = inner.starts_with('"') && inner.ends_with('"') && inner.len() > 1;
        let is_constant = inner.contains("::")
            && inner.rsplit("::").next().is_some_and(|name| {
                name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
            });
        let continues = found == Some(start);
        if is_index && (is_text || is_constant || continues) {
            found = Some(start + length + 1);
        }
    }
    found
}

#[test]
fn the_search_finds_what_it_should() {
    let bad = [
        r#"pod["spec"]["nodeName"] = json!("n");"#,
        r#"pod["spec"]["containers"][0]["env"] = json!([]);"#,
        "annotations[gpu::RESERVATION_RUNG] = json!(1);",
        r#"let container = &mut pod["spec"]["containers"][0];"#,
        r#"again["count"] += 1;"#,
        r#"match list["items"].take() {"#,
        r#"if let Some(list) = pod["env"].as_array_mut() {"#,
        r#"let volumes = list_mut(&mut pod["spec"], "volumes");"#,
    ];
    for line in bad {
        assert!(changes_by_index(line), "{line}");
    }
    let good = [
        r#"let name = pod["metadata"]["name"].as_str();"#,
        r#"if pod["spec"]["nodeName"] == "n" {"#,
        r#"const NAMES: [&str; 2] = ["a", "b"];"#,
        r#"json::set(&mut pod, &["spec", "nodeName"], "n");"#,
        r#"["namespaces", namespace, plural] => target(namespace),"#,
        "counts[index] = 1;",
        r#"let [one, two] = ["a", "b"];"#,
    ];
    for line in good {
        assert!(!changes_by_index(line), "{line}");
    }
}
