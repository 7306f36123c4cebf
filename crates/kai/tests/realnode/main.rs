//! `kai` with real nodes: a kubelet and containerd start what was placed. Everything runs in a sandbox of its own; where there
//! can be none the tests say that they were skipped. `KAI_TEST_LOG=1` shows what `kai` logs.

mod device_assignment;
mod gitops;
mod guard;
#[allow(dead_code, reason = "what other tests need")]
#[path = "../cluster/in_process.rs"]
mod in_process;
#[allow(dead_code, reason = "what other tests need")]
#[path = "../cluster/installation.rs"]
mod installation;
mod kinds;
mod kubelet;
mod lifecycle;
mod memory;
mod node_failures;
mod release;
mod site;
mod tegra;
#[allow(dead_code, reason = "what other tests need")]
#[path = "../cluster/world.rs"]
mod world;

use std::future::Future;

use kai_testenv::sandbox::{self, Entered};

/// Runs a test inside a sandbox.
fn sandboxed<F: Future<Output = ()>>(test: &'static str, run: impl FnOnce() -> F) {
    match sandbox::enter(test).expect("a sandbox") {
        Entered::Inside => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run());
        }
        Entered::Ran(output) => {
            let text = [output.stdout, output.stderr]
                .map(|text| String::from_utf8_lossy(&text).into_owned());
            if std::env::var_os("KAI_TEST_LOG").is_some() {
                installation::print_past_harness(&text.concat());
            }
            assert!(output.status.success(), "{}", text.concat());
        }
        Entered::Impossible(why) => sandbox::skip(test, &why),
    }
}
