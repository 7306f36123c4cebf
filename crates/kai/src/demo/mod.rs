//! `kai demo`: walk-throughs of the scheduler at work, on an embedded cluster.

mod page;
mod paint;
mod picture;
mod recording;
mod screen;
mod snapshot;
mod stage;
mod stories;

use std::path::PathBuf;

use anyhow::Context;

use clap::Args;

pub(crate) use paint::Paint;

use crate::output;
use screen::{Pace, Screen};
use stage::Stage;

const EXAMPLES: &str = "\
Examples:
  kai demo                 all walk-throughs, a step every second or so
  kai demo --only 3        one walk-through
  kai demo --step          continue with the Enter key
  kai demo | less          plain text, without pauses
  kai demo --html kai.html write an HTML page with pictures";

/// Which walk-throughs, and how fast.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArguments {
    /// Numbers of the walk-throughs to play [default: all].
    #[arg(long, value_delimiter = ',', value_name = "N")]
    only: Vec<usize>,

    /// Wait for the Enter key after every step.
    #[arg(long)]
    step: bool,

    /// Write the walk-throughs to this file as one self-contained HTML page instead of the terminal.
    #[arg(long, value_name = "FILE", conflicts_with = "step")]
    html: Option<PathBuf>,
}

/// Plays; the exit status.
pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<u8> {
    let stories = stories::all();
    for wanted in &arguments.only {
        if !(1..=stories.len()).contains(wanted) {
            anyhow::bail!("there is no walk-through {wanted}; there are 1 to {}", stories.len());
        }
    }
    let wanted = |number: usize| arguments.only.is_empty() || arguments.only.contains(&number);
    let stories = stories.iter().zip(1..).filter(|(_, number)| wanted(*number));
    let Some(path) = &arguments.html else {
        let screen = screen(arguments.step);
        for (story, number) in stories {
            Stage::play(number, story, Some(screen))?;
        }
        output::print(
            "No cluster and no GPU were used. Try your own manifests with `kai simulate -f FILE`.\n",
        )?;
        return Ok(0);
    };
    let mut recordings = Vec::new();
    for (story, number) in stories {
        if output::someone_watches() {
            output::complain(&format!("{number}. {}\n", story.title));
        }
        recordings.push(Stage::play(number, story, None)?);
    }
    std::fs::write(path, page::page(&recordings))
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::print(&format!("{} is written: open it in a browser.\n", path.display()))?;
    Ok(0)
}

fn screen(step: bool) -> Screen {
    let pace = match (step, output::is_terminal()) {
        (true, _) => Pace::ByKey,
        (false, true) => Pace::Timed,
        (false, false) => Pace::AtOnce,
    };
    Screen { paint: Paint { coloured: output::is_coloured() }, pace }
}
