//! Runs the parts of a test run in stages. The lanes of a stage run at once, the parts of a lane one after the other: while tests
//! wait for API servers and kubelets, the cores are free to compile.
//!
//! Each part is a process of this program, `cargo xtask test --part NAME`. So the output of parts that run at once does not mix, and
//! parts that only compute can have a lower priority.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::Context;

use crate::tally::Tally;

/// Parts that run one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) parts: &'static [Part],
    pub(crate) priority: Priority,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    Usual,
    /// Has the cores while no other lane needs them: a test with a deadline must not wait behind a compiler.
    Low,
}

impl Priority {
    /// The command with this priority.
    pub(crate) fn of(self, command: Command) -> Command {
        match self {
            Self::Usual => command,
            Self::Low => {
                let mut nice = Command::new("nice");
                nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
                for (name, value) in command.get_envs() {
                    match value {
                        Some(value) => nice.env(name, value),
                        None => nice.env_remove(name),
                    };
                }
                nice
            }
        }
    }
}

/// One part: its name, and the function that runs and counts its checks.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Path) -> anyhow::Result<Tally>,
}

/// How a part ended.
struct Ended {
    name: &'static str,
    seconds: f64,
    tally: Tally,
}

/// Runs every part, whatever the others do, and prints a table. True when all went well.
pub(crate) fn run(root: &Path, stages: &[&[Lane]]) -> anyhow::Result<bool> {
    let folder = folder(root);
    fs::create_dir_all(&folder).context("cannot create the folder of the parts' output")?;
    // Asked now: a part may build this program again, which removes the file that runs.
    let program = std::env::current_exe().context("cannot find this program")?;
    let runner = Runner { program, folder };
    let begin = Instant::now();
    let mut ended = Vec::new();
    for lanes in stages {
        let is_alone = lanes.len() == 1;
        let run_lane = |lane: &Lane| {
            let parts = lane.parts.iter();
            parts.map(|part| runner.run(part, lane.priority, is_alone)).collect::<Vec<_>>()
        };
        let of_stage: Vec<Vec<Ended>> = thread::scope(|scope| {
            let started: Vec<_> =
                lanes.iter().map(|lane| scope.spawn(move || run_lane(lane))).collect();
            started.into_iter().map(|lane| lane.join().unwrap_or_default()).collect()
        });
        ended.extend(of_stage.into_iter().flatten());
    }
    print_summary(&ended, begin.elapsed().as_secs_f64());
    let expected: usize = stages.iter().copied().flatten().map(|lane| lane.parts.len()).sum();
    Ok(ended.len() == expected && ended.iter().all(|part| part.tally.failed == 0))
}

fn print_summary(ended: &[Ended], seconds: f64) {
    let mut total = Tally::default();
    println!();
    for Ended { name, seconds, tally } in ended {
        println!("{name:<28}{seconds:>8.1} s   {tally}");
        total += tally.clone();
    }
    for notice in &total.notices {
        println!("{notice}");
    }
    println!("\n{:<28}{seconds:>8.1} s\n{total}", "all");
}

/// Runs one part in this process and leaves its tally for the process that started it.
pub(crate) fn run_part(root: &Path, part: &Part) -> anyhow::Result<bool> {
    println!("\n== {} ==", part.name);
    let tally = (part.run)(root).unwrap_or_else(|error| {
        println!("{error:#}");
        Tally::of_one(false)
    });
    println!("{tally}");
    for notice in &tally.notices {
        println!("{notice}");
    }
    let folder = folder(root);
    fs::create_dir_all(&folder)?;
    fs::write(file(&folder, part, "json"), serde_json::to_vec(&tally)?)?;
    Ok(tally.failed == 0)
}

/// Runs parts as processes.
struct Runner {
    /// This program.
    program: PathBuf,
    /// Where output and tallies are kept.
    folder: PathBuf,
}

impl Runner {
    fn run(&self, part: &Part, priority: Priority, is_alone: bool) -> Ended {
        let begin = Instant::now();
        let tally = self.start_and_wait(part, priority, is_alone).unwrap_or_else(|error| {
            println!("{}: {error:#}", part.name);
            Tally::of_one(false)
        });
        Ended { name: part.name, seconds: begin.elapsed().as_secs_f64(), tally }
    }

    /// The output is shown at once where the lane is alone, otherwise as a whole when the part ends.
    fn start_and_wait(
        &self,
        part: &Part,
        priority: Priority,
        is_alone: bool,
    ) -> anyhow::Result<Tally> {
        let (log, tally) = (file(&self.folder, part, "log"), file(&self.folder, part, "json"));
        // A tally of an earlier run must not count for a part that ends early.
        if let Err(error) = fs::remove_file(&tally)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error).context("cannot remove the tally of an earlier run");
        }
        let mut command = self.process(part, priority);
        if is_alone {
            command.status()?;
        } else {
            println!("started: {}", part.name);
            let output = File::create(&log)?;
            command.stdout(output.try_clone()?).stderr(output).status()?;
            io::stdout().lock().write_all(&fs::read(&log)?)?;
        }
        let bytes = fs::read(&tally).context("the part ended early")?;
        serde_json::from_slice(&bytes).context("the part left no tally")
    }

    fn process(&self, part: &Part, priority: Priority) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["test", "--part", part.name]);
        priority.of(command)
    }
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/test-parts")
}

fn file(folder: &Path, part: &Part, ending: &str) -> PathBuf {
    let name: String =
        part.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    folder.join(format!("{name}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { name: "a part", run: |_| Ok(Tally::default()) };

    /// How a part ends whose process is this program, where an earlier run left a tally.
    fn ended(test: &str, program: &str) -> Ended {
        let folder = std::env::temp_dir().join(format!("kai-lanes-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let earlier = serde_json::to_vec(&Tally::of_one(true)).expect("JSON");
        fs::write(file(&folder, &PART, "json"), earlier).expect("a tally");
        let runner = Runner { program: program.into(), folder: folder.clone() };
        let ended = runner.run(&PART, Priority::Low, false);
        fs::remove_dir_all(&folder).expect("removed");
        ended
    }

    #[test]
    fn part_that_leaves_no_tally_has_failed() {
        assert_eq!(ended("silent", "true").tally, Tally::of_one(false));
        assert_eq!(ended("absent", "/nonexistent/program").tally, Tally::of_one(false));
    }
}
