//! Where NVML's library is looked for: where the system looks, then in folders that were named, then in those where
//! distributions keep it.

use std::path::{Path, PathBuf};

use crate::gpu::nvml::{Nvml, NvmlFault};

pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// Folders that are looked into last. Tegra systems keep the library in folders of its own, which the system does not
/// look into.
const KNOWN_FOLDERS: [&str; 5] = [
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
];

/// Loads and initialises libraries.
pub trait Loader {
    /// There is a file of this name.
    fn exists(&self, library: &Path) -> bool;
    /// Loads the library and initialises it. A bare name is looked for where the system looks.
    fn load(&self, library: &Path) -> Result<Box<dyn Nvml>, LoadError>;
}

/// Why a library is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It is not there, or something that it needs.
    CannotLoad(String),
    /// It was loaded and refused to work.
    Fault(NvmlFault),
}

/// A library that works.
pub struct Opened {
    /// The library.
    pub nvml: Box<dyn Nvml>,
    /// Where it was found.
    pub library: PathBuf,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No place has it.
    NotFound {
        /// Places that were looked into.
        tried: Vec<String>,
    },
    /// It is in this folder, and what it needs is not where the system looks. It can be loaded by a process whose
    /// `LD_LIBRARY_PATH` names the folder.
    NeedsLibraryPath {
        folder: PathBuf,
        /// What the system said.
        why: String,
    },
    /// It was found and refused to work.
    Fault {
        /// Where it was found.
        library: PathBuf,
        /// Error that the library returned.
        fault: NvmlFault,
    },
}

/// The first library in the order of search that can be loaded. `named` are folders from the environment.
pub fn open(loader: &dyn Loader, named: &[PathBuf]) -> Result<Opened, OpenError> {
    let mut tried = vec!["the system's library path".to_owned()];
    let mut unloadable = None;
    for library in candidates(named) {
        let folder = library.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            tried.push(folder.display().to_string());
            if !loader.exists(&library) {
                continue;
            }
        }
        match (loader.load(&library), folder) {
            (Ok(nvml), _) => return Ok(Opened { nvml, library }),
            (Err(LoadError::Fault(fault)), _) => return Err(OpenError::Fault { library, fault }),
            (Err(LoadError::CannotLoad(why)), Some(folder)) if unloadable.is_none() => {
                unloadable = Some(OpenError::NeedsLibraryPath { folder: folder.to_owned(), why });
            }
            (Err(LoadError::CannotLoad(_)), _) => {}
        }
    }
    Err(unloadable.unwrap_or(OpenError::NotFound { tried }))
}

fn candidates(named: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from(LIBRARY)];
    let known = KNOWN_FOLDERS.iter().map(PathBuf::from);
    for folder in named.iter().cloned().chain(known) {
        let library = folder.join(LIBRARY);
        if !all.contains(&library) {
            all.push(library);
        }
    }
    all
}

/// The folders of a list as it stands in `NVML_LIBRARY_PATHS`: separated by colons.
pub fn folders(list: &str) -> Vec<PathBuf> {
    list.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::gpu::listed::ListedNvml;

    #[derive(Default)]
    struct Folders {
        working: Vec<&'static str>,
        /// They have the library, but not what it needs.
        incomplete: Vec<&'static str>,
        asked: RefCell<Vec<PathBuf>>,
    }

    impl Loader for Folders {
        fn exists(&self, library: &Path) -> bool {
            self.working.iter().chain(&self.incomplete).any(|known| library.starts_with(known))
        }

        fn load(&self, library: &Path) -> Result<Box<dyn Nvml>, LoadError> {
            self.asked.borrow_mut().push(library.to_owned());
            if self.working.iter().any(|known| library.parent() == Some(Path::new(known))) {
                return Ok(Box::new(ListedNvml::default()));
            }
            Err(LoadError::CannotLoad("cannot open shared object file".to_owned()))
        }
    }

    #[test]
    fn the_system_is_asked_first_then_named_folders_then_known_ones() {
        let order = candidates(&folders("/opt/nv:/usr/lib64"));
        let order: Vec<String> = order.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            order,
            [
                "libnvidia-ml.so.1",
                "/opt/nv/libnvidia-ml.so.1",
                "/usr/lib64/libnvidia-ml.so.1",
                "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
                "/usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1",
                "/usr/lib/aarch64-linux-gnu/tegra/libnvidia-ml.so.1",
                "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
            ]
        );
    }

    #[test]
    fn folders_without_the_library_are_not_loaded_from() {
        let loader = Folders { working: vec!["/usr/lib64"], ..Folders::default() };
        let opened = open(&loader, &[PathBuf::from("/opt/nv")]).map(|opened| opened.library);
        assert_eq!(opened.expect("a library"), Path::new("/usr/lib64/libnvidia-ml.so.1"));
        let asked = loader.asked.borrow();
        assert_eq!(*asked, [Path::new(LIBRARY), Path::new("/usr/lib64/libnvidia-ml.so.1")]);
    }

    #[test]
    fn a_library_whose_needs_are_beside_it_asks_for_a_library_path() {
        let folder = "/usr/lib/aarch64-linux-gnu/nvidia";
        let loader = Folders { incomplete: vec![folder], ..Folders::default() };
        let error = open(&loader, &[]).err().expect("an error");
        let why = "cannot open shared object file".to_owned();
        assert_eq!(error, OpenError::NeedsLibraryPath { folder: folder.into(), why });
    }

    #[test]
    fn nothing_found_names_every_place() {
        let error = open(&Folders::default(), &[PathBuf::from("/opt/nv")]).err().expect("an error");
        let OpenError::NotFound { tried } = error else { panic!("{error:?}") };
        assert_eq!(tried.len(), 7);
        assert_eq!(tried[1], "/opt/nv");
    }
}
