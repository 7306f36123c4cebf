//! `kai demo`: walk-throughs of the scheduler at work, on an embedded cluster.

mod page;
mod paint;
mod picture;
mod screen;
mod snapshot;
mod stage;
mod stories;
mod telling;

use std::path::PathBuf;

use anyhow::Context;

use clap::Args;

pub(crate) use paint::{Paint, table, wrapped};

use crate::output;
use screen::{Pace, Screen};
use stage::Stage;

const EXAMPLES: &str = "\
Examples:
  kai demo                 everything, a step every second or so
  kai demo --only 3        one walk-through
  kai demo --step          go on by the Enter key
  kai demo | less          plain text, without pauses
  kai demo --html kai.html the same story as a page with pictures";

/// Which walk-throughs, and how fast.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArguments {
    /// Only these walk-throughs, by number.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    only: Vec<usize>,

    /// Wait for the Enter key after every step.
    #[arg(long)]
    step: bool,

    /// Write the story to this file instead, as one page with pictures that needs nothing else.
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
            "That was all of it: no cluster and no GPU were used. `kai simulate -f FILE` answers for your own manifests.\n",
        )?;
        return Ok(0);
    };
    let mut tellings = Vec::new();
    for (story, number) in stories {
        if output::someone_watches() {
            output::complain(&format!("{number}. {}\n", story.title));
        }
        tellings.push(Stage::play(number, story, None)?);
    }
    std::fs::write(path, page::page(&tellings))
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
