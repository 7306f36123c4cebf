//! Licence texts of everything in the image, each once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::packages::Package;

/// How files with licence texts are called.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// One text: every licence, under the names of the packages that carry it.
pub(crate) fn collect(root: &Path, packages: &[Package]) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let label = format!("{} {} ({})", package.name, package.version, package.licence);
        for file in licence_files(&package.folder)? {
            let content =
                fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let content = String::from_utf8_lossy(&content).trim_end().to_owned();
            texts.entry(content).or_default().push(label.clone());
        }
    }
    let own = fs::read_to_string(root.join("LICENSE")).context("cannot read LICENSE")?;
    let mut all = format!("kai\n\n{}\n", own.trim_end());
    let mut listed: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, labels)| (labels, text)).collect();
    listed.sort();
    for (mut labels, text) in listed {
        labels.sort();
        labels.dedup();
        let _ = write!(all, "\n{}\n{}\n\n{text}\n", "-".repeat(80), labels.join("\n"));
    }
    Ok(all)
}

fn licence_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
