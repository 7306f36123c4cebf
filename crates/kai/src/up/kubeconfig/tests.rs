use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Connection, Kubeconfig};

const EXISTING: &str = "\
# written by hand
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: prod
  cluster: {server: 'https://10.0.0.1:6443', certificate-authority-data: Zm9v}
contexts:
- name: prod
  context: {cluster: prod, user: me, namespace: '007'}
users:
- name: me
  user: {token: 'yes'}
current-context: prod
";

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kai-config-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("config")
    }

    fn with(self, text: &str) -> Self {
        fs::write(self.file(), text).expect("a file");
        self
    }

    fn read(&self) -> Value {
        serde_saphyr::from_str(&self.text()).expect("YAML")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).expect("a file")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn connection(port: u16) -> Connection {
    Connection {
        cluster: json!({"server": format!("https://127.0.0.1:{port}")}),
        user: json!({"token": "secret"}),
    }
}

fn merge(folder: &Folder, port: u16) -> Kubeconfig {
    Kubeconfig::merge(&folder.file(), &connection(port)).expect("merged")
}

#[test]
fn a_context_is_added_and_nothing_else_changes() {
    let folder = Folder::new("added").with(EXISTING);
    let merged = merge(&folder, 1);
    let (mut now, before) =
        (folder.read(), serde_saphyr::from_str::<Value>(EXISTING).expect("YAML"));
    assert_eq!(now["current-context"], "kai");
    assert_eq!(now["clusters"][1]["cluster"]["server"], "https://127.0.0.1:1");
    assert_eq!(now["users"][1]["user"]["token"], "secret");
    for list in ["clusters", "contexts", "users"] {
        assert_eq!(now[list].as_array_mut().and_then(Vec::pop).expect("ours")["name"], "kai");
    }
    now["current-context"] = json!("prod");
    assert_eq!(now, before);
    drop(merged);
    assert_eq!(folder.text(), EXISTING, "byte by byte, comments included");
}

#[test]
fn the_mode_stays_and_new_files_are_for_their_owner() {
    let folder = Folder::new("mode").with(EXISTING);
    let mode = || fs::metadata(folder.file()).expect("a file").permissions().mode() & 0o777;
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o640)).expect("a mode");
    let merged = merge(&folder, 1);
    assert_eq!(mode(), 0o640);
    drop(merged);
    assert_eq!(mode(), 0o640);
    fs::remove_file(folder.file()).expect("removed");
    let merged = merge(&folder, 1);
    assert_eq!(mode(), 0o600);
    drop(merged);
    assert!(!folder.file().exists(), "a file without other contexts is removed");
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 0, "nothing is left beside it");
}

#[test]
fn changes_of_other_tools_stay() {
    let folder = Folder::new("changed").with(EXISTING);
    let merged = merge(&folder, 1);
    let mut config = folder.read();
    config["contexts"].as_array_mut().expect("contexts").push(json!({"name": "mine"}));
    fs::write(folder.file(), config.to_string()).expect("written");
    drop(merged);
    let now = folder.read();
    assert_eq!(now["contexts"].as_array().map(Vec::len), Some(2));
    assert_eq!(now["contexts"][1]["name"], "mine");
    assert_eq!(now["clusters"].as_array().map(Vec::len), Some(1));
    assert_eq!(now["current-context"], "prod", "the previous context is current again");
}

#[test]
fn a_context_that_the_user_chose_meanwhile_stays_current() {
    let folder = Folder::new("chosen").with(EXISTING);
    let merged = merge(&folder, 1);
    let mut config = folder.read();
    config["current-context"] = json!("other");
    fs::write(folder.file(), config.to_string()).expect("written");
    drop(merged);
    assert_eq!(folder.read()["current-context"], "other");
}

#[test]
fn names_in_use_are_not_taken() {
    let taken =
        EXISTING.replace("name: prod", "name: kai").replace("context: prod", "context: kai");
    let folder = Folder::new("names").with(&taken);
    let first = merge(&folder, 1);
    let second = merge(&folder, 2);
    assert_eq!((first.context(), second.context()), ("kai-2", "kai-3"));
    drop(first);
    assert_eq!(folder.read()["current-context"], "kai-3");
    drop(second);
    let now = folder.read();
    assert_eq!(now["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443");
    assert_eq!(now["clusters"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_context_of_a_killed_process_is_replaced() {
    let folder = Folder::new("killed").with(EXISTING);
    std::mem::forget(merge(&folder, 1));
    let ended = folder.text().replace(
        &format!("process: {}", std::process::id()),
        "process: 4194999", // above the largest process id of Linux
    );
    fs::write(folder.file(), ended).expect("written");
    let merged = merge(&folder, 2);
    assert_eq!(merged.context(), "kai");
    drop(merged);
    let now = folder.read();
    assert_eq!(now["current-context"], "prod");
    assert_eq!(now["clusters"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_entry_that_another_tool_wrote_under_our_name_stays() {
    let folder = Folder::new("other").with(EXISTING);
    let merged = merge(&folder, 1);
    fs::write(folder.file(), folder.text().replace("127.0.0.1:1", "10.0.0.9")).expect("written");
    drop(merged);
    assert_eq!(folder.read()["clusters"][1]["name"], "kai");
}

#[test]
fn what_is_no_kubeconfig_is_not_touched() {
    for text in ["- a\n- list\n", "clusters: 7\n", "a: [\n"] {
        let folder = Folder::new("none").with(text);
        assert!(Kubeconfig::merge(&folder.file(), &connection(1)).is_err());
        assert_eq!(folder.text(), text);
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
    }
}

#[test]
fn an_empty_file_and_a_link_stay() {
    let folder = Folder::new("link").with("");
    let link = folder.0.join("link");
    symlink(folder.file(), &link).expect("a link");
    let merged = Kubeconfig::merge(&link, &connection(1)).expect("merged");
    assert_eq!(folder.read()["current-context"], "kai");
    drop(merged);
    assert_eq!(folder.text(), "");
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
}
