//! A real node: containerd and a kubelet in namespaces of their own, with images made from files and GPUs that do not exist.

mod settings;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::image::Image;
use crate::process::Process;
use crate::sandbox;

const INIT: &str = include_str!("init.sh");
/// The image that holds a pod's namespaces.
const PAUSE: &str = "kai.test/pause:1";
/// Starting takes seconds; on a busy machine many.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(50);

/// What a new node is like.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Name of the node in the API.
    pub name: String,
    /// Different for every node of a sandbox.
    pub number: u8,
    /// Labels it registers with.
    pub labels: Vec<(String, String)>,
    /// Archives of images that it has.
    pub images: Vec<PathBuf>,
    /// What runtime class `nvidia` leads to.
    pub runtime: NvidiaRuntime,
    /// A folder with libraries that this node has under `/usr/lib`, at this path below it.
    pub own_libraries: Option<(PathBuf, String)>,
}

/// What the runtime class `nvidia` does on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvidiaRuntime {
    /// The node does not know it.
    Absent,
    /// It is known and does nothing, as on Tegra.
    MountsNothing,
    /// Containers with devices get the libraries of this folder.
    MountsLibraries(PathBuf),
}

/// A program of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeProgram {
    Kubelet,
    Containerd,
}

impl NodeProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Containerd => "containerd",
        }
    }
}

/// A running node. It ends when this is dropped, and with it all its containers.
#[derive(Debug)]
pub struct Node {
    // Ended in this order.
    plugin: Option<Process>,
    _init: Process,
    folder: PathBuf,
    gpu_programs: PathBuf,
}

impl Node {
    /// Starts a node. The API shows when it is ready.
    pub fn start(plane: &ControlPlane, plan: &NodePlan) -> anyhow::Result<Self> {
        let folder = plane.folder().join(format!("n{}", plan.number));
        for part in ["cni", "containerd", "kubelet", "log"] {
            fs::create_dir_all(folder.join(part)).context("cannot create a node's folder")?;
        }
        let address = format!("10.201.{}.1", plan.number);
        let cgroup = format!("kai-{}-{}", sandbox::number()?, plan.number);
        make_cgroups(&cgroup)?;
        make_bridge(&bridge(plan.number), &address)?;
        let gpu_node = plane.binaries().gpu_node()?;
        write_files(plane, &folder, plan, &address, &cgroup, &gpu_node)?;
        let init = start_init(plane, &folder, plan, &address)?;
        let node = Self { plugin: None, _init: init, folder, gpu_programs: gpu_node };
        node.wait_for_containerd()?;
        let pause = Image::busybox(PAUSE, &["/bin/sleep", "100000000"]).write(&node.folder)?;
        for image in plan.images.iter().chain([&pause]) {
            node.import(image)?;
        }
        File::create(node.folder.join("images")).context("cannot let the kubelet start")?;
        Ok(node)
    }

    /// Advertises so many GPUs so many times each, as NVIDIA's device plugin does, until it is changed. Their UUIDs
    /// begin with `GPU-` and these eight digits.
    pub fn advertise(&mut self, prefix: &str, gpus: u32, replicas: u32) -> anyhow::Result<()> {
        self.plugin = None;
        let folder = self.folder.join("kubelet/device-plugins");
        let (gpus, replicas) = (gpus.to_string(), replicas.to_string());
        let arguments = [
            "plugin".as_ref(),
            folder.as_os_str(),
            prefix.as_ref(),
            gpus.as_ref(),
            replicas.as_ref(),
        ];
        let log = self.folder.join("log/device-plugin.log");
        self.plugin = Some(Process::start(&self.gpu_programs, &arguments, Some(&log), None)?);
        Ok(())
    }

    /// Imports an image archive into containerd.
    pub fn import(&self, archive: &Path) -> anyhow::Result<()> {
        self.ctr(&["images", "import", &archive.display().to_string()]).map(|_| ())
    }

    /// Removes an image from containerd.
    pub fn forget(&self, image: &str) -> anyhow::Result<()> {
        self.ctr(&["images", "rm", "--sync", image]).map(|_| ())
    }

    /// Ids of running containers, pause containers of pods included.
    pub fn running(&self) -> anyhow::Result<Vec<String>> {
        let tasks = self.ctr(&["tasks", "ls"])?;
        let running = tasks.lines().filter(|line| line.contains("RUNNING"));
        Ok(running.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Kills a program of the node and keeps it from starting again.
    pub fn stop(&self, program: NodeProgram) -> anyhow::Result<()> {
        let ended = self.folder.join(format!("{}.ended", program.name()));
        let _ = fs::remove_file(&ended);
        File::create(self.down(program)).context("cannot stop a program of the node")?;
        until("a program of the node ends", || ended.exists())
    }

    /// Lets it start again.
    pub fn restart(&self, program: NodeProgram) -> anyhow::Result<()> {
        fs::remove_file(self.down(program)).context("the program is not down")?;
        if program == NodeProgram::Containerd { self.wait_for_containerd() } else { Ok(()) }
    }

    /// What a program of the node logged: `kubelet`, `containerd` or `device-plugin`.
    pub fn log(&self, program: &str) -> String {
        let path = self.folder.join(format!("log/{program}.log"));
        fs::read_to_string(path).unwrap_or_default()
    }

    fn down(&self, program: NodeProgram) -> PathBuf {
        self.folder.join(format!("{}.down", program.name()))
    }

    fn wait_for_containerd(&self) -> anyhow::Result<()> {
        until("containerd answers", || self.ctr(&["version"]).is_ok())
            .with_context(|| self.log("containerd"))
    }

    fn ctr(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let socket = settings::socket(&self.folder);
        said(
            Command::new("ctr")
                .args(["--address", &socket, "--namespace", "k8s.io"])
                .args(arguments),
        )
    }
}

fn write_files(
    plane: &ControlPlane,
    folder: &Path,
    plan: &NodePlan,
    address: &str,
    cgroup: &str,
    gpu_node: &Path,
) -> anyhow::Result<()> {
    crate::certificates::write_node(plane.folder(), folder, &plan.name, address)?;
    let user = json!({"client-certificate": folder.join("kubelet.crt"), "client-key": folder.join("kubelet.key")});
    plane.kubeconfig(folder, "node", &user)?;
    let kubelet = settings::kubelet(plane.folder(), folder, address, &format!("/{cgroup}"));
    fs::write(folder.join("kubelet.yaml"), kubelet.to_string())?;
    fs::write(folder.join("containerd.toml"), settings::containerd(folder, &plan.runtime))?;
    let network = settings::network(&bridge(plan.number), plan.number);
    fs::write(folder.join("cni/10-node.conflist"), network.to_string())?;
    if let NvidiaRuntime::MountsLibraries(libraries) = &plan.runtime {
        let (program, libraries) = (gpu_node.display(), libraries.display());
        let wrapper =
            format!("#!/bin/sh\nexec '{program}' runtime /usr/sbin/runc '{libraries}' \"$@\"\n");
        let path = folder.join("nvidia-runtime");
        fs::write(&path, wrapper)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    if let Some((libraries, at)) = &plan.own_libraries {
        let own = folder.join("own").join(at);
        fs::create_dir_all(&own)?;
        said(Command::new("cp").arg("-r").arg(libraries.join(".")).arg(&own))?;
    }
    Ok(())
}

fn start_init(
    plane: &ControlPlane,
    folder: &Path,
    plan: &NodePlan,
    address: &str,
) -> anyhow::Result<Process> {
    let labels: Vec<String> =
        plan.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let kubelet = format!(
        "{program} --config {folder}/kubelet.yaml --kubeconfig {folder}/node.kubeconfig --root-dir /var/lib/kubelet \
         --cert-dir /var/lib/kubelet/pki --hostname-override {name} --node-ip {address} --node-labels={labels}",
        program = plane.program("kubelet").display(),
        folder = folder.display(),
        name = plan.name,
        labels = labels.join(","),
    );
    let script = folder.join("init.sh");
    fs::write(&script, INIT)?;
    let node = format!("NODE={}", folder.display());
    let kubelet = format!("KUBELET={kubelet}");
    let arguments: Vec<&str> = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        .into_iter()
        .chain(["--mount-proc", "--propagation", "private", "env", &node, &kubelet, "sh"])
        .collect();
    let arguments: Vec<&std::ffi::OsStr> =
        arguments.into_iter().map(AsRef::as_ref).chain([script.as_os_str()]).collect();
    let log = folder.join("log/init.log");
    // It dies with its shell: what is in its namespaces dies with it.
    let with_parent = ["--pdeathsig".as_ref(), "KILL".as_ref()];
    let all = [with_parent.as_slice(), &arguments].concat();
    Process::start(Path::new("/usr/bin/setpriv"), &all, Some(&log), None)
}

fn bridge(number: u8) -> String {
    format!("node{number}")
}

/// The node's address is on a bridge that only the sandbox has.
fn make_bridge(name: &str, address: &str) -> anyhow::Result<()> {
    let ip = |arguments: &[&str]| said(Command::new("ip").args(arguments));
    ip(&["link", "add", name, "type", "bridge"])?;
    ip(&["addr", "add", &format!("{address}/24"), "dev", name])?;
    ip(&["link", "set", name, "up"]).map(|_| ())
}

/// The kubelet wants the node's control group to exist in every hierarchy.
fn make_cgroups(name: &str) -> anyhow::Result<()> {
    for hierarchy in fs::read_dir("/sys/fs/cgroup").context("no control groups")? {
        let hierarchy = hierarchy?.path();
        let own = hierarchy.join(name);
        if hierarchy.is_symlink() || fs::create_dir_all(&own).is_err() {
            continue;
        }
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if own.join(file).exists() {
                fs::write(own.join(file), fs::read(hierarchy.join(file))?)
                    .with_context(|| format!("cannot set {file} of {}", own.display()))?;
            }
        }
    }
    Ok(())
}

/// What a command prints; its complaint where it fails.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}: {}", String::from_utf8_lossy(&stderr).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

#[expect(clippy::disallowed_methods, reason = "a test waits for other programs in real time")]
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > PATIENCE {
            bail!("still waiting: {what}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
