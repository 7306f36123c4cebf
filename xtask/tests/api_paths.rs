//! Names become part of a path of the API server in `kai_client::path` alone, which encodes them: elsewhere a name such as
//! `a/../b` would address another object.

mod source_files;

use std::fs;

use source_files::{rust_files, workspace_root};

/// Crates that are clients of an API server on behalf of a user.
const CLIENTS: [&str; 9] = [
    "kai",
    "kai-admission",
    "kai-binder",
    "kai-client",
    "kai-control",
    "kai-doctor",
    "kai-install",
    "kai-node",
    "kai-settings",
];
/// The file that encodes names.
const ENCODER: &str = "crates/kai-client/src/path.rs";

/// Whether a line puts a value into a path behind `namespaces/`.
fn formats_a_namespace(line: &str) -> bool {
    line.contains("/namespaces/{") && !line.trim_start().starts_with("//")
}

/// The lines of a file in front of its tests.
fn shipped_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.enumerate().map(|(at, line)| (at + 1, line))
}

#[test]
fn names_are_encoded_in_one_place() {
    let root = workspace_root();
    let mut files = Vec::new();
    for name in CLIENTS {
        rust_files(&root.join("crates").join(name).join("src"), &mut files);
    }
    files.retain(|path| !path.ends_with(ENCODER));
    assert!(files.len() > 100, "no sources found");
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let lines = shipped_lines(&text).filter(|(_, line)| formats_a_namespace(line));
        wrong.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", path.display())));
    }
    assert!(wrong.is_empty(), "use kai_client::path:\n{}", wrong.join("\n"));
}

#[test]
fn formatted_paths_are_found() {
    assert!(formats_a_namespace(r#"format!("/api/v1/namespaces/{namespace}/pods")"#));
    assert!(!formats_a_namespace("Resource::PODS.collection(namespace)"));
    let text = "a\n#[cfg(test)]\nb";
    assert_eq!(shipped_lines(text).collect::<Vec<_>>(), [(1, "a")]);
}
