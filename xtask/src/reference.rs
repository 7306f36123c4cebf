//! `docs/reference.md`: every label, annotation, condition and environment variable, from the doc comments of `kai-api`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

const PAGE: &str = "docs/reference.md";

/// Modules of `kai_api::names` and the heading of each.
const SECTIONS: [(&str, &str); 10] = [
    ("workload", "Workloads, pods and pod groups"),
    ("queue", "Queues"),
    ("gpu", "GPUs of pods and reservation pods"),
    ("guard", "GPU memory limits"),
    ("node", "Nodes"),
    ("scheduling", "Written by the scheduler and the binder"),
    ("status", "Conditions and reasons"),
    ("objects", "Objects of an installation"),
    ("env", "Environment variables"),
    ("legacy", "Older releases of KAI"),
];

const HEAD: &str = "\
# Reference of names

Every label, annotation, condition, object and environment variable that the product reads or writes, for people who write
manifests or look at objects. This page is generated from `crates/kai-api/src/names` by `cargo xtask reference`; flags and
fields of `Config` are in [settings.md](settings.md), fields of custom resources in `kubectl explain`.
";

pub(crate) fn rewrite(root: &Path) -> anyhow::Result<()> {
    std::fs::write(root.join(PAGE), page(root)?).with_context(|| format!("cannot write {PAGE}"))
}

fn page(root: &Path) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for (module, heading) in SECTIONS {
        let path = root.join("crates/kai-api/src/names").join(module).with_extension("rs");
        let source = std::fs::read_to_string(&path);
        let source = source.with_context(|| format!("cannot read {}", path.display()))?;
        write!(page, "\n## {heading}\n\n| name | meaning |\n|---|---|\n")?;
        for (name, meaning) in names(&source) {
            writeln!(page, "| `{name}` | {} |", meaning.replace('|', "\\|"))?;
        }
    }
    Ok(page)
}

/// Values of the string constants of a module, each with its doc comment.
fn names(source: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
        } else {
            let value =
                line.strip_prefix("pub const ").and_then(|rest| rest.split_once(": &str = \""));
            if let Some((value, _)) = value.and_then(|(_, value)| value.split_once('"')) {
                found.push((value, without_links(&comment.join(" "), source)));
            }
            comment.clear();
        }
    }
    found
}

/// Links to constants of the module become the values of the constants.
fn without_links(comment: &str, source: &str) -> String {
    let mut text = String::new();
    let mut rest = comment;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        let value = source.split_once(&format!("pub const {name}: &str = \""));
        let value =
            value.and_then(|(_, value)| value.split_once('"')).map_or(name, |(value, _)| value);
        let _ = write!(text, "{before}`{value}`");
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_names_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let written = std::fs::read_to_string(root.join(PAGE)).expect("the page");
        assert!(written == page(&root).expect("a page"), "run `cargo xtask reference`");
    }

    #[test]
    fn a_link_becomes_the_value_it_names() {
        let source = "/// Label: the queue.\npub const QUEUE: &str = \"a/queue\";\n\n/// Not [`QUEUE`].\npub const X: &str = \"x\";\n";
        let wanted =
            [("a/queue", "Label: the queue.".to_owned()), ("x", "Not `a/queue`.".to_owned())];
        assert_eq!(names(source), wanted);
    }
}
