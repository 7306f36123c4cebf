//! Files that a node's programs read.

use std::path::Path;

use serde_json::{Value, json};

use super::{NvidiaRuntime, PAUSE};

/// The kubelet's settings. JSON is YAML.
pub(super) fn kubelet(plane: &Path, node: &Path, address: &str, cgroup: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": 10250,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": plane.join("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": node.join("serving.crt"),
        "tlsPrivateKeyFile": node.join("serving.key"),
        "containerRuntimeEndpoint": format!("unix://{}", socket(node)),
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": false,
        "failSwapOn": false,
        "resolvConf": "",
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "4s",
        "logging": {"verbosity": 2},
    })
}

/// Configuration file of containerd.
pub(super) fn containerd(node: &Path, runtime: &NvidiaRuntime) -> String {
    let (node_path, socket) = (node.display(), socket(node));
    let wrapper = match runtime {
        NvidiaRuntime::Absent => String::new(),
        NvidiaRuntime::MountsNothing => handler("nvidia", ""),
        NvidiaRuntime::MountsLibraries(_) => {
            let program = format!("BinaryName = \"{}\"", node.join("nvidia-runtime").display());
            handler("nvidia", &program)
        }
    };
    let runc = handler("runc", "");
    // Not every machine lets runc lower the score by which the kernel picks processes when memory runs out.
    format!(
        r#"version = 2
root = "{node_path}/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{node_path}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{node_path}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
{runc}{wrapper}"#
    )
}

/// Path of containerd's socket.
pub(super) fn socket(node: &Path) -> String {
    node.join("containerd.sock").display().to_string()
}

fn handler(name: &str, option: &str) -> String {
    let at = format!("plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.{name}");
    format!(
        "[{at}]\n  runtime_type = \"io.containerd.runc.v2\"\n[{at}.options]\n  SystemdCgroup = false\n  {option}\n"
    )
}

/// How pods are linked to the node: by a bridge of the sandbox, to nowhere but the services.
pub(super) fn network(bridge: &str, number: u8) -> Value {
    let subnet = format!("10.201.{number}");
    json!({"cniVersion": "1.0.0", "name": bridge, "plugins": [{
        "type": "bridge",
        "bridge": bridge,
        "isGateway": false,
        "ipMasq": false,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni-ipam",
            "ranges": [[{
                "subnet": format!("{subnet}.0/24"),
                "rangeStart": format!("{subnet}.10"),
                "rangeEnd": format!("{subnet}.250"),
            }]],
            "routes": [{"dst": "10.0.0.0/24", "gw": format!("{subnet}.1")}],
        },
    }]})
}
