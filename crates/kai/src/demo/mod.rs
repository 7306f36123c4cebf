//! `kai demo`: walk-throughs of the scheduler at work, on an embedded cluster.

mod paint;
mod snapshot;
mod stage;
mod stories;

use clap::Args;

pub(crate) use paint::{table, wrapped};

use crate::output;
use stage::{Pace, Stage};

const EXAMPLES: &str = "\
Examples:
  kai demo                 everything, a step every second or so
  kai demo --only 3        one walk-through
  kai demo --step          go on by the Enter key
  kai demo | less          plain text, without pauses";

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
}

/// Plays; the exit status.
pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<u8> {
    let stories = stories::all();
    for wanted in &arguments.only {
        if !(1..=stories.len()).contains(wanted) {
            anyhow::bail!("there is no walk-through {wanted}; there are 1 to {}", stories.len());
        }
    }
    let pace = match (arguments.step, output::is_terminal()) {
        (true, _) => Pace::ByKey,
        (false, true) => Pace::Timed,
        (false, false) => Pace::AtOnce,
    };
    for (at, story) in stories.iter().enumerate() {
        let number = at + 1;
        if arguments.only.is_empty() || arguments.only.contains(&number) {
            Stage::play(number, story, pace)?;
        }
    }
    output::print(
        "That was all of it: no cluster and no GPU were used. `kai simulate -f FILE` answers for your own manifests.\n",
    )?;
    Ok(0)
}
