//! Finds the scenario files under the paths a person names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::InputError;
use crate::format::SCHEMA;

/// A file that says it is a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Path of the file.
    pub file: PathBuf,
    /// The id of a scenario that names none: the path below the folder that was named.
    pub default_id: String,
}

/// Scenario files under the paths that were named, and what was wrong with others.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Scenario files, each once, in the order of the paths and by name inside a folder.
    pub files: Vec<ScenarioFile>,
    /// JSON files in folders that are no scenarios.
    pub skipped: usize,
    /// Paths that do not exist and files that cannot be read.
    pub errors: Vec<InputError>,
}

/// Finds the scenarios under `paths`. A file that is named must be a scenario; in a folder, files that
/// are none are passed over.
pub fn discover(paths: &[PathBuf]) -> Discovery {
    let mut found = Discovery::default();
    let mut known = BTreeSet::new();
    for path in paths {
        let before = found.files.len();
        if path.is_dir() {
            walk(path, path, &mut found);
        } else if path.is_file() {
            let id = path.file_name().map_or_else(PathBuf::new, PathBuf::from);
            found.files.push(ScenarioFile { file: path.clone(), default_id: id_of(&id) });
        } else {
            found.errors.push(whole_file(path, "no such file or folder".to_owned()));
        }
        let added = found.files.split_off(before);
        let is_new = |candidate: &ScenarioFile| {
            let real = fs::canonicalize(&candidate.file);
            known.insert(real.unwrap_or_else(|_| candidate.file.clone()))
        };
        found.files.extend(added.into_iter().filter(is_new));
    }
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Discovery) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return found.errors.push(whole_file(folder, error.to_string())),
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            match is_scenario(&path) {
                Ok(true) => {
                    let below = path.strip_prefix(root).unwrap_or(&path);
                    let default_id = id_of(below);
                    found.files.push(ScenarioFile { file: path, default_id });
                }
                Ok(false) => found.skipped += 1,
                Err(message) => found.errors.push(whole_file(&path, message)),
            }
        }
    }
}

fn id_of(path: &Path) -> String {
    let without_extension = path.with_extension("");
    let parts: Vec<_> = without_extension
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.join("/")
}

fn is_scenario(path: &Path) -> Result<bool, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let document: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("expected a JSON document: {error}"))?;
    Ok(document.get("schema").is_some_and(|schema| schema == SCHEMA))
}

fn whole_file(file: &Path, message: String) -> InputError {
    InputError { file: file.to_path_buf(), path: String::new(), message }
}
