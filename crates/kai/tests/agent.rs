//! `kai agent reserve` as a process, with a stub of NVIDIA's library. Without a C compiler these tests are skipped.

#[path = "cluster/kubelet_socket.rs"]
mod kubelet_socket;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FOLDERS: &str = "NVML_LIBRARY_PATHS";
const TWO_DEVICES: &str = "GPU-a:32600:NVIDIA Stub,GPU-b:131072";

/// The folder of the compiled stub; none: there is no compiler.
fn stub(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kai-node/tests/stub-nvml/build.sh");
    if !Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        skipped(name, "no C compiler");
        return None;
    }
    let built = Command::new("sh").arg(script).arg(&folder).status().expect("a shell");
    assert!(built.success());
    Some(folder)
}

/// Prints past the test harness.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

fn reserve(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kai"))
        .args(["agent", "reserve"])
        .args(arguments)
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("NVIDIA_VISIBLE_DEVICES")
        .envs(variables.iter().copied())
        .output()
        .expect("kai runs")
}

fn printed(variables: &[(&str, &str)]) -> Result<String, String> {
    let output = reserve(&["--print"], variables);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    assert_eq!(output.status.code(), Some(1));
    let said = text(output.stderr);
    let last = said.lines().last().expect("a line");
    Err(last.strip_prefix("Error while running the app: ").expect("the words of KAI").to_owned())
}

#[test]
fn a_machine_without_the_library() {
    if Path::new("/dev/nvidiactl").exists() {
        skipped("a_machine_without_the_library", "this machine has NVIDIA's library");
        return;
    }
    let error = printed(&[]).expect_err("no library");
    assert!(error.starts_with("unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND. "), "{error}");
    assert!(error.contains("kai.scheduler/tegra=on"), "{error}");
}

#[test]
fn the_library_of_a_named_folder_finds_what_it_needs_beside_it() {
    let Some(folder) = stub("named") else { return };
    let folder = folder.to_str().expect("text");
    let devices = ("STUB_NVML_DEVICES", TWO_DEVICES);
    let text = printed(&[(FOLDERS, folder), devices, ("NVIDIA_VISIBLE_DEVICES", "GPU-b")]);
    let text = text.expect("a device");
    assert!(text.contains("driver   570.00.stub\n"), "{text}");
    assert!(text.contains("GPU-b  NVIDIA Stub  131072 MiB  <- "), "{text}");
    assert!(!text.contains("GPU-a"), "{text}");
}

#[test]
fn named_device_is_reserved_if_all_devices_are_visible() {
    let Some(folder) = stub("all") else { return };
    let folder = folder.to_str().expect("text");
    let all = [
        ("LD_LIBRARY_PATH", folder),
        ("STUB_NVML_DEVICES", TWO_DEVICES),
        ("STUB_NVML_SEES_ALL", "1"),
    ];
    let variables = [&all[..], &[("NVIDIA_VISIBLE_DEVICES", "GPU-b")]].concat();
    let output = reserve(&["--json"], &variables);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["ours"], "GPU-b");
    assert_eq!(json["devices"][0]["memory_mib"], 32600);
    let text = printed(&all).expect("devices");
    assert!(text.contains("found 2 devices, 1 was expected. "), "{text}");
}

#[test]
fn failure_of_nvml_is_reported_in_its_words() {
    let Some(folder) = stub("faults") else { return };
    let library = (FOLDERS, folder.to_str().expect("text"));
    let fault = |fault| printed(&[library, ("STUB_NVML_FAULT", fault)]).expect_err("a fault");
    let text = fault("driver-not-loaded");
    assert!(text.starts_with("unable to initialize NVML: Driver Not Loaded. "), "{text}");
    let text = fault("no-permission");
    assert!(text.starts_with("unable to initialize NVML: Insufficient Permissions. "), "{text}");
    let none = printed(&[library, ("STUB_NVML_DEVICES", "")]).expect("an answer");
    assert!(
        none.contains("found 0 devices, 1 was expected. The container sees no device"),
        "{none}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_library_the_kubelet_reports_the_device_of_the_pod() {
    let test = "without_the_library_the_kubelet_reports_the_device_of_the_pod";
    if Path::new("/dev/nvidiactl").exists() {
        return skipped(test, "this machine has NVIDIA's library");
    }
    let socket = std::env::temp_dir().join(format!("kai-reserve-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let message = kubelet_socket::Answer::default();
    let played = tokio::spawn(kubelet_socket::serve(listener, message.clone()));
    let gpu = |id: &str| {
        let devices =
            [kubelet_socket::field(1, b"nvidia.com/gpu"), kubelet_socket::field(2, id.as_bytes())];
        kubelet_socket::field(2, &devices.concat())
    };
    let other = kubelet_socket::pod("reservations", "other", &gpu("GPU-b::1"));
    *message.lock().expect("it") =
        [other.clone(), kubelet_socket::pod("reservations", "ours", &gpu("GPU-a::7"))].concat();
    let run_agent = |arguments: &[&str]| {
        let flags = ["--podresources-socket", socket.to_str().expect("text")];
        let pod = [("POD_NAMESPACE", "reservations"), ("POD_NAME", "ours")];
        reserve(&[&flags, arguments].concat(), &pod)
    };
    let text = String::from_utf8(run_agent(&["--print"]).stdout).expect("text");
    assert!(text.starts_with("kubelet  GPU-a  <- a reservation here keeps this one\n"), "{text}");
    assert!(text.contains("unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND. "), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&run_agent(&["--json"]).stdout).expect("JSON");
    assert_eq!((&json["ours"], &json["library"]), (&"GPU-a".into(), &serde_json::Value::Null));
    // The kubelet does not know the pod: the error of NVML comes first.
    *message.lock().expect("it") = other;
    let output = run_agent(&["--print"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("text");
    let nvml = text.find("Error while running the app: unable to initialize NVML: ");
    let kubelet =
        text.find("The kubelet does not report the device either: it gave this pod 0 devices");
    assert!(nvml.is_some() && nvml < kubelet, "{text}");
    played.abort();
    std::fs::remove_file(&socket).expect("it is removed");
}

#[test]
fn flags_of_the_reference_are_accepted_and_the_pod_must_be_known() {
    let flags = [
        "--zap-devel",
        "--zap-log-level=debug",
        "--zap-encoder",
        "json",
        "--zap-time-encoder=iso8601",
    ];
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent.kubeconfig");
    let nowhere = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                   clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}";
    std::fs::write(&kubeconfig, nowhere).expect("a file");
    let kubeconfig = kubeconfig.to_str().expect("text");
    let output = reserve(&[&flags[..], &["--kubeconfig", kubeconfig]].concat(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("text");
    let said =
        "Error while running the app: could not get pod details, err: could not find pod namespace";
    assert!(text.contains(said), "{text}");
}

#[test]
fn processes_on_a_device_are_printed_with_the_state_of_the_library() {
    let Some(folder) = stub("agent-processes") else { return };
    let program = folder.join("gpu-of-the-test");
    // Copied by another process: a program that other threads start meanwhile would inherit a file that is open for writing, and a
    // file that is open for writing cannot be executed.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status();
    assert!(copied.expect("cp").success());
    let mut child = Command::new(&program).arg("60").spawn().expect("it starts");
    let folders = folder.display().to_string();
    let variables = [(FOLDERS, folders.as_str()), ("STUB_NVML_DEVICES", "GPU-a:32600")];
    let output = reserve(&["--print", "--observe-processes"], &variables);
    child.kill().and_then(|()| child.wait()).expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let start = format!("process {}  300 MiB  pod ", child.id());
    let line = text.lines().find(|line| line.contains(&start)).expect(&text);
    let end = "library absent  process gpu-of-the-test uses the GPU without the library (static, musl, or a loader of its own)";
    assert!(line.ends_with(end), "{line}");
}
