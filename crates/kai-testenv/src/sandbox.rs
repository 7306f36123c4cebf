//! Namespaces around everything that a test with real nodes starts: fixed ports cannot clash, no packet gets out, and all of it
//! ends with the test process, however that ends. Nothing of the machine is changed.
//!
//! A test enters by starting its own program once more inside, for that one test: [`enter`].

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use anyhow::Context;

use crate::binaries::{Binaries, Build};

/// Set inside: number of this sandbox, unique on the machine.
const INSIDE: &str = "KAI_SANDBOX";

/// Two at once only wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Packages of the distribution, and a file of each.
const PACKAGES: [(&str, &str); 4] = [
    ("containerd", "/usr/bin/containerd"),
    ("runc", "/usr/sbin/runc"),
    ("containernetworking-plugins", "/usr/lib/cni/bridge"),
    ("busybox-static", "/bin/busybox"),
];

/// Starts the program after this and holds it; it is killed when standard input closes, which the system does when the test
/// process dies. What is left on the machine then are a folder and empty control groups.
const KEEPER: &str = r#"exec 3<&0
setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
  sh -c 'ip link set lo up && ip addr add 10.0.0.1/32 dev lo && "$@"' sandbox "$@" </dev/null 3<&- &
sandbox=$!
trap '' PIPE # the reader of the output may be gone
(cat; kill -9 $sandbox) <&3 >/dev/null 2>&1 3<&- &
wait $sandbox
ended=$?
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=$(find /sys/fs/cgroup/*/kai-$KAI_SANDBOX-* -maxdepth 0 2>/dev/null)
  [ -z "$left" ] && break
  find $left -depth -type d -exec rmdir {} \; 2>/dev/null
  sleep 0.1
done
rm -rf "$TMPDIR"
exit $ended"#;

/// What became of entering.
#[derive(Debug)]
pub enum Entered {
    /// We are inside: go on.
    Inside,
    /// The test ran inside, and this is what came of it.
    Ran(Output),
    /// There can be no sandbox here; the text says why.
    Impossible(String),
}

/// Runs one test of this test program inside a sandbox, unless we are there already.
pub fn enter(test: &str) -> anyhow::Result<Entered> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(Entered::Inside);
    }
    // A test that failed while it keeper_stdin this says so itself.
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Err(why) = preflight() {
        return Ok(Entered::Impossible(why));
    }
    if let Build::Impossible(why) = Binaries::with_nodes()? {
        return Ok(Entered::Impossible(why));
    }
    let number = std::process::id();
    let folder = std::env::temp_dir().join(format!("kai-{number}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let program = std::env::current_exe().context("cannot find the test program")?;
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper"])
        .arg(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(INSIDE, number.to_string())
        .env("TMPDIR", &folder)
        .env("RUST_BACKTRACE", "0")
        .process_group(0) // it cleans up, even if all other processes are killed at once
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a shell")?;
    let keeper_stdin = keeper.stdin.take();
    let output = keeper.wait_with_output().context("cannot wait for the sandbox")?;
    drop(keeper_stdin);
    Ok(Entered::Ran(output))
}

/// Says loudly that a test was skipped, past the test harness, which would swallow it.
pub fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: no real node: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The number of this sandbox.
pub(crate) fn number() -> anyhow::Result<String> {
    std::env::var(INSIDE).context("real nodes are started inside a sandbox only")
}

/// What a node does to the machine that not every machine lets happen.
const TRIAL: &str = "mount -t tmpfs none /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m \
    && mount -t overlay none -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m \
    && ip link add trial type bridge && ip link add one type veth peer name two";

/// Whether this machine can do it; packages that are missing are installed.
fn preflight() -> Result<(), String> {
    if !says("id", &["-u"], "0") {
        return Err("it takes root".to_owned());
    }
    if !Path::new("/sys/fs/cgroup/memory/tasks").exists() {
        return Err("no control groups of version 1 under /sys/fs/cgroup".to_owned());
    }
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(package, _)| *package)
        .collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    let trial = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private"])
        .args(["sh", "-c", TRIAL])
        .output()
        .map_err(|error| format!("unshare cannot be started: {error}"))?;
    if trial.status.success() {
        Ok(())
    } else {
        let output = String::from_utf8_lossy(&trial.stderr);
        Err(format!("no namespaces, overlay, bridge or veth here: {}", output.trim()))
    }
}

fn says(program: &str, arguments: &[&str], answer: &str) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == answer)
}

fn install(packages: &[&str]) -> Result<(), String> {
    eprintln!("installing {}", packages.join(", "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.output().is_ok_and(|ended| ended.status.success())
    };
    let all = [&["install", "-qy", "--no-install-recommends"], packages].concat();
    if apt(&["update", "-q"]) && apt(&all) {
        Ok(())
    } else {
        Err(format!("{} cannot be installed", packages.join(", ")))
    }
}
