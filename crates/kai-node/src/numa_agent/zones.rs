//! Which zone a core is in, from `/sys`.

use std::collections::BTreeMap;
use std::path::Path;

/// Zones of cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones(BTreeMap<i64, i64>);

/// Why zones are not known.
#[derive(Debug, thiserror::Error)]
pub enum ZonesError {
    /// A file cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, std::io::Error),
    /// A file makes no sense.
    #[error("{0}: {1:?} is no list of cores")]
    NoList(String, String),
    /// No zone has a core.
    #[error("{0}: no zone has a core")]
    NoCores(String),
}

impl Zones {
    /// Reads `devices/system/node/node*/cpulist` below the root.
    pub fn read(root: &Path) -> Result<Self, ZonesError> {
        let folder = root.join("devices/system/node");
        let shown = folder.display().to_string();
        let unreadable = |error| ZonesError::Unreadable(shown.clone(), error);
        let mut zones = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("node"));
            let Some(zone) = number.and_then(|number| number.parse::<i64>().ok()) else { continue };
            let path = entry.path().join("cpulist");
            let shown = path.display().to_string();
            let text = std::fs::read_to_string(&path)
                .map_err(|error| ZonesError::Unreadable(shown.clone(), error))?;
            let cores = cores(&text).ok_or_else(|| ZonesError::NoList(shown, text.clone()))?;
            zones.extend(cores.into_iter().map(|core| (core, zone)));
        }
        if zones.is_empty() { Err(ZonesError::NoCores(shown)) } else { Ok(Self(zones)) }
    }

    /// These zones of cores.
    pub fn of_cores(cores: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self(cores.into_iter().collect())
    }

    /// The zone of a core.
    pub fn of(&self, core: i64) -> Option<i64> {
        self.0.get(&core).copied()
    }

    /// Every zone with its cores.
    pub fn all(&self) -> BTreeMap<i64, Vec<i64>> {
        let mut all: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (core, zone) in &self.0 {
            all.entry(*zone).or_default().push(*core);
        }
        all
    }
}

/// Pairs of a core and its zone.
#[cfg(test)]
impl FromIterator<(i64, i64)> for Zones {
    fn from_iter<T: IntoIterator<Item = (i64, i64)>>(cores: T) -> Self {
        Self(cores.into_iter().collect())
    }
}

/// `0-3,8,10-11`; a zone of memory alone has none.
fn cores(text: &str) -> Option<Vec<i64>> {
    let mut cores = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A tree like that of the kernel; gone with the value.
    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new(name: &str, zones: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("kai-{}-{name}", std::process::id()));
            let folder = root.join("devices/system/node");
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("online"), "0-1\n").expect("a file beside the zones");
            for (zone, cores) in zones {
                fs::create_dir_all(folder.join(zone)).expect("a folder");
                fs::write(folder.join(zone).join("cpulist"), cores).expect("a file");
            }
            Self(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn ranges_and_single_cores() {
        let tree =
            Tree::new("two", &[("node0", "0-2,8\n"), ("node1", "4-5,9-9\n"), ("node10", "\n")]);
        let zones = Zones::read(&tree.0).expect("zones");
        let all: Vec<(i64, Vec<i64>)> = zones.all().into_iter().collect();
        assert_eq!(all, [(0, vec![0, 1, 2, 8]), (1, vec![4, 5, 9])]);
        assert_eq!((zones.of(9), zones.of(7)), (Some(1), None));
    }

    #[test]
    fn what_makes_no_sense_names_its_file() {
        let tree = Tree::new("bad", &[("node0", "0-x")]);
        let error = Zones::read(&tree.0).expect_err("no list").to_string();
        assert!(error.ends_with("node0/cpulist: \"0-x\" is no list of cores"), "{error}");
        let tree = Tree::new("memory", &[("node0", "\n")]);
        let error = Zones::read(&tree.0).expect_err("no cores").to_string();
        assert!(error.ends_with("devices/system/node: no zone has a core"), "{error}");
        let error = Zones::read(Path::new("/nowhere")).expect_err("no tree").to_string();
        assert!(error.starts_with("/nowhere/devices/system/node: "), "{error}");
    }

    #[test]
    fn this_machine_has_cores_in_zones() {
        match Zones::read(Path::new("/sys")) {
            Ok(zones) => assert!(!zones.all().is_empty()),
            // Some sandboxes show no zones; the cause must be logged.
            Err(error) => {
                assert!(error.to_string().contains("/sys/devices/system/node"), "{error}");
            }
        }
    }
}
