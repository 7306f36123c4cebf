//! `kai agent numa` beside a kubelet that is played: what it observes stands on the pods, and the planner counts it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use kai_e2e::cluster::Cluster;
use kai_e2e::objects::{pod, queue};
use kai_e2e::settings;
use kai_e2e::test_space::TestSpace;
use kai_e2e::zones::{OBSERVED, zoned_node, zones_of};
use tokio::net::UnixListener;
use tokio::sync::OnceCell;

use crate::kubelet_socket::{self, Answer, field, serve};
use crate::real::Real;
use crate::rights::Act;
use crate::site;

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("kai-numa-{}", std::process::id()));
        for (zone, cores) in [("node0", "0-3\n"), ("node1", "4-7\n")] {
            let zone = path.join("sys/devices/system/node").join(zone);
            std::fs::create_dir_all(&zone).expect("a folder");
            std::fs::write(zone.join("cpulist"), cores).expect("a file");
        }
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pod that has a core and four GPUs of a zone.
fn holder(namespace: &str, name: &str, zone: u8, core: u8) -> Vec<u8> {
    let topology = field(3, &field(1, &[8, zone]));
    let ids: Vec<u8> = (0..4).flat_map(|at| field(2, format!("G{at}").as_bytes())).collect();
    let devices = [field(1, b"nvidia.com/gpu"), ids, topology].concat();
    let container = [field(2, &devices), field(3, &[core])].concat();
    kubelet_socket::pod(namespace, name, &container)
}

/// The annotation of a pod.
async fn observed(space: &TestSpace, name: &str) -> anyhow::Result<Option<String>> {
    let pod = space.see_pod(name).await?.unwrap_or_default();
    Ok(pod["metadata"]["annotations"][OBSERVED].as_str().map(str::to_owned))
}

static PLAYED: OnceCell<BTreeSet<Act>> = OnceCell::const_new();

/// Plays it once, whichever test asks first; what our accounts did by then.
pub(crate) async fn played() -> &'static BTreeSet<Act> {
    PLAYED.get_or_init(async || play().await.expect("the agent of a node")).await
}

#[tokio::test]
async fn what_the_agent_of_a_node_observes_is_what_counts() {
    played().await;
}

async fn play() -> anyhow::Result<BTreeSet<Act>> {
    let site = match site().await {
        Ok(site) => site,
        Err(why) => {
            why.skip("the agent of a node");
            return Ok(BTreeSet::new());
        }
    };
    let plane = Arc::clone(&site.plane);
    let folder = Folder::new();
    let message = Answer::default();
    let played = tokio::spawn(serve(UnixListener::bind(folder.path("socket"))?, message.clone()));
    let client = plane.admin().await?;
    let real = Arc::new(Real { plane, client });
    let cluster: Arc<dyn Cluster> = real.clone();
    let space = TestSpace::open(cluster, "numa-agent", Arc::default()).await?;
    zoned_node(&space, "n", "single-numa-node").await?;
    space.queue(&queue("q")).await?;
    let node = space.node_name("n");
    let (socket, sys) = (folder.path("socket"), folder.path("sys"));
    let flags = ["--podresources-socket", &socket, "--sysfs-root", &sys, "--node-name", &node];
    let more = ["--poll-interval", "200ms", "--drift-resync-interval", "1s"];
    let arguments = [&["agent", "numa"][..], &flags, &more].concat();
    let _agent = real.start("numa-placement-exporter", &arguments).await?;
    space.start_as(&settings::aligned(), &[]).await?;

    // The planner predicts the first zone; the kubelet takes the other.
    let zone = |name: &str| pod(name, "q").cpu("1").asks("memory", "1Gi").gpus(4);
    space.pod(&zone("first")).await?;
    space.scheduled(&["first"]).await?;
    assert_eq!(zones_of(&space, "first").await?, ["node-0"]);
    *message.lock().expect("it") = holder(&space.name, "first", 1, 4);
    let expected = r#"[{"zone":"node-1","amount":{"cpu":"1","nvidia.com/gpu":"4"}}]"#;
    let is_reported = async || Ok(observed(&space, "first").await?.as_deref() == Some(expected));
    space.until("the agent reports the zone", is_reported).await?;
    space.pod(&zone("second")).await?;
    space.scheduled(&["second"]).await?;
    assert_eq!(zones_of(&space, "second").await?, ["node-0"], "what is observed counts");

    // What another writer wrote is corrected, and what no longer holds is removed.
    let path = format!("/api/v1/namespaces/{}/pods/first", space.name);
    let wrong = serde_json::json!({"metadata": {"annotations": {OBSERVED: "[]"}}});
    space.patch(&path, &wrong).await?;
    space.until("the agent corrects the annotation", is_reported).await?;
    let pod = [field(1, b"first"), field(2, space.name.as_bytes())].concat();
    *message.lock().expect("it") = field(1, &pod);
    let is_gone = async || Ok(observed(&space, "first").await?.is_none());
    space.until("the agent takes it back", is_gone).await?;
    played.abort();
    space.close().await;
    Ok(site.acts())
}
