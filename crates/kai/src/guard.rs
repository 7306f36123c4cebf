//! `kai guard install`: puts the library that limits GPU memory into a volume of the pod. Runs as init container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use kai_api::enforcement::Enforcement;
use kai_api::names::guard as names;

use crate::output;

/// Arguments of `kai guard`.
#[derive(Args)]
pub(crate) struct GuardArguments {
    #[command(subcommand)]
    verb: GuardVerb,
}

#[derive(Subcommand)]
enum GuardVerb {
    /// Copy the library and write ld.so.preload.
    Install(InstallArguments),
}

#[derive(Args)]
struct InstallArguments {
    /// Folder that the containers of the pod mount as /kai-guard/lib.
    #[arg(long, default_value = names::LIBRARY_FOLDER, value_name = "FOLDER")]
    to: PathBuf,

    /// Path of the library to copy.
    #[arg(long, default_value = names::LIBRARY_IN_IMAGE, value_name = "FILE")]
    library: PathBuf,

    /// Mode of the pod: with enforce a failure ends the command with an error, so that the pod does not start; otherwise
    /// the pod starts without the library.
    #[arg(long, default_value = "enforce", value_parser = enforcement, value_name = "MODE")]
    mode: Enforcement,
}

fn enforcement(text: &str) -> Result<Enforcement, String> {
    Enforcement::named(text).ok_or_else(|| "must be off, report or enforce".to_owned())
}

/// Does it; the exit status.
pub(crate) fn run(arguments: &GuardArguments) -> anyhow::Result<u8> {
    let GuardVerb::Install(arguments) = &arguments.verb;
    let preload = arguments.to.join("ld.so.preload");
    let installed = copy(&arguments.library, &arguments.to);
    match installed {
        Ok(()) => {
            let line = format!("{}/{}\n", names::LIBRARY_FOLDER, names::LIBRARY);
            write(&preload, &line)?;
        }
        Err(error) if arguments.mode == Enforcement::Enforce => return Err(error),
        Err(error) => {
            output::complain(&format!("kai: GPU memory is not counted: {error:#}\n"));
            write(&preload, "")?; // containers mount the file
        }
    }
    Ok(0)
}

/// Copies the library. A file of that name appears only when it is complete.
fn copy(library: &Path, folder: &Path) -> anyhow::Result<()> {
    let (part, whole) = (folder.join(".part"), folder.join(names::LIBRARY));
    fs::copy(library, &part)
        .with_context(|| format!("cannot copy {} to {}", library.display(), folder.display()))?;
    let all_read = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&part, all_read).context("cannot set the permissions of the library")?;
    fs::rename(&part, &whole).with_context(|| format!("cannot create {}", whole.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let all_read = fs::Permissions::from_mode(0o644);
    fs::set_permissions(path, all_read)
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(library: &Path, to: &Path, mode: Enforcement) -> anyhow::Result<u8> {
        let (to, library) = (to.to_owned(), library.to_owned());
        run(&GuardArguments { verb: GuardVerb::Install(InstallArguments { to, library, mode }) })
    }

    /// A new folder of the test.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kai-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn the_library_and_the_preload_file_are_readable_by_every_user() {
        let folder = folder("guard-install");
        let source = folder.join("source");
        fs::write(&source, "library").expect("a file");
        let to = folder.join("to");
        fs::create_dir(&to).expect("a folder");
        assert_eq!(install(&source, &to, Enforcement::Enforce).expect("installed"), 0);
        let mode =
            |name: &str| fs::metadata(to.join(name)).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode("libkai_guard.so"), mode("ld.so.preload")), (0o755, 0o644));
        let line = fs::read_to_string(to.join("ld.so.preload")).expect("text");
        assert_eq!(line, "/kai-guard/lib/libkai_guard.so\n");
        assert_eq!(install(&source, &to, Enforcement::Enforce).expect("a restart"), 0);
    }

    #[test]
    fn a_missing_library_stops_the_pod_in_enforce_only() {
        let folder = folder("guard-missing");
        let missing = folder.join("missing");
        let failure = install(&missing, &folder, Enforcement::Enforce).expect_err("an error");
        assert!(failure.to_string().contains("cannot copy"), "{failure:#}");
        assert!(!folder.join("ld.so.preload").exists());
        assert_eq!(install(&missing, &folder, Enforcement::Report).expect("a start"), 0);
        let text = fs::read_to_string(folder.join("ld.so.preload")).expect("text");
        assert_eq!(text, "", "the loader preloads nothing");
    }
}
