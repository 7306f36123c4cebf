//! The library against a stub of the CUDA driver: every allocation family, processes that fork, end and restart,
//! broken files, and programs that have nothing to do with CUDA.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test that fails may panic"
)]

mod harness;

use std::process::Command;

use harness::{Container, DEVICE, OTHER_DEVICE, Output};
use kai_guard::usage::{self, Guard};

const LIMIT_MIB: u64 = 8192;
/// Size of a context of the stub.
const CONTEXT_MIB: u64 = 500;

fn enforced(limit_mib: u64) -> Container {
    Container::new(&format!("v1 mode=enforce device=GPU-{DEVICE},limit={limit_mib}"))
}

#[test]
fn every_family_stops_at_the_limit_and_leaks_nothing() {
    for family in
        ["linear", "pitch", "managed", "async", "pool", "vmm", "array", "array3d", "mipmap"]
    {
        let container = enforced(LIMIT_MIB);
        let output = container.workload(&["fill", family, "64"]);
        assert_eq!(output.code, 0, "{family}: {}", output.text);
        for line in output.lines("round") {
            assert_eq!(line.number("code"), 2, "{family}: {}", output.text);
            assert!(line.number("own_mib") <= LIMIT_MIB, "{family}: {}", output.text);
            let allocated = line.number("allocated_mib") + CONTEXT_MIB;
            assert!(allocated > LIMIT_MIB * 3 / 4, "{family}: {}", output.text);
        }
        let (before, after) = (output.line("before"), output.line("after"));
        assert_eq!(before.number("free_mib"), LIMIT_MIB - CONTEXT_MIB, "{family}");
        assert_eq!(
            after.number("free_mib"),
            before.number("free_mib"),
            "{family}: {}",
            output.text
        );
        assert_eq!(after.number("nvml_used_mib"), CONTEXT_MIB, "{family}");
    }
}

#[test]
fn every_way_to_find_a_function_is_limited() {
    for way in ["dlsym", "global", "path", "procaddress"] {
        let container = enforced(2048);
        let output =
            container.workload_with(&["fill", "linear", "64"], &[("WORKLOAD_RESOLVE", way)]);
        assert_eq!(output.code, 0, "{way}: {}", output.text);
        assert!(output.line("full").number("own_mib") <= 2048, "{way}: {}", output.text);
    }
    let output = enforced(2048).run("workload-linked", &["fill", "linear", "64"], &[]);
    assert!(output.line("full").number("own_mib") <= 2048, "linked: {}", output.text);
}

#[test]
fn graph_memory_is_charged_when_launched_and_released_when_trimmed() {
    let output = enforced(LIMIT_MIB).workload(&["graph", "5000"]);
    assert_eq!(output.line("small").number("code"), 0, "{}", output.text);
    assert_eq!(output.line("full").number("nvml_used_mib"), CONTEXT_MIB + 5024);
    assert_eq!(output.line("large").number("code"), 2, "10000 MiB do not fit: {}", output.text);
    assert_eq!(output.line("after").number("nvml_used_mib"), CONTEXT_MIB);
}

#[test]
fn queries_show_the_limit_and_nothing_of_other_tenants() {
    let line = enforced(LIMIT_MIB).workload(&["info"]).line("info");
    for key in ["total_mib", "device_total_mib", "nvml_total_mib"] {
        assert_eq!(line.number(key), LIMIT_MIB, "{key}");
    }
    assert_eq!(line.number("nvml_used_mib"), CONTEXT_MIB);
    let above_the_card = enforced(1 << 20).workload(&["info"]).line("info");
    assert_eq!(above_the_card.number("total_mib"), 16384, "never more than the card has");
}

#[test]
fn report_mode_counts_and_refuses_nothing() {
    let container = Container::new(&format!("v1 mode=report device=GPU-{DEVICE},limit=1024"));
    let output = container.workload(&["fill", "linear", "512"]);
    assert_eq!(output.line("before").number("total_mib"), 16384, "{}", output.text);
    assert_eq!(output.lines("round")[0].number("allocated_mib"), 15872);
    let usage = usage::read(&container.region()).unwrap();
    assert_eq!(usage.guard, Guard::Reporting);
    assert!(usage.devices[0].peak_bytes > 15 << 30);
}

#[test]
fn mode_off_and_missing_files_change_nothing() {
    for limits in
        ["v1 mode=off device=GPU-8a5f0000-0000-0000-0000-00000000002a,limit=1", "", "v1 mode=maybe"]
    {
        let container = Container::new(limits);
        let output = container.workload(&["fill", "linear", "512"]);
        assert_eq!(output.line("before").number("total_mib"), 16384, "{limits:?}: {}", output.text);
        assert_eq!(output.lines("round")[0].number("allocated_mib"), 15872, "{limits:?}");
        assert!(container.region().is_empty(), "no region in mode off");
    }
}

#[test]
fn limit_below_the_context_is_an_ordinary_out_of_memory() {
    for limit in [0, 100, 499] {
        let output = enforced(limit).workload(&["info"]);
        assert_eq!(
            (output.code, output.line("context").number("context")),
            (2, 2),
            "{}",
            output.text
        );
    }
    assert_eq!(enforced(500).workload(&["info"]).code, 0);
}

#[test]
fn device_without_a_limit_is_refused_unless_the_file_says_otherwise() {
    let limits = format!("v1 mode=enforce device=GPU-{DEVICE},limit=2048");
    let devices = format!("{OTHER_DEVICE},{DEVICE}").replace('-', "");
    let second = [("STUB_CUDA_DEVICES", devices.as_str()), ("WORKLOAD_DEVICE", "1")];
    let output = Container::new(&limits).workload_with(&["fill", "linear", "64"], &second);
    assert!(
        output.line("full").number("own_mib") <= 2048,
        "limits follow the UUID: {}",
        output.text
    );
    let first = [("STUB_CUDA_DEVICES", devices.as_str()), ("WORKLOAD_DEVICE", "0")];
    assert_eq!(Container::new(&limits).workload_with(&["info"], &first).code, 2);
    let passing = format!("{limits} other-devices=pass");
    let line = Container::new(&passing).workload_with(&["info"], &first).line("info");
    assert_eq!(line.number("total_mib"), 16384);
}

#[test]
fn context_size_of_the_file_is_charged_where_nvml_lists_no_process() {
    let limits = format!("v1 mode=enforce context=700 device=GPU-{DEVICE},limit=2048");
    let blind = [("STUB_NVML_SEES_NO_PID", "1")];
    let line = Container::new(&limits).workload_with(&["info"], &blind).line("info");
    assert_eq!(line.number("free_mib"), 2048 - 700);
}

#[test]
fn broken_limits_and_regions_follow_the_failure_policy_and_say_why() {
    let broken = "v1 mode=enforce device=GPU-1,limit=1";
    let container = Container::new(broken);
    assert_eq!(container.workload(&["info"]).code, 2, "refused");
    let usage = usage::read(&container.region()).unwrap();
    assert!(matches!(usage.guard, Guard::Failed(reason) if reason.contains("not a device UUID")));
    let passing = Container::new(&format!("{broken} on-failure=pass"));
    assert_eq!(passing.workload(&["info"]).line("info").number("total_mib"), 16384);

    let limits = format!("v1 mode=enforce device=GPU-{DEVICE},limit=2048");
    let container = Container::new(&limits);
    std::fs::write(container.root().join("usage/region"), vec![7; 1 << 20]).unwrap();
    assert_eq!(
        container.workload(&["info"]).code,
        2,
        "a file of another program is not overwritten"
    );
    let container = Container::new(&limits);
    std::fs::remove_dir(container.root().join("usage")).unwrap();
    assert_eq!(container.workload(&["info"]).code, 2, "no folder for the region");
    let container = Container::new(&format!("{limits} on-failure=pass"));
    std::fs::remove_dir(container.root().join("usage")).unwrap();
    assert_eq!(container.workload(&["info"]).code, 0);
}

#[test]
fn unknown_pointers_are_the_drivers_business() {
    let output = enforced(LIMIT_MIB).workload(&["unknown"]);
    assert!(output.text.contains("free of 4096 code 1"), "the driver's own error: {}", output.text);
    assert!(output.text.contains("cuMemFreeAsync of linear code 0"));
    assert!(output.text.contains("cuMemFree of async code 0"));
    assert_eq!(output.line("after").number("nvml_used_mib"), CONTEXT_MIB, "{}", output.text);
}

#[test]
fn forked_child_neither_inherits_nor_frees() {
    let output = enforced(LIMIT_MIB).workload(&["fork", "1000"]);
    assert!(output.text.contains("child status 0"), "{}", output.text);
    let parent = output.lines("parent");
    assert_eq!(parent[0].number("nvml_used_mib"), CONTEXT_MIB + 1000);
    assert_eq!(parent[1].number("nvml_used_mib"), CONTEXT_MIB + 1000);
    assert_eq!(output.line("freed").number("nvml_used_mib"), CONTEXT_MIB);
}

#[test]
fn charge_of_a_killed_process_is_recovered() {
    let container = enforced(LIMIT_MIB);
    let mut holder = container.hold(6000);
    let during = container.workload(&["fill", "linear", "64"]);
    assert!(during.lines("round")[0].number("allocated_mib") < 1300, "{}", during.text);
    holder.kill().unwrap();
    // The signal is delivered later on a busy machine; a process that ended and is not reaped is in state Z.
    let stat = format!("/proc/{}/stat", holder.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let zombie = container.workload(&["fill", "linear", "64"]);
    assert_eq!(
        zombie.lines("round")[0].number("allocated_mib"),
        7680,
        "not even reaped: {}",
        zombie.text
    );
    holder.wait().unwrap();
}

#[test]
fn charge_of_a_process_that_became_another_program_is_recovered() {
    let container = enforced(LIMIT_MIB);
    let mut other = container.start(&["exec", "6000"]);
    // The line is printed before the process becomes the other program.
    let program = format!("/proc/{}/comm", other.id());
    while std::fs::read_to_string(&program).unwrap().trim() != "cat" {
        std::thread::yield_now();
    }
    let after = container.workload(&["fill", "linear", "64"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(after.lines("round")[0].number("allocated_mib"), 7680, "{}", after.text);
}

#[test]
fn eight_threads_stay_within_the_limit() {
    let output = enforced(2048).workload(&["hammer", "8", "1500"]);
    let line = output.line("hammer");
    assert!(line.number("highest_own_mib") <= 2048, "{}", output.text);
    assert!(line.number("refusals") > 0 && line.number("successes") > 100, "{}", output.text);
    assert_eq!(output.line("after").number("nvml_used_mib"), CONTEXT_MIB, "{}", output.text);
}

#[test]
fn raised_limit_works_in_a_running_process() {
    let container = enforced(1024);
    let mut holder = container.hold(100);
    assert_eq!(container.workload(&["info"]).code, 2, "two contexts do not fit");
    container.write_limits(&format!("v1 mode=enforce device=GPU-{DEVICE},limit=4096"));
    assert_eq!(container.workload(&["info"]).code, 0);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn burst_is_refused_while_neighbors_requests_are_uncovered() {
    let limits =
        |more: &str| format!("v1 mode=enforce device=GPU-{DEVICE},limit=8192,request=4096{more}");
    let filled = |limits: &str| {
        let output = Container::new(limits).workload(&["fill", "linear", "64"]);
        output.line("full").number("own_mib")
    };
    assert!(filled(&limits(",neighbors=12288")) <= 4096 + 64, "the card has 16384: no burst");
    assert!(filled(&limits(",uncovered=10240")) <= 6144);
    assert!(filled(&limits("")) > 8000, "nothing is said of neighbours");
}

/// Two containers on one device: the first may burst, the second gets its request whenever it comes.
#[test]
fn burst_of_one_container_leaves_the_request_of_another() {
    let card = Container::new("");
    let file = card.root().join("device");
    let shared = [("STUB_CUDA_SHARED", file.to_str().unwrap())];
    let limits = |limit: u64, request: u64, neighbors: u64| {
        let device = format!("GPU-{DEVICE},limit={limit},request={request},neighbors={neighbors}");
        Container::new(&format!("v1 mode=enforce device={device}"))
    };
    let full = |container: &Container| {
        let output = container.workload_with(&["fill", "linear", "64"], &shared);
        assert_eq!(output.code, 0, "{}", output.text);
        output.line("full").number("own_mib")
    };
    let (burst, neighbor) = (limits(12_288, 4096, 8192), limits(8192, 8192, 4096));
    let alone = full(&burst);
    assert!(
        (8000..=8192).contains(&alone),
        "above the request, not what the neighbour asked for: {alone}"
    );
    let mut holder = burst.start_with(&["hold", "7600"], &shared);
    let requested = full(&neighbor);
    assert!((8000..=8192).contains(&requested), "the request is there: {requested}");
    holder.kill().unwrap();
    holder.wait().unwrap();

    std::fs::remove_file(&file).unwrap();
    let greedy = Container::new(&format!("v1 mode=enforce device=GPU-{DEVICE},limit=12288"));
    let mut holder = greedy.start_with(&["hold", "11700"], &shared);
    let left = full(&neighbor);
    assert!(left < 4300, "without the rule memory once given is gone: {left}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn programs_without_cuda_behave_as_ever() {
    let container = enforced(1024);
    for (program, arguments, code) in [
        ("true", &[][..], 0),
        ("false", &[], 1),
        ("sh", &["-c", "exit 7"], 7),
        ("sh", &["-c", "kill -9 $$"], -9),
    ] {
        let output = container.preloaded(Command::new(program).args(arguments));
        assert_eq!(Output::exit_code(output.status), code, "{program} {arguments:?}");
        assert!(output.stderr.is_empty(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(container.region().is_empty());
}
