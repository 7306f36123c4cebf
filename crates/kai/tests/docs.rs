//! Runs the shell blocks of `docs/` on an embedded cluster and compares what they print with the documents.
//!
//! A page that starts with `<!-- run: kai up ARGUMENTS -->` is run: its `sh` blocks in order, each in a new shell at the
//! root of the repository, with `kai` and `kubectl` on the path. The `text` block that follows a shell block is the
//! expected output: its lines must be printed in this order, white space aside, and `…` stands for anything. Marks in front
//! of a block: `<!-- not run: REASON -->` and `<!-- fails -->` for a command that must fail.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kai_testenv::{Binaries, Build};

/// How long a command that only reads is repeated until it prints what the document shows.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
/// Pages mostly wait for the pods of their clusters.
const PAGES_AT_ONCE: usize = 4;
const RUN: &str = "<!-- run: kai up";
const NOT_RUN: &str = "<!-- not run: ";
const FAILS: &str = "<!-- fails -->";
/// Pages outside `docs/` that show commands.
const OTHER_PAGES: [&str; 3] = ["README.md", "CONTRIBUTING.md", "deploy/chart/README.md"];

#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Line of the opening fence, from 1.
    line: usize,
    script: String,
    expected: Option<String>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Succeeds,
    Fails,
    NotRun,
}

/// The shell blocks of a page, each with the output block behind it.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut fate = Fate::Succeeds;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "```")
                .collect();
            let body = body.join("\n");
            match language {
                "sh" => found.push(Block { line: number + 1, script: body, expected: None, fate }),
                "text" => {
                    if let Some(last) = found.last_mut().filter(|last| last.expected.is_none()) {
                        last.expected = Some(body);
                    }
                }
                _ => {}
            }
            fate = Fate::Succeeds;
        } else if line == FAILS {
            fate = Fate::Fails;
        } else if line.starts_with(NOT_RUN) {
            fate = Fate::NotRun;
        }
    }
    found
}

/// The first expected line that is missing.
fn missing<'a>(expected: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    let lines = expected.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…");
    lines.into_iter().find(|wanted| !printed.by_ref().any(|line| matches(wanted, line)))
}

/// A line, word by word; `…` stands for any number of words or of characters.
fn matches(wanted: &str, line: &str) -> bool {
    let fold = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (wanted, line) = (fold(wanted), fold(line));
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (place, part) in parts.iter().enumerate() {
        if place + 1 == parts.len() {
            return rest.ends_with(part.trim_start()) || part.is_empty();
        }
        match rest.find(part.trim()) {
            Some(start) => rest = &rest[start + part.trim().len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// An embedded cluster that ends with the page.
struct Page {
    kai: Child,
    folder: PathBuf,
    path: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.kai.kill();
        let _ = self.kai.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Page {
    fn start(name: &str, arguments: &str, kubectl: &Path) -> Self {
        let folder = std::env::temp_dir().join(format!("kai-docs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let kubeconfig = folder.join("kubeconfig");
        let binary = Path::new(env!("CARGO_BIN_EXE_kai"));
        let kai = Command::new(binary)
            .arg("up")
            .args(arguments.split_whitespace())
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .current_dir(root())
            .stdout(Stdio::null())
            .spawn()
            .expect("kai starts");
        let parent = |path: &Path| path.parent().expect("a folder").display().to_string();
        let inherited = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{inherited}", parent(binary), parent(kubectl));
        let page = Self { kai, folder, path };
        let begin = Instant::now();
        while !kubeconfig.exists() {
            assert!(begin.elapsed() < PATIENCE, "kai up wrote no kubeconfig");
            pause();
        }
        page
    }

    /// Success, and everything that was printed.
    fn shell(&self, script: &str) -> (bool, String) {
        let merged = format!("exec 2>&1\nset -euo pipefail\n{script}");
        let output = Command::new("bash")
            .args(["-c", &merged])
            .current_dir(root())
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("HOME", &self.folder)
            .output()
            .expect("bash starts");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What is wrong with a block, if anything.
    fn play(&self, block: &Block) -> Option<String> {
        let begin = Instant::now();
        loop {
            let (succeeded, printed) = self.shell(&block.script);
            let as_said = succeeded == (block.fate == Fate::Succeeds);
            let missing = block.expected.as_deref().and_then(|wanted| missing(wanted, &printed));
            if as_said && missing.is_none() {
                return None;
            }
            if !only_reads(&block.script) || begin.elapsed() > PATIENCE {
                let outcome = if succeeded { "succeeded" } else { "failed" };
                let missing = missing.map(|line| format!("; missing line: {line}"));
                return Some(format!("{outcome}{}\n{printed}", missing.unwrap_or_default()));
            }
            pause();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a real process is waited for")]
fn pause() {
    std::thread::sleep(POLL);
}

/// Every command of the script may be repeated without effect.
fn only_reads(script: &str) -> bool {
    const READERS: [&str; 6] = [
        "kubectl get ",
        "kubectl describe ",
        "kubectl logs ",
        "kai explain ",
        "kai gpus",
        "kai doctor",
    ];
    let commands = script.lines().filter(|line| !line.starts_with([' ', '#']));
    commands.into_iter().all(|line| READERS.iter().any(|reader| line.starts_with(reader)))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Markdown file below a folder, in order.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            found.extend(pages(&entry));
        } else if entry.extension().is_some_and(|ending| ending == "md") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

/// First words of commands.
const COMMANDS: [&str; 10] =
    ["bash", "cargo", "ctr", "curl", "helm", "k3s", "kai", "kubectl", "oc", "sudo"];

/// Lines of blocks that are not marked `sh` and start with a command: no rule would cover them.
fn unmarked_commands(page: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim().strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let first_word = body.iter().find_map(|line| line.split_whitespace().next());
        let is_command = first_word.is_some_and(|word| COMMANDS.contains(&word));
        if matches!(language, "bash" | "shell" | "console") || (language.is_empty() && is_command) {
            found.push(number + 1);
        }
    }
    found
}

#[test]
fn every_block_of_commands_is_marked_as_shell() {
    let mut unmarked = String::new();
    let other_pages = OTHER_PAGES.map(|page| root().join(page));
    for page in pages(&root().join("docs")).into_iter().chain(other_pages) {
        let text = std::fs::read_to_string(&page).expect("a page");
        for line in unmarked_commands(&text) {
            writeln!(unmarked, "{}:{line}", page.display()).expect("a string");
        }
    }
    assert!(unmarked.is_empty(), "commands in a block without `sh`:\n{unmarked}");
}

#[test]
fn commands_in_a_plain_block_are_found() {
    assert_eq!(unmarked_commands("```\nkai bench core\n```\n\n```bash\nls\n```"), [1, 5]);
    assert!(unmarked_commands("```sh\nkai gpus\n```\n```\nnode  gpus\n```").is_empty());
}

#[test]
fn every_shell_block_is_run_or_says_why_not() {
    let mut silent = String::new();
    let other_pages = OTHER_PAGES.map(|page| root().join(page));
    for page in pages(&root().join("docs")).into_iter().chain(other_pages) {
        let text = std::fs::read_to_string(&page).expect("a page");
        if !text.contains(RUN) {
            for block in blocks(&text).iter().filter(|block| block.fate != Fate::NotRun) {
                writeln!(silent, "{}:{}", page.display(), block.line).expect("a string");
            }
        }
    }
    assert!(silent.is_empty(), "neither run nor marked `{NOT_RUN}REASON -->`:\n{silent}");
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = std::fs::read_to_string(docs.join("README.md")).expect("the index");
    for page in pages(&docs).iter().filter(|page| !page.ends_with("README.md")) {
        let link = page.strip_prefix(&docs).expect("below docs").display();
        assert!(index.contains(&format!("]({link})")), "docs/README.md does not link to {link}");
    }
}

#[test]
fn pages_print_what_they_show() {
    let binaries = match Binaries::ready().expect("a cache") {
        Build::Ready(binaries) => binaries,
        Build::Impossible(why) => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED pages_print_what_they_show: no kubectl: {why}"
            );
            return;
        }
    };
    let all = pages(&root().join("docs"));
    let next = AtomicUsize::new(0);
    let kubectl = binaries.path("kubectl");
    let play_pages = || {
        let mut faults = Vec::new();
        while let Some(path) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            faults.extend(page_fault(path, &kubectl));
        }
        faults
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..PAGES_AT_ONCE).map(|_| scope.spawn(play_pages)).collect();
        players.into_iter().flat_map(|player| player.join().expect("a player")).collect()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is wrong with the first block of a page that prints something else, if any does.
fn page_fault(path: &Path, kubectl: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a page");
    let arguments = text.lines().find_map(|line| line.strip_prefix(RUN))?;
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let page = Page::start(&name, arguments.trim_end_matches("-->"), kubectl);
    let blocks = blocks(&text);
    let mut run = blocks.iter().filter(|block| block.fate != Fate::NotRun);
    run.find_map(|block| {
        let fault = page.play(block)?;
        Some(format!("{}:{}: {fault}", path.display(), block.line))
    })
}

#[test]
fn dots_stand_for_anything() {
    assert!(matches("pod/a created", "pod/a   created"));
    assert!(matches("a … Running …", "a 1/1 Running 0 3s"));
    assert!(!matches("a … Running …", "a 1/1 Pending 0 3s"));
    assert!(!matches("a", "a b"));
    assert_eq!(missing("one\n…\nthree", "one\ntwo\nthree"), None);
    assert_eq!(missing("three\none", "one\ntwo\nthree"), Some("one"));
}
