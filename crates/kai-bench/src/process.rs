//! CPU time and resident memory of a process, as Linux reports them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Clock ticks per second in `/proc`: fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);

/// A process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pid(pub(crate) u32);

impl Pid {
    /// The process whose command line contains all of these.
    pub(crate) fn find(parts: &[&str]) -> Option<Self> {
        let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // The shell that keeps the process has the same words.
            !line.starts_with("sh ") && parts.iter().all(|part| line.contains(part))
        })
        .map(Self)
    }

    /// Seconds of CPU time since it began.
    pub(crate) fn cpu_s(self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        cpu_s(&stat).unwrap_or_default()
    }

    /// Resident memory of the process in MiB.
    pub(crate) fn rss_mib(self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    }
}

/// The command may contain anything, so fields count from its closing parenthesis.
fn cpu_s(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// Load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

/// A scheduler under test; it is killed when this is dropped.
pub(crate) struct Scheduler {
    child: Child,
}

impl Scheduler {
    pub(crate) fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Self> {
        let file =
            fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child })
    }

    /// Starts `kai run` without its servers.
    pub(crate) fn start_kai(
        kai: &Path,
        kubeconfig: &str,
        more: &[&str],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let arguments = [
            "run",
            "--kubeconfig",
            kubeconfig,
            "--listen-address=0",
            "--health-probe-bind-address=0",
            "--plugin-server-port=0",
        ];
        let arguments: Vec<String> =
            arguments.iter().chain(more).map(|argument| (*argument).to_owned()).collect();
        Self::start(kai, &arguments, log)
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait().context("cannot ask for the state of the process")?.is_some())
    }

    /// Sends SIGTERM and waits for the end; how long it took.
    pub(crate) async fn terminate(mut self) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        Command::new("kill").arg(self.child.id().to_string()).status().context("cannot signal")?;
        while self.child.try_wait()?.is_none() {
            ensure!(begin.elapsed() < PATIENCE, "it does not end after SIGTERM");
            tokio::time::sleep(POLL).await;
        }
        Ok(begin.elapsed())
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_and_system_time_whatever_the_command_is_called() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 1 2 3";
        assert_eq!(cpu_s(stat), Some(3.0));
        assert_eq!(cpu_s("nothing"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Pid(std::process::id()).rss_mib() > 0.5);
    }
}
