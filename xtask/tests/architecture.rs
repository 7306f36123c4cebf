//! The crates may depend on each other and on others only as the design draws it, and files stay of a
//! size one can read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What one crate may depend on.
struct Rule {
    name: &'static str,
    /// Crates of the workspace.
    ours: &'static [&'static str],
    /// Dependencies from outside the workspace.
    others: Others,
}

enum Others {
    /// Only these.
    Only(&'static [&'static str]),
    /// Any but these.
    AnyBut(&'static [&'static str]),
}

const PURE_DATA: &[&str] = &["fixedbitset", "foldhash", "rustc-hash", "smallvec"];
const SERDE: &[&str] =
    &["rustc-hash", "serde", "serde_json", "serde_path_to_error", "serde_yaml_ng", "thiserror"];
const API: &[&str] =
    &["k8s-openapi", "kube", "kube-derive", "schemars", "serde", "serde_json", "thiserror"];
/// Types of the API, their decoding, the expressions in them and message authentication codes, nothing that talks to it.
const TRANSLATION: &[&str] = &[
    "cel",
    "k8s-openapi",
    "ring",
    "semver",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "thiserror",
];
/// Settings are read, not fetched.
const SETTINGS: &[&str] = &["serde", "serde-saphyr", "serde_json", "thiserror"];
const CLIENTS: &[&str] = &["kube", "kube-client", "kube-runtime", "k8s-openapi"];

const RULES: &[Rule] = &[
    Rule { name: "kai-core", ours: &[], others: Others::Only(PURE_DATA) },
    Rule { name: "kai-api", ours: &[], others: Others::Only(API) },
    Rule { name: "kai-workloads", ours: &["kai-api"], others: Others::Only(API) },
    Rule {
        name: "kai-sim",
        ours: &["kai-core", "kai-workloads", "kai-api"],
        others: Others::Only(SERDE),
    },
    Rule {
        name: "kai-translate",
        ours: &["kai-core", "kai-workloads", "kai-api"],
        others: Others::Only(TRANSLATION),
    },
    Rule {
        name: "kai-client",
        ours: &["kai-core", "kai-api", "kai-translate"],
        others: Others::AnyBut(&[]),
    },
    Rule {
        name: "kai-serve",
        ours: &["kai-client", "kai-core", "kai-translate"],
        others: Others::AnyBut(CLIENTS),
    },
    Rule {
        name: "kai-settings",
        ours: &["kai-core", "kai-workloads", "kai-api", "kai-translate", "kai-client"],
        others: Others::Only(SETTINGS),
    },
    Rule {
        name: "kai-admission",
        ours: &["kai-core", "kai-api", "kai-translate", "kai-client", "kai-serve", "kai-settings"],
        others: Others::AnyBut(&[]),
    },
    Rule {
        name: "kai-binder",
        ours: &["kai-core", "kai-api", "kai-translate", "kai-client", "kai-serve", "kai-settings"],
        others: Others::AnyBut(&[]),
    },
    Rule {
        name: "kai-install",
        ours: &["kai-api", "kai-admission", "kai-settings"],
        others: Others::AnyBut(CLIENTS),
    },
    Rule {
        name: "kai-control",
        ours: &[
            "kai-core",
            "kai-workloads",
            "kai-api",
            "kai-translate",
            "kai-client",
            "kai-serve",
            "kai-settings",
            "kai-binder",
        ],
        others: Others::AnyBut(&[]),
    },
    Rule {
        name: "kai-node",
        ours: &["kai-core", "kai-api", "kai-translate", "kai-client", "kai-guard"],
        others: Others::AnyBut(&[]),
    },
    Rule { name: "kai-doctor", ours: &["kai-api", "kai-translate"], others: Others::Only(SERDE) },
    Rule { name: "kai-guard", ours: &[], others: Others::Only(&[]) },
    Rule { name: "kai-guard-preload", ours: &["kai-guard"], others: Others::Only(&["libc"]) },
    Rule {
        name: "kai-embed",
        ours: &["kai-api", "kai-node"],
        others: Others::AnyBut(&["kube-client"]),
    },
    Rule { name: "kai-web", ours: &[], others: Others::AnyBut(CLIENTS) },
    Rule {
        name: "kai",
        ours: &[
            "kai-core",
            "kai-api",
            "kai-workloads",
            "kai-sim",
            "kai-translate",
            "kai-client",
            "kai-settings",
            "kai-admission",
            "kai-binder",
            "kai-install",
            "kai-control",
            "kai-node",
            "kai-image",
            "kai-doctor",
            "kai-embed",
            "kai-guard",
            "kai-web",
            "kai-bench",
        ],
        others: Others::AnyBut(&[]),
    },
    Rule { name: "kai-bench", ours: &["kai-testenv"], others: Others::AnyBut(&[]) },
    Rule { name: "kai-e2e", ours: &["kai-testenv"], others: Others::AnyBut(&[]) },
    Rule { name: "kai-image", ours: &[], others: Others::AnyBut(CLIENTS) },
    Rule { name: "kai-testenv", ours: &["kai-api", "kai-image"], others: Others::AnyBut(&[]) },
    Rule { name: "xtask", ours: &["kai-image"], others: Others::AnyBut(CLIENTS) },
];

/// The core's tests may use a generator of random worlds, and nothing else.
const CORE_DEV: &[&str] = &["proptest"];

const LONGEST_FILE: usize = 700;

#[test]
fn dependencies_are_those_of_the_design() {
    let mut forbidden = Vec::new();
    for package in metadata()["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            forbidden.push(format!("{name} has no rule; give it one"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            let kind = dependency["kind"].as_str();
            if !allowed(rule, on, kind) {
                forbidden.push(format!("{name} depends on {on} ({})", kind.unwrap_or("normal")));
            }
        }
    }
    assert_eq!(forbidden, Vec::<String>::new());
}

fn allowed(rule: &Rule, on: &str, kind: Option<&str>) -> bool {
    if kind == Some("dev") {
        return rule.name != "kai-core" || CORE_DEV.contains(&on);
    }
    let is_ours = RULES.iter().any(|rule| rule.name == on);
    match rule.others {
        _ if is_ours => rule.ours.contains(&on),
        Others::Only(few) => few.contains(&on),
        Others::AnyBut(few) => !few.contains(&on),
    }
}

#[test]
fn the_rules_forbid_what_they_should() {
    let rule = |name: &str| RULES.iter().find(|rule| rule.name == name).expect("a rule");
    assert!(!allowed(rule("kai-core"), "serde", None));
    assert!(!allowed(rule("kai-core"), "kai-sim", None));
    assert!(!allowed(rule("kai-core"), "rand", Some("dev")));
    assert!(allowed(rule("kai-core"), "smallvec", None));
    assert!(!allowed(rule("kai-sim"), "tokio", None));
    assert!(!allowed(rule("kai-web"), "kube", None));
    assert!(!allowed(rule("kai-control"), "kai-sim", None));
    assert!(allowed(rule("kai-control"), "tokio", None));
    assert!(!allowed(rule("kai-translate"), "kube", None));
    assert!(!allowed(rule("kai-translate"), "tokio", None));
    assert!(!allowed(rule("kai-embed"), "kai-control", None));
    assert!(!allowed(rule("kai-embed"), "kai-core", None));
    assert!(!allowed(rule("kai-control"), "kai-testenv", None));
    assert!(allowed(rule("kai-control"), "kai-testenv", Some("dev")));
    assert!(!allowed(rule("kai-binder"), "kai-control", None));
    assert!(!allowed(rule("kai-admission"), "kai-binder", None));
    assert!(!allowed(rule("kai-settings"), "kube", None));
}

#[test]
fn no_source_file_is_too_long_to_read() {
    let root = workspace_root();
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        rust_files(&root.join(folder), &mut files);
    }
    assert!(files.len() > 10, "no sources found");
    let length = |file: &Path| fs::read_to_string(file).expect("a readable file").lines().count();
    let long: Vec<_> = files
        .iter()
        .map(|file| (file, length(file)))
        .filter(|(_, lines)| *lines > LONGEST_FILE)
        .collect();
    assert!(long.is_empty(), "over {LONGEST_FILE} lines: {long:?}");
}

/// Modules that a crate's root names, with or without a folder of their own.
fn top_level_modules(krate: &Path) -> Vec<String> {
    let root = ["src/lib.rs", "src/main.rs"].map(|file| krate.join(file));
    let root = root.iter().find(|file| file.exists()).expect("a crate has a root");
    let text = fs::read_to_string(root).expect("a readable file");
    let module = |line: &str| {
        let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    };
    text.lines().filter_map(module).filter(|name| name != "tests").collect()
}

/// The part of ARCHITECTURE.md about a crate.
fn section<'a>(map: &'a str, krate: &str) -> Option<&'a str> {
    let from = map.split_once(&format!("### `{krate}`"))?.1;
    let end = ["\n### ", "\n## "].iter().filter_map(|next| from.find(next)).min();
    Some(&from[..end.unwrap_or(from.len())])
}

/// A module is on the map where its name stands alone between backticks, or in a list within braces.
fn names(section: &str, module: &str) -> bool {
    let quoted = section.split('`').skip(1).step_by(2);
    let mut words =
        quoted.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_')));
    words.any(|word| word == module)
}

#[test]
fn architecture_names_every_crate_and_top_level_module() {
    let root = workspace_root();
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for entry in fs::read_dir(root.join("crates")).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if !path.join("Cargo.toml").exists() {
            continue;
        }
        let name = format!("crates/{}", path.file_name().expect("a name").to_string_lossy());
        let Some(section) = section(&map, &name) else {
            missing.push(name);
            continue;
        };
        let modules = top_level_modules(&path);
        let unnamed = modules.iter().filter(|module| !names(section, module));
        missing.extend(unnamed.map(|module| format!("{name}: {module}")));
    }
    missing.sort();
    assert_eq!(missing, Vec::<String>::new(), "not in the code map of ARCHITECTURE.md");
}

#[test]
fn a_module_that_is_only_part_of_a_word_is_missing() {
    let map = "## Code map\n\n### `crates/a`\n\n`grouper::rules`, `status`\n\n### `crates/b`\n\n`watch`\n";
    let a = section(map, "crates/a").expect("a section");
    assert!(names(a, "grouper") && names(a, "status"));
    assert!(!names(a, "group") && !names(a, "watch"));
    assert!(section(map, "crates/c").is_none());
}

/// Each field of the planner is a part with state and tests of its own.
const MOST_PLANNER_FIELDS: usize = 12;

#[test]
fn planner_is_a_coordinator_of_few_parts() {
    let file = workspace_root().join("crates/kai-control/src/planner/mod.rs");
    let source = fs::read_to_string(file).expect("the planner");
    let fields = source.split_once("pub struct Planner {\n").expect("the planner").1;
    let fields = fields.split_once("\n}").expect("its end").0.lines();
    let fields: Vec<&str> = fields.filter(|line| !line.trim().starts_with("//")).collect();
    assert!(!fields.is_empty() && fields.len() <= MOST_PLANNER_FIELDS, "{fields:#?}");
}

/// Steps of the walks: a file below `crates/`, and a function in it.
fn steps(map: &str) -> Vec<(&str, &str)> {
    let walks = map.split_once("\n## Walks\n").map_or("", |(_, walks)| walks);
    let walks = walks.split("\n## ").next().unwrap_or_default();
    let quoted = walks.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains(".rs")).filter_map(|text| text.split_once("::")).collect()
}

/// Whether the text of a source file defines a function of this name.
fn defines(source: &str, function: &str) -> bool {
    let definition = format!("fn {function}");
    let mut definitions = source.match_indices(&definition).map(|(at, text)| {
        let (before, after) = (&source[..at], &source[at + text.len()..]);
        (before.chars().next_back(), after.chars().next())
    });
    definitions.any(|(before, after)| {
        before.is_none_or(char::is_whitespace) && matches!(after, Some('(' | '<'))
    })
}

#[test]
fn walks_name_files_and_functions_that_exist() {
    let root = workspace_root();
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let steps = steps(&map);
    assert!(steps.len() > 30, "the three walks have more steps than {}", steps.len());
    let is_missing = |(file, function): &&(&str, &str)| {
        let source = fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        !defines(&source, function)
    };
    let missing: Vec<_> = steps.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "in walks of ARCHITECTURE.md, but not in the code: {missing:?}");
}

#[test]
fn steps_and_functions_are_read_whole() {
    let map =
        "`a/b.rs::c`\n## Walks\n\n1. `a/src/b.rs::run`, `Order::Bind`\n\n## Next\n`a/d.rs::e`\n";
    assert_eq!(steps(map), [("a/src/b.rs", "run")]);
    assert!(defines("pub fn run<T>(", "run") && defines("fn run(", "run"));
    assert!(!defines("fn run_all(", "run") && !defines("", "run"));
}

fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&here).parent().expect("xtask is in the workspace").to_path_buf()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(workspace_root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
