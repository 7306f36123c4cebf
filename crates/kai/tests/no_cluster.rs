//! Where no cluster can be found, that is said once.

use std::process::Command;

/// What `kai` complains of where nothing tells of a cluster.
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
        let told = complaint(arguments);
        assert!(told.starts_with("kai: cannot find a cluster: "), "{told}");
        assert_eq!(told.matches("/nonexistent/kubeconfig").count(), 1, "{told}");
        assert_eq!(told.matches("No such file or directory").count(), 1, "{told}");
        assert_eq!(told.matches("incluster").count(), 1, "{told}");
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named_once() {
    let told = complaint(&["run", "--kubeconfig", "/nonexistent/other"]);
    assert!(told.starts_with("kai: cannot use the kubeconfig: "), "{told}");
    assert_eq!(told.matches("/nonexistent/other").count(), 1, "{told}");
    assert_eq!(told.matches("No such file or directory").count(), 1, "{told}");
}
