//! Source files of the workspace, for tests that hold rules over them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the workspace.
pub(crate) fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&here).parent().expect("xtask is in the workspace").to_path_buf()
}

/// Adds the source files below a folder; tests and their helpers are left out.
pub(crate) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !name.ends_with("tests.rs")
            && name != "testing.rs"
        {
            files.push(path);
        }
    }
}
