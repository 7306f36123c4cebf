//! The programs of the control plane and of its nodes, built on first use.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::control_plane::Impossible;

/// The usual version of Kubernetes.
const USUAL: Version = Version { full: "1.36.4", minor: "36", folder: "", arguments: &[] };
/// Other versions, of which only the API server and the controllers are built: etcd, kubectl and nodes are the usual ones.
const OTHERS: [Version; 2] = [
    Version {
        full: "1.34.4",
        minor: "34",
        folder: "1.34",
        // What is on by default since 1.36.
        arguments: &[
            "--feature-gates=DRAExtendedResource=true,DRAConsumableCapacity=true,DRAPartitionableDevices=true",
        ],
    },
    Version { full: "1.30.14", minor: "30", folder: "1.30", arguments: &[] },
];
/// Environment variable that chooses one of the others, such as `1.34`.
const CHOICE: &str = "KAI_TEST_KUBERNETES";

/// A version of Kubernetes; the `go.mod` of its module names the same.
#[derive(Clone, Copy, Debug)]
struct Version {
    full: &'static str,
    minor: &'static str,
    /// Its Go module below `control-plane/`.
    folder: &'static str,
    /// Arguments of its API server, beside those of every version.
    arguments: &'static [&'static str],
}

/// The minor version of Kubernetes that the environment chooses, such as `1.34`; none: the usual one.
pub fn chosen_minor() -> anyhow::Result<Option<String>> {
    Ok(Version::chosen()?.map(|version| format!("1.{}", version.minor)))
}

/// Arguments of the API server of the version that the environment chooses.
pub(crate) fn server_arguments() -> anyhow::Result<&'static [&'static str]> {
    Ok(Version::chosen()?.map_or(&[], |version| version.arguments))
}

impl Version {
    fn module(&self) -> PathBuf {
        module().join(self.folder)
    }

    /// The version that the environment chooses beside the usual one; none: only the usual one.
    fn chosen() -> anyhow::Result<Option<Self>> {
        let Ok(wanted) = std::env::var(CHOICE) else { return Ok(None) };
        let is_wanted = |one: &Version| format!("1.{}", one.minor) == wanted;
        if is_wanted(&USUAL) {
            return Ok(None);
        }
        let known = OTHERS.map(|one| one.folder).join(", ");
        let found = OTHERS.into_iter().find(is_wanted);
        found.map(Some).with_context(|| {
            format!("{CHOICE}={wanted}: only 1.{}, {known} are pinned", USUAL.minor)
        })
    }
}

/// Helm's version; `control-plane/helm/go.mod` names the same.
const HELM_VERSION: &str = "3.19.0";
/// Version of Argo CD whose engine `control-plane/gitops/go.mod` names.
const GITOPS_VERSION: &str = "argo-cd-3.2.12";

type Program = (&'static str, &'static str);

const CONTROL_PLANE: &[Program] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// Programs that other versions have of their own.
const OF_VERSION: &[Program] = &[
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
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
    /// Programs of another version, which take the place of the usual ones.
    others: Option<PathBuf>,
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
        let is_of_version = OF_VERSION.iter().any(|(name, _)| *name == program);
        self.others.as_ref().filter(|_| is_of_version).unwrap_or(&self.folder).join(program)
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
        let chosen = Version::chosen()?;
        let is_usual = |program: &&Program| chosen.is_none() || !OF_VERSION.contains(program);
        let usual: Vec<Program> = programs.iter().filter(is_usual).copied().collect();
        let others = chosen.map(|version| built(version, OF_VERSION)).transpose()?;
        Ok(match (built(USUAL, &usual)?, others.transpose()) {
            (Ok(folder), Ok(others)) => Build::Ready(Self { folder, others }),
            (Err(why), _) | (_, Err(why)) => Build::Impossible(why),
        })
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
        build(USUAL, &self.folder, &name, &format!("./{GPU_NODE}"))
    }
}

/// The folder with these programs, built now if they are not kept from an earlier time; the reason where they cannot be.
fn built(version: Version, programs: &[Program]) -> anyhow::Result<Result<PathBuf, String>> {
    let module = version.module();
    let folder = cache_folder()?.join(module_hash(version.full, &module)?);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = lock(&folder)?;
    let missing: Vec<_> = programs.iter().filter(|(name, _)| !folder.join(name).exists()).collect();
    if !missing.is_empty() && Command::new("go").arg("version").output().is_err() {
        return Ok(Err("Go is not installed".to_owned()));
    }
    for (name, package) in missing {
        build(version, &folder, name, package)?;
    }
    Ok(Ok(folder))
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

/// A program from a module of its own below `control-plane/`: its Kubernetes libraries are older.
struct Tool {
    name: &'static str,
    version: &'static str,
    package: String,
    /// Values of variables, as the linker takes them.
    variables: String,
}

impl Tool {
    /// Its path, built now if it is not kept from an earlier time.
    fn ready(&self) -> anyhow::Result<Result<PathBuf, Impossible>> {
        let module = module().join(self.name);
        let folder = cache_folder()?.join(module_hash(self.version, &module)?);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let _lock = lock(&folder)?;
        let path = folder.join(self.name);
        if !path.exists() {
            if Command::new("go").arg("version").output().is_err() {
                return Ok(Err(Impossible("Go is not installed".to_owned())));
            }
            let flags = format!("-s -w {}", self.variables);
            compile(&module, &folder, self.name, &self.package, &flags)?;
        }
        Ok(Ok(path))
    }
}

pub fn helm() -> anyhow::Result<Result<PathBuf, Impossible>> {
    let (own, minor) = ("helm.sh/helm/v3", USUAL.minor);
    let kubernetes = ["pkg/chartutil", "pkg/lint/rules"].map(|package| {
        format!("-X {own}/{package}.k8sVersionMajor=1 -X {own}/{package}.k8sVersionMinor={minor}")
    });
    let version = format!("-X {own}/internal/version.version=v{HELM_VERSION}");
    let variables = format!("{version} {}", kubernetes.join(" "));
    let package = format!("{own}/cmd/helm");
    Tool { name: "helm", version: HELM_VERSION, package, variables }.ready()
}

/// Argo CD's engine as a program: it makes a cluster what a Git repository says.
pub fn gitops() -> anyhow::Result<Result<PathBuf, Impossible>> {
    let package = "github.com/argoproj/gitops-engine/agent".to_owned();
    Tool { name: "gitops", version: GITOPS_VERSION, package, variables: String::new() }.ready()
}

/// Sixteen digits that change with the content.
fn digits(content: &[u8]) -> String {
    let fnv = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{fnv:016x}")
}

fn build(version: Version, folder: &Path, name: &str, package: &str) -> anyhow::Result<()> {
    let stamp = "k8s.io/component-base/version";
    let Version { full, minor, .. } = version;
    let flags = format!(
        "-s -w -X {stamp}.gitVersion=v{full} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}"
    );
    compile(&version.module(), folder, name, package, &flags)
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
