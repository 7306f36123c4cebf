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
    image.files.push((stub.join("workload"), "/bin/gpu-guarded".into()));
    image.files.push(("/bin/sleep".into(), "/bin/glibc-sleep".into()));
    for library in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        image.files.push((stub.join(library), Path::new("/stub").join(library)));
    }
    image.write(&site.folder).expect("an image")
}

/// Dynamic programs of musl, and a static one. The stub of NVML shows processes that are named `gpu-` on the GPU.
fn musl_image(site: &Site) -> PathBuf {
    let hello = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
    let wait = "#include <unistd.h>\nint main(void) { return pause(); }\n";
    let mut image = Image::busybox(MUSL, &["sleep", "infinity"]);
    for (name, text, flag) in
        [("hello", hello, "-O1"), ("gpu-musl", wait, "-O1"), ("gpu-static", wait, "-static")]
    {
        let (source, program) = (site.folder.join(format!("{name}.c")), site.folder.join(name));
        std::fs::write(&source, text).expect("a file");
        run(Command::new("musl-gcc").arg(flag).arg("-o").arg(&program).arg(&source));
        image.files.push((program, Path::new("/bin").join(name)));
    }
    image.files.push((MUSL_LOADER.into(), "/lib/ld-musl-x86_64.so.1".into()));
    image.write(&site.folder).expect("an image")
}

fn pod(site: &Site, name: &str, image: &str, annotations: &Value) -> Value {
    let mut pod = site.pod(name, annotations, &json!({}));
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

/// What the tests need and is absent.
fn absent() -> Option<&'static str> {
    if !Path::new(LIBRARY).exists() {
        return Some("the library is not built: cargo xtask guard");
    }
    (!Path::new(MUSL_LOADER).exists()).then_some("musl-gcc is not installed")
}

/// A node with one GPU, and `kai` that enforces limits.
async fn enforcing(name: &'static str) -> Site {
    let mut site = Site::with_runtime(name).await;
    let gpus = Gpus { count: 1, replicas: 100, mib: 32_600 };
    let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
    let mut plan = site.plan("n1", &labels);
    plan.images.extend([guard_image(&site), cuda_image(&site), musl_image(&site)]);
    site.node(&plan).await;
    site.advertise("n1", gpus).await;
    let flags = ["--gpu-memory-enforcement=enforce", "--guard-image", GUARD_IMAGE];
    site.start_kai(&[&flags[..], &["--guard-pull-policy=Never"]].concat()).await;
    site
}

#[test]
fn a_process_is_stopped_at_the_limit_of_its_pod() {
    const TEST: &str = "guard::a_process_is_stopped_at_the_limit_of_its_pod";
    if let Some(what) = absent() {
        return sandbox::skip(TEST, what);
    }
    sandboxed(TEST, async || {
        let site = enforcing("guard").await;
        for (name, image) in
            [("cuda", CUDA), ("plain", CUDA), ("static", MUSL), ("musl", MUSL), ("idle", BUSYBOX)]
        {
            let memory = json!({"gpu-memory": "6000"});
            site.world.create_pod(&pod(&site, name, image, &memory)).await;
            site.wait_running(name).await;
        }
        processes_are_stopped(&site);
        others_behave_as_without(&site);
        annotations_report_enforcement(&site).await;
    });
}

/// All processes of the container together get 6000 MiB, whatever their environment says.
fn processes_are_stopped(site: &Site) {
    let limits = site.exec("cuda", &["cat", "/kai-guard/limits/limits"]);
    assert_eq!(limits, format!("v1 mode=enforce device={DEVICE},limit=6000"));
    for command in [
        &["/bin/workload", "fill", "linear", "64"][..],
        &["env", "LD_PRELOAD=", "/bin/workload", "fill", "vmm", "64"],
    ] {
        let printed = site.exec("cuda", command);
        let (codes, got) = (numbers(&printed, "code"), numbers(&printed, "allocated_mib"));
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == 2), "{printed}");
        let close = |mib: &u64| (4_800..=6_000).contains(mib);
        assert!(!got.is_empty() && got.iter().all(close), "{printed}");
    }
    let seen = site.exec("cuda", &["/bin/workload", "info"]);
    assert_eq!(numbers(&seen, "total_mib"), [6000], "{seen}");
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

/// The reservation pod, in the PID namespace of the node, sees the library in one program and not in the others.
async fn annotations_report_enforcement(site: &Site) {
    const NO_LIBRARY: &str = "not enforceable: no process of the pod has loaded the library (static, musl, or a loader of its own)";
    const WITHOUT: &str = "uses the GPU without the library (static, musl, or a loader of its own)";
    let status = async |name: &str| {
        let pod = site.world.see_pod(name).await.expect("the pod");
        let shown = &pod["metadata"]["annotations"]["kai.scheduler/gpu-memory-enforcement-status"];
        shown.as_str().map(str::to_owned)
    };
    let becomes = async |name: &str, expected: &str| {
        let what = format!("{name}: {expected}");
        site.world.wait(&what, async || status(name).await.as_deref() == Some(expected)).await;
    };
    for name in ["cuda", "plain", "static", "musl", "idle"] {
        becomes(name, NO_LIBRARY).await;
    }
    for (name, program) in [
        ("plain", "/bin/glibc-sleep 600"),
        ("cuda", "sleep 600 | /bin/gpu-guarded hold 64"),
        ("static", "/bin/gpu-static"),
        ("musl", "/bin/gpu-musl"),
    ] {
        site.exec(name, &["sh", "-c", &format!("({program}) >/dev/null 2>&1 </dev/null &")]);
    }
    for (name, expected) in [
        ("cuda", "enforced".to_owned()),
        ("static", format!("not enforceable: process gpu-static {WITHOUT}")),
        ("musl", format!("not enforceable: process gpu-musl {WITHOUT}")),
    ] {
        becomes(name, &expected).await;
    }
    becomes("plain", "not enforceable: no process of the pod has loaded CUDA").await;
    assert_eq!(status("idle").await.as_deref(), Some(NO_LIBRARY));
    let pod = site.world.see_pod("static").await.expect("the pod");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["kai.scheduler/gpu-memory-used"], format!("{DEVICE}=300"));
    assert_eq!(annotations["kai.scheduler/gpu-memory-enforcement"], "enforce");
    let app = ["--resource-reservation-app-label", site.world.name];
    let table = site.world.kai("gpus", "kai", &app).await;
    for cell in
        ["guard/cuda (6000, holds 300)", "guard/idle (6000, holds 0)", "guard/cuda: enforced"]
    {
        assert!(table.contains(cell), "{cell}: {table}");
    }
}

/// KAI 0.18's annotations of one container, through webhook, scheduler, binder and the file in the container to the library.
#[test]
fn burst_of_a_container_ends_where_the_requests_of_neighbours_begin() {
    const TEST: &str = "guard::burst_of_a_container_ends_where_the_requests_of_neighbours_begin";
    if let Some(what) = absent() {
        return sandbox::skip(TEST, what);
    }
    sandboxed(TEST, async || {
        let site = enforcing("burst").await;
        let annotations = json!({
            "nvidia.com/container.main.gpu-memory.request": "4000Mi",
            "nvidia.com/container.main.gpu-memory.limit": "12000Mi",
        });
        site.world.create_pod(&pod(&site, "burst", CUDA, &annotations)).await;
        site.wait_running("burst").await;
        let limits = |neighbors: u32| {
            format!(
                "v1 mode=enforce device={DEVICE},limit=12000,request=4000,neighbors={neighbors}"
            )
        };
        let file = || site.exec("burst", &["cat", "/kai-guard/limits/limits"]);
        assert_eq!(file(), limits(0));
        let filled = || {
            let output = site.exec("burst", &["/bin/workload", "fill", "linear", "64"]);
            assert!(numbers(&output, "code").iter().all(|code| *code == 2), "{output}");
            numbers(&output, "allocated_mib").into_iter().max().expect(&output)
        };
        let alone = filled();
        assert!((10_800..=12_000).contains(&alone), "up to its limit: {alone} MiB");
        // The scheduler places by the request: 4000 and 24000 MiB fit.
        let memory = json!({"gpu-memory": "24000"});
        site.world.create_pod(&pod(&site, "neighbour", BUSYBOX, &memory)).await;
        site.wait_running("neighbour").await;
        site.world.wait("the file names the neighbour", async || file() == limits(24_000)).await;
        let beside = filled();
        assert!((4_000..=8_600).contains(&beside), "32600 less 24000 MiB are left: {beside} MiB");
    });
}
