//! Archives as other programs read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kai_image::{Image, Platform, RunConfig, Tree};
use serde_json::Value;

fn image(program: &str) -> Image {
    let mut tree = Tree::default();
    tree.file("/usr/bin/kai", program, 0o755);
    tree.file(&format!("/usr/share/{}/{}", "long".repeat(20), "name".repeat(10)), "text", 0o644);
    tree.link("/bin", "usr/bin");
    tree.folder("/tmp", 0o1777);
    let run = RunConfig {
        entrypoint: vec!["/usr/bin/kai".to_owned()],
        user: Some("10000:10000".to_owned()),
        ..RunConfig::default()
    };
    let platforms: BTreeMap<Platform, Tree> = Platform::ALL.map(|one| (one, tree.clone())).into();
    Image { name: "localhost/kai-scheduler/kai:1".to_owned(), run, platforms }
}

/// Unpacks an archive with the system's `tar`.
fn unpacked(name: &str, archive: &[u8]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("archive.tar");
    fs::write(&file, archive).expect("a file");
    let tar = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&folder).status();
    assert!(tar.expect("tar starts").success());
    folder
}

fn read(folder: &std::path::Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().expect("a digest").replace(':', "/");
    let content = fs::read(folder.join("blobs").join(digest)).expect("a blob");
    assert_eq!(descriptor["size"], content.len());
    content
}

#[test]
fn packing_the_same_files_twice_gives_the_same_digest() {
    let (first, second) = (image("a").archive().expect("one"), image("a").archive().expect("two"));
    assert_eq!(first.digest, second.digest);
    assert_eq!(first.bytes, second.bytes);
    assert_ne!(first.digest, image("b").archive().expect("another").digest);
}

#[test]
fn archive_leads_from_the_name_to_the_files_of_each_platform() {
    let folder = unpacked("platforms", &image("program").archive().expect("an archive").bytes);
    let index: Value =
        serde_json::from_slice(&fs::read(folder.join("index.json")).expect("index")).expect("JSON");
    let top = &index["manifests"][0];
    assert_eq!(top["annotations"]["io.containerd.image.name"], "localhost/kai-scheduler/kai:1");
    let platforms: Value = serde_json::from_slice(&read(&folder, top)).expect("JSON");
    let architectures: Vec<&Value> = platforms["manifests"]
        .as_array()
        .expect("manifests")
        .iter()
        .map(|one| &one["platform"]["architecture"])
        .collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    for descriptor in platforms["manifests"].as_array().expect("manifests") {
        let manifest: Value = serde_json::from_slice(&read(&folder, descriptor)).expect("JSON");
        let config: Value =
            serde_json::from_slice(&read(&folder, &manifest["config"])).expect("JSON");
        assert_eq!(config["config"]["User"], "10000:10000");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let root = unpacked("layer", &read(&folder, &manifest["layers"][0]));
        assert_eq!(fs::read(root.join("bin/kai")).expect("a program"), b"program");
    }
}
