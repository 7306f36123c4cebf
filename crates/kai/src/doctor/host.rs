//! A host as it is.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use kai_doctor::host::HostFacts;

/// Arguments of `kai doctor node`.
#[derive(Args)]
pub(super) struct HostArguments {
    /// Folder where the host's root is mounted, if this runs in a container.
    #[arg(long, default_value = "/", value_name = "FOLDER")]
    root: PathBuf,

    /// Part of the image name to look for.
    #[arg(long, default_value = "kai", value_name = "TEXT")]
    image: String,

    /// Name of the node in the cluster [default: the host name].
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

/// Reads the files of the host and the images of its container runtime.
pub(super) fn facts(arguments: &HostArguments) -> HostFacts {
    let own_name = || said("uname", &["-n"]).map(|name| name.trim().to_owned());
    HostFacts {
        root: arguments.root.clone(),
        images: images(),
        image: arguments.image.clone(),
        node: arguments.node_name.clone().or_else(own_name).unwrap_or_else(|| "NODE".to_owned()),
    }
}

/// What k3s, or containerd, has; none where neither answers.
fn images() -> Option<Vec<String>> {
    let k3s = || said("k3s", &["ctr", "images", "list", "-q"]);
    let containerd = || said("ctr", &["-n", "k8s.io", "images", "list", "-q"]);
    let listed = k3s().or_else(containerd)?;
    Some(listed.lines().map(str::to_owned).collect())
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
