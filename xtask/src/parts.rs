//! The parts of the test run, and when each of them runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::lanes::{self, Lane, Part, Priority};
use crate::process::{cargo, show};
use crate::tally::Tally;
use crate::{guard, instructions, licences, scenarios, test_runs};

const FORMAT: Part =
    Part { name: "format", run: |root| one(root, cargo_with(&["fmt", "--all", "--check"], &[])) };
const CLIPPY: Part = Part { name: "clippy", run: |root| one(root, clippy()) };
const DOC_TESTS: Part = Part { name: "doc tests", run: test_runs::doc_tests };

/// What the other parts need: test programs, and the library that some of them test.
const PREPARATION: Lane = Lane {
    parts: &[
        FORMAT,
        Part { name: "dependencies", run: licences::check },
        Part { name: "guard library", run: guard::prepare },
        Part { name: "test programs", run: |root| one(root, test_runs::build()) },
    ],
    priority: Priority::Usual,
};

const API_SERVERS: Lane = Lane {
    parts: &[Part { name: "tests with API servers", run: test_runs::with_api_servers }],
    priority: Priority::Usual,
};

/// Cargo has one lock for the folder of its outputs: the longest part starts while no other compiles.
const NODES: Lane = Lane {
    parts: &[
        Part { name: "tests with nodes", run: test_runs::with_nodes },
        Part { name: "tests of the program", run: test_runs::of_program },
    ],
    priority: Priority::Usual,
};

/// What needs a core from its beginning to its end.
const CORES: Lane = Lane {
    parts: &[
        Part { name: "tests of libraries", run: test_runs::of_libraries },
        CLIPPY,
        DOC_TESTS,
        Part { name: "docs", run: |root| one(root, docs()) },
        Part { name: "optimised build", run: |root| one(root, optimised_build()) },
        Part { name: "examples", run: scenarios::examples },
        Part { name: "own scenarios as KAI", run: scenarios::own_as_kai },
        Part { name: "own scenarios", run: scenarios::own_by_default },
        Part { name: "recorded scenarios as KAI", run: scenarios::recorded_as_kai },
        Part { name: "recorded scenarios", run: scenarios::recorded_by_default },
        Part { name: "instruction counts", run: instructions::gate },
        Part { name: "properties, other seeds", run: test_runs::other_seeds },
        Part { name: "properties, fresh seed", run: test_runs::fresh_seed },
    ],
    priority: Priority::Low,
};

/// Without API servers, kubelets and optimised builds.
const QUICK: Lane = Lane {
    parts: &[
        FORMAT,
        CLIPPY,
        Part { name: "tests without servers", run: test_runs::quick },
        DOC_TESTS,
    ],
    priority: Priority::Usual,
};

const ALL: [&[Lane]; 2] = [&[PREPARATION], &[API_SERVERS, NODES, CORES]];

/// Runs every part, whatever the others do. True when all went well.
pub(crate) fn run_all() -> anyhow::Result<bool> {
    lanes::run(&workspace_root()?, &ALL)
}

/// Runs the parts that need no server.
pub(crate) fn run_quick() -> anyhow::Result<bool> {
    lanes::run(&workspace_root()?, &[&[QUICK]])
}

/// Runs the part of this name alone.
pub(crate) fn run_one(name: &str) -> anyhow::Result<bool> {
    let lanes = ALL.into_iter().flatten().chain(&[QUICK]);
    let parts: Vec<&Part> = lanes.flat_map(|lane| lane.parts).collect();
    let names = || parts.iter().map(|part| part.name).collect::<Vec<_>>().join("\n  ");
    let part = parts.iter().find(|part| part.name == name);
    let part = part.with_context(|| format!("no part is called {name:?}:\n  {}", names()))?;
    lanes::run_part(&workspace_root()?, part)
}

/// Runs KAI's end-to-end list on the control plane of another minor version of Kubernetes. Apart from the other runs: the
/// first time, API server and controllers are built, which takes minutes.
pub(crate) fn run_on_kubernetes(minor: &str) -> anyhow::Result<bool> {
    let started = Instant::now();
    let tally = test_runs::list_on_kubernetes(&workspace_root()?, minor)?;
    println!("\nKubernetes {minor}: {:.1} s   {tally}", started.elapsed().as_secs_f64());
    Ok(tally.failed == 0)
}

pub(crate) fn workspace_root() -> anyhow::Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = manifest.as_deref().and_then(Path::parent);
    root.map(Path::to_path_buf).context("run this with `cargo xtask`")
}

pub(crate) fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = cargo();
    command.args(arguments).envs(variables.iter().copied());
    command
}

/// A command that is one check.
fn one(root: &Path, command: Command) -> anyhow::Result<Tally> {
    show(command, root, |_| {}).map(Tally::of_one)
}

fn clippy() -> Command {
    cargo_with(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn docs() -> Command {
    cargo_with(&["doc", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

fn optimised_build() -> Command {
    cargo_with(&["build", "--locked", "--release"], &[])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_parts_differ() {
        let parts = ALL.into_iter().flatten().flat_map(|lane| lane.parts);
        let names: Vec<&str> = parts.map(|part| part.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
}
