//! Where no cluster can be found, that is said once.

use std::process::Command;

/// Error of `kai` without a cluster.
fn complaint(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kai"));
    command.args(arguments).env("KUBECONFIG", "/nonexistent/kubeconfig");
    let output = command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("it runs");
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).expect("text");
    let complaint = said.lines().find(|line| line.starts_with("kai: "));
    complaint.unwrap_or_else(|| panic!("no complaint: {said}")).to_owned()
}

#[test]
fn both_places_are_named_once() {
    for arguments in [&["run"][..], &["explain", "pod", "p"]] {
        let error = complaint(arguments);
        assert!(error.starts_with("kai: cannot find a cluster: "), "{error}");
        assert_eq!(error.matches("/nonexistent/kubeconfig").count(), 1, "{error}");
        assert_eq!(error.matches("No such file or directory").count(), 1, "{error}");
        assert_eq!(error.matches("incluster").count(), 1, "{error}");
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named_once() {
    let error = complaint(&["run", "--kubeconfig", "/nonexistent/other"]);
    assert!(error.starts_with("kai: cannot use the kubeconfig: "), "{error}");
    assert_eq!(error.matches("/nonexistent/other").count(), 1, "{error}");
    assert_eq!(error.matches("No such file or directory").count(), 1, "{error}");
}
