//! The chart from a Git repository, by Argo CD's engine: installed, repaired and removed while a real kubelet runs our image.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use kai_testenv::{Process, free_port, gitops};
use serde_json::{Value, json};

use crate::installation::print_past_harness;
use crate::release::{CHART, NAMESPACE, Release, with_helm};

/// Lines of the engine's log that are shown when a test fails.
const LAST_LINES: usize = 40;
/// How often the engine compares the cluster with the repository.
const RESYNC_SECONDS: &str = "3";
const CONFIG: &str = "/apis/kai.scheduler/v1/configs/kai-config";

/// A repository, and the engine that makes the cluster what the repository says.
struct Engine {
    _process: Process,
    repository: PathBuf,
    log: PathBuf,
}

impl Engine {
    fn start(release: &Release, program: &Path) -> Self {
        let repository = release.site.folder.join("repository");
        std::fs::create_dir_all(&repository).expect("a folder");
        git(&repository, &["init", "-q"]);
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let manifest = release.helm(&format!(
            "template kai-scheduler {CHART} -n {NAMESPACE} --include-crds --set global.gpuSharing=true --set kaiConfig.render=true"
        ));
        std::fs::write(repository.join("namespace.json"), namespace.to_string()).expect("a file");
        std::fs::write(repository.join("release.yaml"), manifest).expect("a file");
        commit(&repository);
        let log = release.site.folder.join("gitops.log");
        let port = free_port().expect("a port").to_string();
        let arguments: [&str; 9] = [
            &repository.display().to_string(),
            "--kubeconfig",
            &release.site.plane.admin_kubeconfig().display().to_string(),
            "--default-namespace",
            NAMESPACE,
            "--resync-seconds",
            RESYNC_SECONDS,
            "--port",
            &port,
        ];
        let process = Process::start(program, &arguments, Some(&log), None).expect("it starts");
        Self { _process: process, repository, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the engine has compared everything once more.
    async fn wait_synced(&self, release: &Release) {
        let count = || self.log().lines().filter(|line| line.starts_with("RESOURCE")).count();
        let before = count();
        release.site.world.wait("the engine compares", async || count() > before).await;
    }

    /// The objects of the repository as the cluster has them, each with what a write changes.
    fn objects(&self, release: &Release) -> Vec<Value> {
        let file = self.repository.join("release.yaml");
        let printed = release.kubectl(&format!("get -f {} -o json", file.display()));
        let list: Value = serde_json::from_str(&printed).expect("JSON");
        let version = |object: &Value| {
            let metadata = &object["metadata"];
            let is_counted = metadata["generation"].is_u64();
            let version = if is_counted { "generation" } else { "resourceVersion" };
            json!([object["kind"], metadata["name"], metadata[version]])
        };
        list["items"].as_array().expect("items").iter().map(version).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LAST_LINES)..];
            eprintln!("-- gitops\n{}", tail.join("\n"));
        }
    }
}

fn git(repository: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(repository).args(["-c", "user.name=test", "-c", "user.email=test@example"]);
    assert!(git.args(arguments).status().expect("git runs").success(), "{arguments:?}");
}

fn commit(repository: &Path) {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "-q", "-m", "change", "--no-gpg-sign"]);
}

#[test]
#[ignore = "builds Argo CD's engine: run with --ignored"]
fn gitops_engine_installs_repairs_and_removes_the_release() {
    let test = "gitops::gitops_engine_installs_repairs_and_removes_the_release";
    let program = match gitops().expect("the engine builds") {
        Ok(program) => program,
        Err(why) => return why.skip(test),
    };
    with_helm(test, async move |helm| {
        let release = Release::new("gitops", helm).await;
        let world = &release.site.world;
        let started = Instant::now();
        let engine = Engine::start(&release, &program);
        engine.wait_synced(&release).await;
        release.wait_ready().await;
        print_past_harness(&format!(
            "{:.1} s: the first synchronization\n",
            started.elapsed().as_secs_f64()
        ));
        release.wait_healthy().await;
        release.share("first").await;
        let before = release.workload(&["first"]).await;

        let objects = engine.objects(&release);
        let old = world.get(CONFIG).await.expect("the Config");
        world.delete(CONFIG, &json!({})).await;
        let is_new = async || {
            world
                .get(CONFIG)
                .await
                .is_some_and(|new| new["metadata"]["uid"] != old["metadata"]["uid"])
        };
        world.wait("the Config is created again", is_new).await;
        release.wait_healthy().await;
        release.share("second").await;
        assert_eq!(release.workload(&["first"]).await, before);
        let both = release.workload(&["first", "second"]).await;
        engine.wait_synced(&release).await;
        assert_eq!(engine.objects(&release), objects, "the engine and kai change nothing in turn");
        let queues = release.queues().await;

        let manifest = std::fs::read_to_string(engine.repository.join("release.yaml"));
        std::fs::remove_file(engine.repository.join("release.yaml")).expect("the file");
        commit(&engine.repository);
        release.wait_removed(&manifest.expect("the manifest")).await;
        assert_eq!(release.workload(&["first", "second"]).await, both, "without a scheduler");
        assert_eq!(release.queues().await, queues, "queues are kept");
        print_past_harness(&format!("{:.1} s: all of it\n", started.elapsed().as_secs_f64()));
    });
}
