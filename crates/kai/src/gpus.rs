//! `kai gpus`: the GPUs of a cluster, and the pods that use them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_binder::listing;
use kai_binder::{DeviceGpus, NodeGpus};
use kai_client::client;
use kai_settings::binder::BinderSettings;

use crate::{output, text_layout};

const EXAMPLES: &str = "\
Examples:
  kai gpus             every node with GPUs: advertised and physical devices, and the pods on each
  kai gpus --json      the same for scripts

The nodes carry the same as an annotation: kubectl get node NAME -o jsonpath='{.metadata.annotations.kai\\.scheduler/gpu-shares}'";

/// Arguments of `kai gpus`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GpusArguments {
    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,

    /// Namespace of reservation pods.
    #[arg(long, default_value = "kai-resource-reservation", value_name = "NAME")]
    resource_reservation_namespace: String,

    /// Value of the app label of reservation pods.
    #[arg(long, default_value = "kai-resource-reservation", value_name = "NAME")]
    resource_reservation_app_label: String,
}

/// Prints them; the exit status.
pub(crate) fn run(arguments: &GpusArguments) -> anyhow::Result<u8> {
    let mut settings = BinderSettings::default();
    settings.reservation.namespace.clone_from(&arguments.resource_reservation_namespace);
    settings.reservation.app_label.clone_from(&arguments.resource_reservation_app_label);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let gpus = runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        listing::gpus(&client, &settings).await.context("cannot read nodes and pods")
    })?;
    let text =
        if arguments.json { serde_json::to_string_pretty(&gpus)? + "\n" } else { table(&gpus) };
    output::print(&text)?;
    Ok(0)
}

const HEAD: [&str; 8] =
    ["NODE", "ADVERTISED", "PHYSICAL", "DEVICE", "UUID", "USED/TOTAL MiB", "PODS", "ENFORCED"];

fn table(nodes: &[NodeGpus]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for node in nodes {
        let start = [node.node.clone(), node.advertised.to_string(), node.physical.to_string()];
        let dash = || "-".to_owned();
        if !node.whole.is_empty() {
            let [name, advertised, physical] = start.clone();
            let pods: Vec<String> =
                node.whole.iter().map(|(pod, count)| format!("{pod} ({})", gpus(*count))).collect();
            let count = node.whole_count();
            let used =
                node.memory_mib.map_or("unknown".to_owned(), |mib| format!("{0}/{0}", mib * count));
            let device = format!("{count} whole");
            rows.push([name, advertised, physical, device, dash(), used, pods.join(" "), dash()]);
        }
        if node.devices.is_empty() && (node.whole.is_empty() || node.trouble.is_some()) {
            let known = node.memory_mib.filter(|_| node.trouble.is_none());
            let all = known.map(|mib| mib * node.physical);
            let memory = all.map_or("unknown".to_owned(), |mib| mib.to_string());
            let said = node.trouble.unwrap_or("none in use").to_owned();
            let [name, advertised, physical] = start.clone();
            let used = format!("0/{memory}");
            rows.push([name, advertised, physical, dash(), dash(), used, said, dash()]);
        }
        for device in &node.devices {
            let [name, advertised, physical] = start.clone();
            let pods: Vec<String> =
                device.pods.iter().map(|(pod, mib)| share(device, pod, *mib)).collect();
            let enforced = enforcement(device);
            let held = device.held_mib.map(|mib| format!(" ({mib} held)")).unwrap_or_default();
            let used = format!("{}/{}{held}", device.used_mib, device.total_mib);
            let (device, uuid) = (device.groups.join(","), device.uuid.clone());
            let pods = pods.join(" ");
            rows.push([name, advertised, physical, device, uuid, used, pods, enforced]);
        }
    }
    text_layout::table(&rows, "")
}

/// A pod with its granted MiB, and the MiB that its processes hold if known.
fn share(device: &DeviceGpus, pod: &str, mib: i64) -> String {
    match device.processes_mib.get(pod) {
        Some(held) => format!("{pod} ({mib}, holds {held})"),
        None => format!("{pod} ({mib})"),
    }
}

/// Whether limits on a device are kept: one word where all pods say the same, else every pod with what it says.
fn enforcement(device: &DeviceGpus) -> String {
    let said = |pod: &String| device.enforcement.get(pod).map_or("unknown", String::as_str);
    let all: BTreeSet<&str> = device.pods.keys().map(said).collect();
    match all.len() {
        0 => "-".to_owned(),
        1 => all.into_iter().collect(),
        _ => {
            let each: Vec<String> =
                device.pods.keys().map(|pod| format!("{pod}: {}", said(pod))).collect();
            each.join("; ")
        }
    }
}

fn gpus(count: i64) -> String {
    if count == 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_row_per_device_and_one_for_nodes_that_share_none() {
        let device = DeviceGpus {
            groups: vec!["g1".to_owned()],
            uuid: "GPU-1".to_owned(),
            used_mib: 16_000,
            total_mib: 32_600,
            pods: [("a/p".to_owned(), 8000), ("a/q".to_owned(), 8000)].into(),
            enforced: false,
            enforcement: [
                ("a/p".to_owned(), "enforced".to_owned()),
                ("a/q".to_owned(), "off".to_owned()),
            ]
            .into(),
            processes_mib: [("a/p".to_owned(), 512)].into(),
            held_mib: Some(700),
        };
        let node = |name: &str, devices, memory_mib, trouble| NodeGpus {
            node: name.to_owned(),
            advertised: 100,
            physical: 1,
            memory_mib,
            trouble,
            devices,
            whole: BTreeMap::new(),
        };
        let shown = table(&[
            node("n1", vec![device], Some(32_600), None),
            node("n2", Vec::new(), None, Some("the memory of its GPUs is not known")),
        ]);
        let expected = "\
NODE  ADVERTISED  PHYSICAL  DEVICE  UUID   USED/TOTAL MiB          PODS                                 ENFORCED
n1    100         1         g1      GPU-1  16000/32600 (700 held)  a/p (8000, holds 512) a/q (8000)     a/p: enforced; a/q: off
n2    100         1         -       -      0/unknown               the memory of its GPUs is not known  -
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn idle_node_shows_the_memory_of_all_its_gpus() {
        let node = NodeGpus {
            node: "n1".to_owned(),
            advertised: 4,
            physical: 4,
            memory_mib: Some(80_000),
            trouble: None,
            devices: Vec::new(),
            whole: BTreeMap::new(),
        };
        let expected = "\
NODE  ADVERTISED  PHYSICAL  DEVICE  UUID  USED/TOTAL MiB  PODS         ENFORCED
n1    4           4         -       -     0/320000        none in use  -
";
        assert_eq!(table(&[node]), expected);
    }

    #[test]
    fn whole_gpus_are_in_use() {
        let node = NodeGpus {
            node: "n1".to_owned(),
            advertised: 8,
            physical: 8,
            memory_mib: Some(80_000),
            trouble: None,
            devices: Vec::new(),
            whole: [("a/p".to_owned(), 7), ("b/q".to_owned(), 1)].into(),
        };
        let expected = "\
NODE  ADVERTISED  PHYSICAL  DEVICE   UUID  USED/TOTAL MiB  PODS                      ENFORCED
n1    8           8         8 whole  -     640000/640000   a/p (7 GPUs) b/q (1 GPU)  -
";
        assert_eq!(table(&[node]), expected);
    }
}
