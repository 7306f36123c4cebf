//! KAI's scheduler flags on our command line, made from their table.

use std::path::Path;

use anyhow::Context;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use kai_settings::config_file;
use kai_settings::flags::{Applied, FLAGS, Flag, FlagError, Flagged, Meaning, apply};
use kai_settings::planner::Settings;
use kai_settings::usage::Environment;

/// The flag that names the part of the cluster; a process with it schedules that part only.
pub(crate) const PARTITION_FLAG: &str = "partition-label-value";

/// The flags that were given, in the order of the table.
#[derive(Clone, Default)]
pub(crate) struct SchedulerFlags {
    given: Vec<(&'static str, String)>,
}

impl SchedulerFlags {
    /// A flag was given.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The settings of the flags, and notices about flags without an effect.
    pub(crate) fn read(&self) -> Result<(Flagged, Vec<String>), FlagError> {
        let mut flagged = Flagged::default();
        let mut notices = Vec::new();
        for (name, value) in &self.given {
            if let Applied::Nothing(why) = apply(&mut flagged, name, value)? {
                notices.push(format!("--{name} has no meaning here: {why}"));
            }
        }
        Ok((flagged, notices))
    }
}

/// Takes over what KAI's configuration file says; what of it means nothing is logged.
pub(crate) fn apply_file(path: &Path, settings: &mut Settings) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let around = Environment { variable: &variable, prometheus: None };
    let notices = config_file::apply(&text, settings, &around);
    for notice in notices.map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))? {
        tracing::warn!("{}: {notice}", path.display());
    }
    Ok(())
}

fn argument(flag: &Flag) -> Arg {
    let help = match flag.default {
        "" => flag.help.to_owned(),
        default => format!("{} [default: {default}]", flag.help),
    };
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .help(help)
        .help_heading("Scheduler (KAI's flags)")
        .hide(matches!(flag.meaning, Meaning::Nothing(_)))
        .value_name("VALUE")
        .allow_hyphen_values(true);
    if flag.is_switch {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

/// The flags that pass `filter`, on a command.
fn augment(command: Command, filter: impl Fn(&&Flag) -> bool) -> Command {
    command.args(FLAGS.iter().filter(filter).map(argument))
}

/// The flags that pass `filter` and were given.
fn given(matches: &ArgMatches, filter: impl Fn(&&Flag) -> bool) -> SchedulerFlags {
    let value = |flag: &Flag| {
        let value = matches.get_one::<String>(flag.name)?;
        Some((flag.name, value.clone()))
    };
    SchedulerFlags { given: FLAGS.iter().filter(filter).filter_map(value).collect() }
}

impl Args for SchedulerFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, |_| true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SchedulerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(given(matches, |_| true))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags that change plans, for commands that plan beside `kai run`.
#[derive(Clone, Default)]
pub(crate) struct PlanFlags(pub(crate) SchedulerFlags);

impl Args for PlanFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, |flag| flag.is_about_plans())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, |flag| flag.is_about_plans())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
