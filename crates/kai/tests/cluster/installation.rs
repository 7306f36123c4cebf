//! The control plane with everything of ours installed.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use kai_testenv::{ControlPlane, Impossible};
use tokio::sync::OnceCell;

/// The binary under test.
pub(crate) const KAI: &str = env!("CARGO_BIN_EXE_kai");

static PLANE: OnceCell<Result<Arc<ControlPlane>, Impossible>> = OnceCell::const_new();

/// The control plane with everything installed; why not where there can be none here.
#[allow(dead_code, reason = "the list of cases has one whose requests are recorded")]
pub(crate) async fn plane() -> Result<&'static Arc<ControlPlane>, &'static Impossible> {
    PLANE.get_or_init(new_plane).await.as_ref()
}

/// A control plane of the test's own.
#[allow(dead_code, reason = "see above")]
pub(crate) async fn new_plane() -> Result<Arc<ControlPlane>, Impossible> {
    plane_with(&[]).await
}

/// A control plane of the test's own, whose API server has these further arguments.
pub(crate) async fn plane_with(arguments: &[&str]) -> Result<Arc<ControlPlane>, Impossible> {
    let plane = ControlPlane::start_with(arguments).await.expect("a control plane")?;
    install(&plane);
    Ok(Arc::new(plane))
}

/// `kai manifests | kubectl apply`, and the kind of a workload that its operator would install.
pub(crate) fn install(plane: &ControlPlane) {
    let manifests = Command::new(KAI)
        .args(["manifests", "--deploy", "nothing"])
        .output()
        .expect("kai manifests runs");
    assert!(manifests.status.success());
    let documents = String::from_utf8(manifests.stdout).expect("text");
    let (crds, rest) =
        documents.split_at(documents.find("\n---\napiVersion: v1\n").expect("CRDs first"));
    let kubeflow = include_str!("pytorchjobs.yaml");
    kubectl(plane, &["apply", "--server-side", "-f", "-"], &format!("{crds}\n---\n{kubeflow}"));
    // Until a definition has a status at all, `kubectl wait` gives up at once.
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    assert!((0..20).any(|_| try_kubectl(plane, &wait, "")), "the definitions are established");
    kubectl(plane, &["apply", "--server-side", "-f", "-"], rest);
}

fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) {
    assert!(try_kubectl(plane, arguments, input), "kubectl {arguments:?}");
}

fn try_kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> bool {
    let mut child = Command::new(plane.program("kubectl"))
        .arg("--kubeconfig")
        .arg(plane.admin_kubeconfig())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("kubectl starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait().expect("it ends").success()
}

/// Prints past the test harness, which would capture the text.
#[allow(dead_code, reason = "only the list of cases prints past the harness")]
pub(crate) fn print_past_harness(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
