//! The library that limits GPU memory, in real containers: an image with a stub of the CUDA driver is stopped at its limit,
//! and containers that the library cannot reach start and behave as without it.

use std::path::{Path, PathBuf};
use std::process::Command;

use kai_testenv::{Image, sandbox};
use serde_json::{Value, json};

use crate::sandboxed;
use crate::site::{BUSYBOX, Gpus, Site};

const GUARD_IMAGE: &str = "kai.test/guard:1";
const CUDA: &str = "kai.test/cuda:1";
const MUSL: &str = "kai.test/musl:1";
const DEVICE: &str = "GPU-00000001-0000-4000-8000-000000000000";
const LIBRARY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../out/guard/x86_64/libkai_guard.so");
const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kai-guard-preload/tests/stub/build.sh");
const MUSL_LOADER: &str = "/usr/lib/x86_64-linux-musl/libc.so";

fn run(command: &mut Command) {
    assert!(command.status().expect("it starts").success(), "{command:?}");
}

/// The image with the library, as it is shipped.
fn guard_image(site: &Site) -> PathBuf {
    let more = [(PathBuf::from(LIBRARY), "/usr/lib/kai/libkai_guard.so")];
    Image::write_product_with(GUARD_IMAGE, &site.stripped_kai(), &more, &site.folder)
        .expect("an image")
}

/// A glibc program, a stub of the driver, and nothing else but busybox.
fn cuda_image(site: &Site) -> PathBuf {
    let stub = site.folder.join("stub-cuda");
    run(Command::new("sh").arg(STUB).arg(&stub));
    let mut image = Image::program(CUDA, &stub.join("workload"), "/bin/workload").expect("files");
    for library in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        image.files.push((stub.join(library), Path::new("/stub").join(library)));
    }
    image.write(&site.folder).expect("an image")
}

/// A dynamic program of musl.
fn musl_image(site: &Site) -> PathBuf {
    let (source, program) = (site.folder.join("hello.c"), site.folder.join("hello"));
    let text = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
    std::fs::write(&source, text).expect("a file");
    run(Command::new("musl-gcc").arg("-o").arg(&program).arg(&source));
    let mut image = Image::busybox(MUSL, &["sleep", "infinity"]);
    image.files.push((program, "/bin/hello".into()));
    image.files.push((MUSL_LOADER.into(), "/lib/ld-musl-x86_64.so.1".into()));
    image.write(&site.folder).expect("an image")
}

fn pod(site: &Site, name: &str, image: &str, mib: &str) -> Value {
    let annotations = json!({"gpu-memory": mib});
    let mut pod = site.pod(name, &annotations, &json!({}));
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(image);
    container["env"] = json!([
        {"name": "LD_LIBRARY_PATH", "value": "/stub"},
        {"name": "STUB_CUDA_DEVICES", "value": DEVICE.trim_start_matches("GPU-").replace('-', "")},
        {"name": "STUB_CUDA_MIB", "value": "32600"},
    ]);
    pod
}

/// Every number after a word.
fn numbers(text: &str, word: &str) -> Vec<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == word);
    pairs.filter_map(|pair| pair[1].parse().ok()).collect()
}

#[test]
fn a_process_is_stopped_at_the_limit_of_its_pod() {
    const TEST: &str = "guard::a_process_is_stopped_at_the_limit_of_its_pod";
    if !Path::new(LIBRARY).exists() {
        return sandbox::skip(TEST, "the library is not built: cargo xtask guard");
    }
    if !Path::new(MUSL_LOADER).exists() {
        return sandbox::skip(TEST, "musl-gcc is not installed");
    }
    sandboxed(TEST, async || {
        let mut site = Site::with_runtime("guard").await;
        let gpus = Gpus { count: 1, replicas: 100, mib: 32_600 };
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
        let mut plan = site.plan("n1", &labels);
        plan.images.extend([guard_image(&site), cuda_image(&site), musl_image(&site)]);
        site.node(&plan).await;
        site.advertise("n1", gpus).await;
        let flags = ["--gpu-memory-enforcement=enforce", "--guard-image", GUARD_IMAGE];
        site.start_kai(&[&flags[..], &["--guard-pull-policy=Never"]].concat()).await;
        for (name, image) in [("cuda", CUDA), ("static", BUSYBOX), ("musl", MUSL)] {
            site.world.create_pod(&pod(&site, name, image, "8000")).await;
            site.wait_running(name).await;
        }
        processes_are_stopped(&site);
        others_behave_as_without(&site);
        annotations_tell(&site).await;
    });
}

/// All processes of the container together get 8000 MiB, whatever their environment says.
fn processes_are_stopped(site: &Site) {
    let limits = site.exec("cuda", &["cat", "/kai-guard/limits/limits"]);
    assert_eq!(limits, format!("v1 mode=enforce device={DEVICE},limit=8000"));
    for command in [
        &["/bin/workload", "fill", "linear", "64"][..],
        &["env", "LD_PRELOAD=", "/bin/workload", "fill", "vmm", "64"],
    ] {
        let told = site.exec("cuda", command);
        let (codes, got) = (numbers(&told, "code"), numbers(&told, "allocated_mib"));
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == 2), "{told}");
        let close = |mib: &u64| (6_800..=8_000).contains(mib);
        assert!(!got.is_empty() && got.iter().all(close), "{told}");
    }
    let seen = site.exec("cuda", &["/bin/workload", "info"]);
    assert_eq!(numbers(&seen, "total_mib"), [8000], "{seen}");
    let change = "echo > /kai-guard/lib/libkai_guard.so";
    let mut written =
        site.world.kubectl_command(&["exec", "cuda", "-n", "guard", "--", "sh", "-c", change]);
    let output = written.output().expect("kubectl runs");
    assert!(!output.status.success(), "the library is read-only");
}

/// A static program, and a dynamic one of musl.
fn others_behave_as_without(site: &Site) {
    assert_eq!(site.exec("static", &["echo", "hello"]), "hello\n");
    assert_eq!(site.exec("musl", &["/bin/hello"]), "hello\n");
    let preload = site.exec("musl", &["cat", "/etc/ld.so.preload"]);
    assert_eq!(preload, "/kai-guard/lib/libkai_guard.so\n", "and yet it starts");
}

async fn annotations_tell(site: &Site) {
    let pod = site.world.see_pod("cuda").await.expect("the pod");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["kai.scheduler/gpu-memory-enforcement-status"], "enforced");
    assert_eq!(annotations["kai.scheduler/gpu-memory-enforcement"], "enforce");
}
