//! `kai completions` and `kai man`: what a shell and `man` know of the command line.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  source <(kai completions bash)
  kai completions zsh > ~/.zfunc/_kai
  ln -s \"$(command -v kai)\" /usr/local/bin/kubectl-kai    then: kubectl kai explain pod my-pod";

/// Arguments of `kai completions`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// Shell that reads the completions.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints completions; the exit status.
pub(crate) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "kai", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// Where manual pages go.
#[derive(Args)]
pub(crate) struct ManArguments {
    /// Folder for one manual page per command.
    folder: PathBuf,
}

/// Writes manual pages; the exit status.
pub(crate) fn man(arguments: &ManArguments) -> anyhow::Result<u8> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, page) in pages() {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(0)
}

/// Names and texts of the pages: one of `kai`, and one of every command below it.
fn pages() -> Vec<(String, String)> {
    let mut kai = Arguments::command();
    kai.build();
    let mut all = Vec::new();
    collect(&kai, "kai", &mut all);
    all
}

fn collect(command: &Command, name: &str, all: &mut Vec<(String, String)>) {
    all.push((name.to_owned(), page(command, name)));
    for below in visible_subcommands(command) {
        collect(below, &format!("{name}-{}", below.get_name()), all);
    }
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn page(command: &Command, name: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().replace('\n', " ");
    let mut text = format!(
        ".TH {} 1 \"\" \"kai {}\"\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n{}\n",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
        escaped(&about),
        escaped(&usage),
    );
    let below: Vec<&Command> = visible_subcommands(command).collect();
    if !below.is_empty() {
        text.push_str(".SH COMMANDS\n");
        for one in below {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, ".TP\n.B {}\n{}", escaped(one.get_name()), escaped(&about));
        }
    }
    let options: Vec<String> = command.get_arguments().filter_map(option).collect();
    if !options.is_empty() {
        let _ = write!(text, ".SH OPTIONS\n{}", options.concat());
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(text, ".SH NOTES\n.nf\n{}\n.fi", escaped(&after.to_string()));
    }
    text
}

/// A flag or a positional argument with its help.
fn option(argument: &clap::Arg) -> Option<String> {
    if argument.is_hide_set() {
        return None;
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    Some(format!(".TP\n.B {}\n{}\n", escaped(&argument.to_string()), escaped(&help)))
}

/// Text that roff takes literally.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| {
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let pages = pages();
        let page = |name: &str| {
            let found = pages.iter().find(|(one, _)| one == name);
            &found.unwrap_or_else(|| panic!("no page {name}")).1
        };
        assert!(page("kai").contains(".B manifests\n"));
        assert!(page("kai-manifests").contains("\\-\\-gpu\\-sharing"));
        assert!(page("kai-agent-reserve").contains("\\-\\-print"));
        assert!(pages.iter().all(|(_, text)| text.starts_with(".TH KAI")));
    }
}
