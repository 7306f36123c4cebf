//! What a person reads where there is no cluster, or its API server does not serve us: one sentence, whatever the verb.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Every verb that reads a cluster and ends.
const VERBS: [&[&str]; 6] = [
    &["explain", "pod", "p"],
    &["explain", "deployment", "d"],
    &["explain", "queue", "q"],
    &["gpus"],
    &["doctor"],
    &["bundle", "--output", concat!(env!("CARGO_TARGET_TMPDIR"), "/errors-bundle.tar")],
];

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

/// Answers every request with this status, as the API server words it, for as long as the test runs.
fn server(code: u16, reason: &'static str, message: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(&connection, code, reason, message));
        }
    });
    address
}

fn answer_all(connection: &TcpStream, code: u16, reason: &str, message: &str) -> Option<()> {
    let mut lines = BufReader::new(connection);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        lines.read_exact(&mut vec![0; length]).ok()?;
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{code}}}"#
        );
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut writer = connection;
        writer.write_all(format!("{head}{body}").as_bytes()).ok()?;
    }
}

/// An address at which nothing listens.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn kubeconfig(name: &str, address: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kubeconfig"));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    );
    std::fs::write(&path, text).expect("a kubeconfig");
    path
}

/// Everything that `kai` prints.
fn printed(arguments: &[&str], kubeconfig: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kai"));
    let output = command.args(arguments).env("KUBECONFIG", kubeconfig).output().expect("it runs");
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text")).concat()
}

/// What `kai run` logs up to the line that names the failure. It goes on trying until it is killed.
fn logged_until(wanted: &str, kubeconfig: &Path) -> String {
    let mut kai = Command::new(env!("CARGO_BIN_EXE_kai"))
        .args(["run", "--listen-address=0", "--health-probe-bind-address=0"])
        .args(["--plugin-server-port=0", "--only=scheduler"])
        .env("KUBECONFIG", kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(kai.stderr.take().expect("its log")).lines().map_while(Result::ok);
    let mut log = String::new();
    for line in lines {
        log = log + &line + "\n";
        if line.contains(wanted) {
            break;
        }
    }
    kai.kill().expect("it is killed");
    kai.wait().expect("it ends");
    log
}

/// Each verb names the failure in the same words and shows no data structure.
fn assert_one_sentence(name: &str, address: &str, wanted: &str) {
    let kubeconfig = kubeconfig(name, address);
    let texts = VERBS.map(|verb| (verb.join(" "), printed(verb, &kubeconfig)));
    let log = ("run".to_owned(), logged_until(wanted, &kubeconfig));
    for (verb, text) in texts.into_iter().chain([log]) {
        // Long lines are wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(wanted), "kai {verb}: {text}");
        for debug in ["Status {", "ApiError", "Some(", "hyper::Error"] {
            assert!(!text.contains(debug), "kai {verb} shows {debug}: {text}");
        }
    }
}

#[test]
fn unreachable_server_is_one_sentence() {
    assert_one_sentence("unreachable", &closed_port(), "cannot reach the API server:");
}

#[test]
fn rejected_credentials_are_one_sentence() {
    let address = server(401, "Unauthorized", "Unauthorized");
    assert_one_sentence("unauthorized", &address, "the API server rejected the credentials:");
}

#[test]
fn missing_permission_is_one_sentence() {
    const DENIAL: &str = "nodes is forbidden: User kai cannot list resource";
    let address = server(403, "Forbidden", DENIAL);
    assert_one_sentence("forbidden", &address, DENIAL);
}
