//! Install, upgrade, uninstall and install again with Helm, while pods share a GPU: a real kubelet runs our own image.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::installation::print_past_harness;
use crate::release::{NAMESPACE, NEXT, Release, VERSION, with_helm};

#[test]
fn pods_that_share_a_gpu_outlive_upgrade_and_reinstallation() {
    let test = "lifecycle::pods_that_share_a_gpu_outlive_upgrade_and_reinstallation";
    with_helm(test, async |helm| {
        let release = Release::new("lifecycle", helm).await;
        release.install(VERSION, "").await;
        release.share("first").await;
        let before = release.workload(&["first"]).await;
        release.edit_default_queue().await;
        release.create_queue("team").await;
        let queues = release.queues().await;
        release.age_definition().await;

        release.upgrade(VERSION, "--set 'scheduler.additionalArgs[0]=--v=4'").await;
        assert!(
            release.definition_is_current().await,
            "the new processes applied their definition"
        );
        release.share("second").await;
        assert_eq!(release.workload(&["first"]).await, before, "after the upgrade");
        let both = release.workload(&["first", "second"]).await;

        release.uninstall().await;
        assert_eq!(release.workload(&["first", "second"]).await, both, "without a scheduler");
        assert_eq!(release.queues().await, queues, "queues are kept, and so are changes of users");

        release.install(VERSION, "").await;
        release.create_sharing("third", "team").await;
        release.site.wait_running("third").await;
        assert_eq!(release.workload(&["first", "second"]).await, both, "installed again");
        assert_eq!(release.site.reservations().await.len(), 1, "the reservation is adopted");
        assert_eq!(release.queues().await, queues, "the second installation changes no queue");
        release.remove_workload(&["first", "second", "third"]).await;
    });
}

#[test]
fn versions_go_up_and_down_while_pods_share_a_gpu() {
    let test = "lifecycle::versions_go_up_and_down_while_pods_share_a_gpu";
    with_helm(test, async |helm| {
        let release = Release::new("versions", helm).await;
        release.install(VERSION, "--set kaiConfig.render=true").await;
        release.share("first").await;
        let before = release.workload(&["first"]).await;
        release.edit_default_queue().await;
        let queues = release.queues().await;

        release.import(NEXT);
        release.age_definition().await;
        release.upgrade(NEXT, "").await;
        assert_eq!(release.images().await, [image(NEXT)]);
        assert!(release.definition_is_current().await, "the definition is that of the new version");
        release.wait_healthy().await;
        release.create_queue("team").await;
        release.create_sharing("second", "team").await;
        release.site.wait_running("second").await;
        assert_eq!(release.workload(&["first"]).await, before, "after the upgrade");
        let both = release.workload(&["first", "second"]).await;

        release.age_definition().await;
        release.roll_out(&format!("rollback kai-scheduler -n {NAMESPACE}")).await;
        assert_eq!(release.images().await, [image(VERSION)]);
        assert!(release.definition_is_current().await, "the definition is that of the old version");
        release.share("third").await;
        assert_eq!(release.workload(&["first", "second"]).await, both, "after the way back");
        assert_eq!(release.site.reservations().await.len(), 1, "the reservation is adopted");
        let kept = release.queues().await;
        assert!(queues.iter().all(|queue| kept.contains(queue)), "{queues:?} are not in {kept:?}");
        release.remove_workload(&["first", "second", "third"]).await;
    });
}

#[test]
fn pod_that_arrives_while_the_leader_dies_is_bound() {
    let test = "lifecycle::pod_that_arrives_while_the_leader_dies_is_bound";
    with_helm(test, async |helm| {
        let release = Release::new("leaders", helm).await;
        release.install(VERSION, "").await;
        release.share("first").await;
        let before = release.workload(&["first"]).await;

        // It dies while it binds a pod, and leaves its lease as it is.
        let leader = release.leader().await;
        release.create_sharing("bound", "default-queue").await;
        kill_process_of(pod_of(&leader));
        let started = Instant::now();
        release.create_sharing("arrived", "default-queue").await;
        for pod in ["bound", "arrived"] {
            release.site.wait_running(pod).await;
        }
        let next = release.leader().await;
        assert_ne!(next, leader, "another process leads");
        print_past_harness(&format!(
            "a pod runs {:.1} s after the leader was killed\n",
            started.elapsed().as_secs_f64()
        ));
        release.wait_ready().await;

        // It ends in order, as when its node is drained.
        let started = Instant::now();
        release.kubectl(&format!("delete pod -n {NAMESPACE} {} --wait=false", pod_of(&next)));
        release.share("last").await;
        print_past_harness(&format!(
            "a pod runs {:.1} s after the leader was deleted\n",
            started.elapsed().as_secs_f64()
        ));
        assert_ne!(release.leader().await, next, "another process leads");

        let files = release.bundle();
        let leader = pod_of(&release.leader().await).to_owned();
        let holds = |file: &str, text: &str| {
            let file = format!("kai-bundle/{file}");
            let content = files.get(&file).unwrap_or_else(|| panic!("no {file}: {files:#?}"));
            assert!(content.contains(text), "no {text} in {file}: {content}");
        };
        holds(&format!("logs/{leader}.txt"), "bound pod");
        holds(&format!("metrics/{leader}.txt"), "kai_queue_info");
        holds("snapshot.json", "gpu-reservation-");
        holds("deployments.json", "--leader-elect");

        assert_eq!(release.workload(&["first"]).await, before);
        release.workload(&["bound", "arrived", "last"]).await;
        assert_eq!(release.site.reservations().await.len(), 1);
        release.remove_workload(&["first", "bound", "arrived", "last"]).await;
    });
}

impl Release {
    /// The process that holds the lease of the scheduler: its pod, an underscore, and something unique.
    async fn leader(&self) -> String {
        let path =
            format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kai-scheduler");
        let lease = self.site.world.get(&path).await.expect("the lease");
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        assert!(!holder.is_empty(), "a replica leads: {lease}");
        holder.to_owned()
    }

    /// Removes pods; nothing is left of them.
    async fn remove_workload(&self, pods: &[&str]) {
        for pod in pods {
            self.site.remove(pod).await;
        }
        let site = &self.site;
        let is_empty =
            async || site.reservations().await.is_empty() && site.pods().await.is_empty();
        site.world.wait("the reservation goes with the last pod", is_empty).await;
        let requests = "/apis/scheduling.run.ai/v1alpha2";
        let is_empty = async || site.world.list(requests, "bindrequests").await.is_empty();
        site.world.wait("no bind request is left", is_empty).await;
    }
}

fn image(version: &str) -> String {
    format!("localhost/kai-scheduler/kai:{version}")
}

fn pod_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or_default()
}

/// Kills the process of a pod at once, as a crash does. Processes of the node are visible in its sandbox.
fn kill_process_of(pod: &str) {
    let variable = format!("HOSTNAME={pod}");
    let is_of_pod = |process: &Path| {
        let read = |file: &str| std::fs::read(process.join(file)).unwrap_or_default();
        let is_kai = read("cmdline")
            .split(|byte| *byte == 0)
            .next()
            .is_some_and(|program| program.ends_with(b"/kai"));
        is_kai && read("environ").split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let found: Vec<_> =
        processes.map(|process| process.path()).filter(|path| is_of_pod(path)).collect();
    let [process] = &found[..] else { panic!("not one process of {pod}: {found:?}") };
    let number = process.file_name().expect("a number");
    assert!(Command::new("kill").arg("-9").arg(number).status().expect("it runs").success());
}
