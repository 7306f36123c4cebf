//! The programs of the control plane and of its nodes, built on first use.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::control_plane::Impossible;

/// Kubernetes' version; `control-plane/go.mod` names the same.
const VERSION: (&str, &str) = ("1.36.4", "36");
/// Helm's version; `control-plane/helm/go.mod` names the same.
const HELM_VERSION: &str = "3.19.0";

type Program = (&'static str, &'static str);

const CONTROL_PLANE: &[Program] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// The scheduler that `kai bench cluster` compares with.
const SCHEDULER: &[Program] = &[("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler")];

const NODE: &[Program] = &[("kubelet", "k8s.io/kubernetes/cmd/kubelet")];

/// Plays NVIDIA's programs on a node; its source is in this repository.
const GPU_NODE: &str = "gpu-node";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

/// What came of building them.
#[derive(Clone, Debug)]
pub enum Build {
    /// The programs are in the cache.
    Ready(Binaries),
    /// They are not there and cannot be built here; the text says why.
    Impossible(String),
}

impl Binaries {
    /// The path of a program.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The programs of the control plane, built now if they are not kept from an earlier time.
    pub fn ready() -> anyhow::Result<Build> {
        Self::with(CONTROL_PLANE)
    }

    /// The programs of the control plane and kube-scheduler.
    pub fn with_scheduler() -> anyhow::Result<Build> {
        Self::with(&[CONTROL_PLANE, SCHEDULER].concat())
    }

    /// The programs of the control plane and of nodes.
    pub fn with_nodes() -> anyhow::Result<Build> {
        let built = Self::with(&[CONTROL_PLANE, NODE].concat())?;
        if let Build::Ready(binaries) = &built {
            binaries.build_gpu_node()?;
        }
        Ok(built)
    }

    fn with(programs: &[Program]) -> anyhow::Result<Build> {
        let module = module();
        let folder = cache_folder()?.join(module_hash(VERSION.0, &module)?);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let _lock = lock(&folder)?;
        let missing: Vec<_> =
            programs.iter().filter(|(name, _)| !folder.join(name).exists()).collect();
        if !missing.is_empty() && Command::new("go").arg("version").output().is_err() {
            return Ok(Build::Impossible("Go is not installed".to_owned()));
        }
        for (name, package) in missing {
            build(&module, &folder, name, package)?;
        }
        Ok(Build::Ready(Self { folder }))
    }

    /// The path of the program that plays NVIDIA's programs. It changes with its source.
    pub(crate) fn gpu_node(&self) -> anyhow::Result<PathBuf> {
        let source = module().join(GPU_NODE);
        let files = fs::read_dir(&source)
            .with_context(|| format!("cannot read {}", source.display()))?
            .map(|file| file.map(|file| file.path()))
            .collect::<Result<BTreeSet<_>, _>>()?;
        let sources = files.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?.concat();
        Ok(self.folder.join(format!("{GPU_NODE}-{}", digits(&sources))))
    }

    fn build_gpu_node(&self) -> anyhow::Result<()> {
        let _lock = lock(&self.folder)?;
        let path = self.gpu_node()?;
        if path.exists() {
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        build(&module(), &self.folder, &name, &format!("./{GPU_NODE}"))
    }
}

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../control-plane")
}

/// Lock that is held during a build.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let lock = File::create(folder.join("lock")).context("cannot create the lock file")?;
    lock.lock().context("cannot wait for another build")?;
    Ok(lock)
}

fn cache_folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or_else(home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("kai-control-plane"))
}

/// A name that changes with the module's dependencies.
fn module_hash(version: &str, module: &Path) -> anyhow::Result<String> {
    let sums = module.join("go.sum");
    let content = fs::read(&sums).with_context(|| format!("cannot read {}", sums.display()))?;
    Ok(format!("{version}-{}", digits(&content)))
}

/// Helm, built now if it is not kept from an earlier time. Its module is its own: its Kubernetes libraries are older.
pub fn helm() -> anyhow::Result<Result<PathBuf, Impossible>> {
    let module = module().join("helm");
    let folder = cache_folder()?.join(module_hash(HELM_VERSION, &module)?);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = lock(&folder)?;
    let path = folder.join("helm");
    if !path.exists() {
        if Command::new("go").arg("version").output().is_err() {
            return Ok(Err(Impossible("Go is not installed".to_owned())));
        }
        let (own, minor) = ("helm.sh/helm/v3", VERSION.1);
        let kubernetes = ["pkg/chartutil", "pkg/lint/rules"].map(|package| {
            format!(
                "-X {own}/{package}.k8sVersionMajor=1 -X {own}/{package}.k8sVersionMinor={minor}"
            )
        });
        let flags = format!(
            "-s -w -X {own}/internal/version.version=v{HELM_VERSION} {}",
            kubernetes.join(" ")
        );
        compile(&module, &folder, "helm", &format!("{own}/cmd/helm"), &flags)?;
    }
    Ok(Ok(path))
}

/// Sixteen digits that change with the content.
fn digits(content: &[u8]) -> String {
    let fnv = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{fnv:016x}")
}

fn build(module: &Path, folder: &Path, name: &str, package: &str) -> anyhow::Result<()> {
    let stamp = "k8s.io/component-base/version";
    let (version, minor) = VERSION;
    let flags = format!(
        "-s -w -X {stamp}.gitVersion=v{version} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}"
    );
    compile(module, folder, name, package, &flags)
}

fn compile(
    module: &Path,
    folder: &Path,
    name: &str,
    package: &str,
    flags: &str,
) -> anyhow::Result<()> {
    eprintln!("building {name} from {package}; this takes minutes the first time");
    let unfinished = folder.join(format!("{name}.unfinished"));
    let status = Command::new("go")
        .args(["build", "-trimpath", "-mod=readonly", "-ldflags", flags, "-o"])
        .arg(&unfinished)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .current_dir(module)
        .status()
        .context("cannot start go")?;
    if !status.success() {
        bail!("go build {package} ended with {status}");
    }
    fs::rename(&unfinished, folder.join(name)).context("cannot keep the program")
}
