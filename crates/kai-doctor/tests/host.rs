//! Every check of a host has a fixture that it fails on: `fixtures/host/<check>.json` lists the files that differ from those
//! of a healthy host.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use kai_doctor::check::{Check, Scope};
use kai_doctor::finding::Findings;
use kai_doctor::host::{HostFacts, examine, summary};
use serde::Deserialize;

/// A host: its files, links and images.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fixture {
    /// Another fixture that this one is laid over.
    over: Option<String>,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    /// Device files, and their modes in octal.
    devices: BTreeMap<String, String>,
    /// What the other one has and this one has not.
    without: Vec<String>,
    images: Option<Vec<String>>,
}

fn fixture(name: &str) -> Fixture {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/host/{name}.json"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a fixture in a folder that is removed on drop.
struct Host {
    root: PathBuf,
    images: Option<Vec<String>>,
}

impl Host {
    fn of(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(format!("kai-doctor-{process}-{count}"));
        let mut host = Self { root, images: None };
        host.lay(&fixture(name));
        host
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        let _ = fs::remove_file(&place);
        place
    }

    fn lay(&mut self, fixture: &Fixture) {
        if let Some(over) = &fixture.over {
            self.lay(&self::fixture(over));
        }
        for (path, text) in &fixture.files {
            fs::write(self.place(path), text).expect("a file");
        }
        for (path, target) in &fixture.links {
            symlink(target, self.place(path)).expect("a link");
        }
        for (path, mode) in &fixture.devices {
            let place = self.place(path);
            fs::write(&place, "").expect("a file");
            let mode = u32::from_str_radix(mode, 8).expect("octal digits");
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        for path in &fixture.without {
            self.place(path);
        }
        if fixture.images.is_some() {
            self.images.clone_from(&fixture.images);
        }
    }

    fn facts(&self) -> HostFacts {
        HostFacts {
            root: self.root.clone(),
            images: self.images.clone(),
            image: "kai".to_owned(),
            node: "thor".to_owned(),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn found(name: &str) -> Findings {
    examine(&Host::of(name).facts())
}

#[test]
fn nothing_is_said_of_healthy_hosts() {
    assert_eq!(found("healthy").findings, []);
    assert_eq!(found("healthy-jetson").findings, []);
}

#[test]
fn every_check_fails_on_its_fixture_and_nothing_else_does() {
    for check in Check::all().filter(|check| check.scope() == Scope::Host) {
        let found = found(check.name());
        let names: Vec<&str> = found.findings.iter().map(|one| one.check.name()).collect();
        assert_eq!(names, [check.name()], "{found:#?}");
        let finding = &found.findings[0];
        assert!(!finding.fix.is_empty() && !finding.fix.contains('\n'), "{finding:?}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_no_library() {
    let mut host = Host::of("healthy-jetson");
    host.lay(&Fixture {
        without: vec!["/usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.580.00".to_owned()],
        ..Fixture::default()
    });
    let found = examine(&host.facts());
    assert!(found.findings[0].message.contains("broken link"), "{found:?}");
}

#[test]
fn a_host_is_summed_up_in_a_line() {
    assert_eq!(
        summary(&Host::of("healthy-jetson").facts()),
        "kernel 6.8.12-tegra, Jetson Linux R38.2, NVIDIA's runtime in mode auto, \
         libnvidia-ml.so.1 in /usr/lib/aarch64-linux-gnu/nvidia, k3s"
    );
}
