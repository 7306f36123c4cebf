//! The GPU request of a pod is read in one place, `kai_api::gpu_request`: no other source of the product names the
//! annotations. Two readers gave two answers before.

mod source_files;

use std::fs;

use source_files::{rust_files, workspace_root};

/// Files that may name the annotations, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("kai-api/src/gpu_request.rs", "the reader"),
    ("kai-api/src/names/gpu.rs", "the names"),
    (
        "kai-admission/src/container_memory.rs",
        "writes the request of a container as that of its pod",
    ),
    ("kai-admission/src/pods.rs", "denies changes of the container that gets the share"),
    (
        "kai-translate/src/container_memory.rs",
        "reads the request of a container as that of its pod",
    ),
    ("kai-translate/src/trust.rs", "counts what is left of an oversold device"),
    ("kai-core/src/world/validate.rs", "names of fields in problems"),
    ("kai-bench/src/objects.rs", "makes pods"),
    ("kai-e2e/src/admission.rs", "makes pods"),
    ("kai-e2e/src/objects.rs", "makes pods"),
    ("kai-e2e/src/test_space.rs", "makes pods"),
];

/// Constants and texts of the annotations; the character behind them is not part of a longer name.
const NAMES: &[&str] = &[
    "gpu::FRACTION",
    "gpu::FRACTION_NUM_DEVICES",
    "gpu::FRACTION_CONTAINER",
    "gpu::MEMORY",
    "gpu_names::FRACTION",
    "gpu_names::FRACTION_NUM_DEVICES",
    "gpu_names::FRACTION_CONTAINER",
    "gpu_names::MEMORY",
    "\"gpu-fraction\"",
    "\"gpu-fraction-num-devices\"",
    "\"gpu-fraction-container-name\"",
    "\"gpu-memory\"",
];

#[test]
fn one_module_reads_gpu_requests() {
    let crates = workspace_root().join("crates");
    let mut files = Vec::new();
    for folder in fs::read_dir(&crates).expect("crates") {
        rust_files(&folder.expect("a crate").path().join("src"), &mut files);
    }
    assert!(files.len() > 100, "no sources found");
    let mut found = Vec::new();
    let mut used = Vec::new();
    for file in files {
        let path = file.strip_prefix(&crates).expect("in crates").display().to_string();
        let text = fs::read_to_string(&file).expect("a readable file");
        let product = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        let lines = product.enumerate().filter(|(_, line)| names_annotation(line));
        let lines: Vec<String> =
            lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())).collect();
        if ALLOWED.iter().any(|(allowed, _)| *allowed == path) {
            used.extend((!lines.is_empty()).then_some(path));
        } else {
            found.extend(lines);
        }
    }
    assert_eq!(found, Vec::<String>::new(), "ask kai_api::gpu_request instead");
    let unused: Vec<&str> = ALLOWED
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| !used.iter().any(|used| used == path))
        .collect();
    assert_eq!(unused, Vec::<&str>::new(), "these need no exception any more");
}

fn names_annotation(line: &str) -> bool {
    if line.trim_start().starts_with("//") {
        return false;
    }
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    NAMES
        .iter()
        .any(|name| line.match_indices(name).any(|(start, _)| is_end(&line[start + name.len()..])))
}

#[test]
fn the_search_finds_what_it_should() {
    for line in ["get(gpu::FRACTION)", "annotation(pod, \"gpu-memory\")", "[gpu::MEMORY, x]"] {
        assert!(names_annotation(line), "{line}");
    }
    for line in
        ["gpu::MEMORY_MIB", "// gpu::FRACTION", "\"gpu-memory-mib\"", "gpu::RECEIVED_FRACTION"]
    {
        assert!(!names_annotation(line), "{line}");
    }
}
