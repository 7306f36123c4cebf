//! `kai agent reserve`: the program in a reservation pod.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use kai_api::names::{env as variables, gpu};
use kai_client::client;
use kai_client::env::Env;
use kai_client::own_pod::OwnPod;
use kai_core::input::ObjectName;
use kai_node::gpu::count::{BUS, on_bus};
use kai_node::gpu::discovery::{Device, DiscoveryError, Found, look};
use kai_node::gpu::driver::SystemLoader;
use kai_node::gpu::granted::granted;
use kai_node::gpu::held_memory::HeldMemory;
use kai_node::gpu::library;
use kai_node::gpu::library::{OpenError, Opened};
use kai_node::gpu::process_view::{ObservedProcess, ProcessView, observe_device};
use kai_node::gpu::publish::{Reserved, reserve};
use kai_node::gpu::tegra;
use kai_node::gpu::visible::{MOUNTED_DEVICES, VisibleDevices};
use kai_node::kubelet::pod_resources;
use kube::Client;
use serde::Serialize;

use crate::log::Log;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai agent reserve            in a reservation pod, which the binder creates
  kai agent reserve --print    on any machine: the GPUs that NVML finds, and the one to reserve
  kai agent reserve --print --observe-processes    also the processes on the GPUs, and whether their memory is limited

POD_NAMESPACE and POD_NAME name the pod. NVIDIA_VISIBLE_DEVICES names its GPU if several are visible.
NVML_LIBRARY_PATHS lists folders to search for libnvidia-ml.so.1, separated by colons.
If NVML does not work and the kubelet's socket is mounted, the command asks the kubelet for the GPU of the pod.";

/// Exit status where there is no device, as of the reference.
const FAILED: u8 = 1;
/// How often is measured what processes hold of the device.
const MEASURING_INTERVAL: Duration = Duration::from_secs(15);
/// Where the processes of the node are, for reservation pods in its PID namespace.
const PROCESSES: &str = "/proc";
/// How much is logged: as much as the reference does.
const VERBOSITY: u8 = 3;

/// Flags of `kai agent reserve`. All but `--print`, `--json`, `--podresources-socket` and `--observe-processes` are flags of
/// KAI's program too.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReserveArguments {
    /// Print the devices found, and exit.
    #[arg(long)]
    print: bool,

    /// Print the devices found as JSON, and exit.
    #[arg(long)]
    json: bool,

    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Path of the kubelet's pod-resources socket, read if NVML fails.
    #[arg(long, default_value = pod_resources::SOCKET, value_name = "FILE")]
    podresources_socket: PathBuf,

    /// Record which pods use the device, how much of it they hold, and whether the library that limits GPU memory is in
    /// their processes. Needs the PID namespace of the node and `CAP_SYS_PTRACE`.
    #[arg(long)]
    observe_processes: bool,

    /// Format of the log.
    #[arg(long, value_name = "FORMAT", value_parser = ["console", "json"])]
    zap_encoder: Option<String>,

    /// Log level: debug, info, error, panic, or a number above 0.
    #[arg(long, value_name = "LEVEL")]
    zap_log_level: Option<String>,

    #[command(flatten)]
    unused: UnusedFlags,
}

/// Flags of KAI's program that mean nothing here.
#[derive(Args)]
struct UnusedFlags {
    #[arg(long = "zap-devel", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    developing: Option<bool>,
    #[arg(long = "zap-stacktrace-level", hide = true)]
    stack_traces: Option<String>,
    #[arg(long = "zap-time-encoder", hide = true)]
    times: Option<String>,
}

/// Finds the device and holds it until a signal arrives; returns the exit status.
pub(crate) fn run(arguments: &ReserveArguments) -> anyhow::Result<u8> {
    let level = arguments.zap_log_level.as_deref().map_or(Ok(VERBOSITY), verbosity)?;
    Log::start(level, arguments.zap_encoder.as_deref() == Some("json"));
    let UnusedFlags { developing, stack_traces, times } = &arguments.unused;
    if developing.is_some() || stack_traces.is_some() || times.is_some() {
        tracing::debug!(
            "--zap-devel, --zap-stacktrace-level and --zap-time-encoder have no effect"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = if arguments.print || arguments.json {
        runtime.block_on(print(arguments))
    } else {
        runtime.block_on(keep(arguments))
    };
    if let Err(error) = ended {
        output::complain(&format!("Error while running the app: {error:#}\n"));
        return Ok(FAILED);
    }
    Ok(0)
}

/// KAI's names of levels into our numbers.
fn verbosity(level: &str) -> anyhow::Result<u8> {
    Ok(match level {
        "error" | "panic" => 2,
        "info" => VERBOSITY,
        "debug" => 4,
        number => {
            let above: u8 = number.parse().map_err(|_| {
                anyhow!("--zap-log-level must be debug, info, error, panic or a number above 0")
            })?;
            VERBOSITY.saturating_add(above)
        }
    })
}

async fn keep(arguments: &ReserveArguments) -> anyhow::Result<()> {
    let client = client::connect(arguments.kubeconfig.as_deref()).await;
    let client = client.map_err(|error| anyhow!("could not create client, err: {error}"))?;
    let name = own_name().context("could not get pod details, err")?;
    let pod = OwnPod::find(client.clone(), Env::real(), &name).await;
    let pod =
        pod.map_err(|error| anyhow!("could not check if pod was already patched, err: {error}"))?;
    if !pod.annotations().contains_key(gpu::RESERVED_DEVICE) {
        tracing::info!(namespace = %name.namespace, name = %name.name, "Looking for GPU device id for pod");
        let reserved = find(&name, &arguments.podresources_socket).await?;
        let written = pod.annotate(&reserved.annotations()).await;
        written.map_err(|error| anyhow!("could not patch pod. error: {error}"))?;
        tracing::info!("Pod was updated with GPU device UUID");
    }
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for signals")?;
    tokio::select! { biased;
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        () = report_use(&client, &name, arguments.observe_processes) => {}
    }
    Ok(())
}

/// Writes on this pod what processes hold of its device, whenever that changed, and with `observes_processes` also their
/// pods. Never ends: if NVML reports nothing, there is nothing to write.
async fn report_use(client: &Client, name: &ObjectName, observes_processes: bool) {
    let measured = async {
        let pod = OwnPod::find(client.clone(), Env::real(), name).await.ok()?;
        let uuid = pod.annotations().get(gpu::RESERVED_DEVICE)?.clone();
        let reserve = pod.annotations().get(gpu::MEMORY_RESERVE_MIB);
        let reserve_mib = reserve.and_then(|text| text.parse().ok()).unwrap_or_default();
        let view = observes_processes.then(|| ProcessView::of(&uuid, Path::new(PROCESSES)));
        Some((pod, HeldMemory::of(&uuid, reserve_mib), view, open().ok()?.nvml))
    };
    let Some((pod, mut held_memory, mut view, nvml)) = measured.await else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(MEASURING_INTERVAL);
    // What could not be written is written at the next tick, with what changed since.
    let mut unwritten: BTreeMap<&'static str, String> = BTreeMap::new();
    loop {
        ticks.tick().await;
        let held_mib =
            held_memory.changed_mib(&*nvml).map(|mib| (gpu::MEMORY_HELD_MIB, mib.to_string()));
        let pods = view.as_mut().and_then(|view| view.changed(&*nvml));
        let pods = pods.and_then(|pods| serde_json::to_string(&pods).ok());
        unwritten.extend(held_mib.into_iter().chain(pods.map(|text| (gpu::PROCESSES, text))));
        if unwritten.is_empty() {
            continue;
        }
        match pod.annotate(&unwritten).await {
            Ok(()) => unwritten.clear(),
            Err(failure) => {
                tracing::warn!(%failure, "failed to write what processes hold of the device");
            }
        }
    }
}

/// The device of this pod, as NVML reports it, else the kubelet.
async fn find(pod: &ObjectName, socket: &Path) -> anyhow::Result<Reserved> {
    let machine_has = on_bus(Path::new(BUS));
    match open().and_then(|opened| Ok(reserve(&*opened.nvml, &visible(), machine_has)?)) {
        Err(error) if socket.exists() => {
            let uuid = by_kubelet(pod, socket, &error).await?;
            tracing::warn!("Using the device that the kubelet reports: {error:#}");
            Ok(Reserved::named(uuid, machine_has))
        }
        by_nvml => by_nvml,
    }
}

/// The UUID of the device that the kubelet gave to this pod, where NVML failed with this error.
async fn by_kubelet(
    pod: &ObjectName,
    socket: &Path,
    error: &anyhow::Error,
) -> anyhow::Result<String> {
    let neither = |why: &dyn std::fmt::Display| {
        anyhow!("{error:#}. The kubelet does not report the device either: {why}")
    };
    let pods = pod_resources::list(&Env::real(), socket).await.map_err(|error| neither(&error))?;
    let own =
        pods.iter().filter(|one| (&*one.namespace, &*one.name) == (&*pod.namespace, &*pod.name));
    let names: Vec<&str> = own.flat_map(|own| own.devices(gpu::NVIDIA)).collect();
    granted(&names).map_err(|error| neither(&error))
}

fn own_name() -> anyhow::Result<ObjectName> {
    let variable = |name: &str, what: &str| {
        std::env::var(name).map_err(|_| anyhow!("could not find pod {what}; {name} is not set"))
    };
    let namespace = variable(variables::POD_NAMESPACE, "namespace")?;
    Ok(ObjectName::new(namespace, variable(variables::POD_NAME, "name")?))
}

/// Opens the library. If its dependencies are in its own folder, the loader must search there, which is set when a
/// program starts: this program restarts.
fn open() -> anyhow::Result<Opened> {
    let named = std::env::var(variables::NVML_LIBRARY_PATHS).unwrap_or_default();
    let error = match library::open(&SystemLoader, &library::folders(&named)) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let path = std::env::var(variables::LD_LIBRARY_PATH).unwrap_or_default();
    if let OpenError::NeedsLibraryPath { folder, .. } = &error
        && !library::folders(&path).contains(folder)
    {
        tracing::info!(folder = %folder.display(), "Restarting with the folder of NVML in the library path");
        let path = format!("{}:{path}", folder.display());
        let program = std::env::current_exe().context("cannot find this program")?;
        let failed = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(variables::LD_LIBRARY_PATH, path)
            .exec();
        return Err(failed).context("cannot restart this program");
    }
    Err(DiscoveryError::Open(error).into())
}

fn visible() -> VisibleDevices {
    let value = std::env::var(variables::NVIDIA_VISIBLE_DEVICES).unwrap_or_default();
    if value.trim_end_matches('/') != MOUNTED_DEVICES {
        return VisibleDevices::parse(&value);
    }
    let files = std::fs::read_dir(MOUNTED_DEVICES).into_iter().flatten().flatten();
    let names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    VisibleDevices::of_names(names.iter().map(String::as_str))
}

/// Output of `--print` and `--json`.
#[derive(Serialize)]
struct Printed {
    /// None: NVML does not work, and the kubelet names the device.
    library: Option<PathBuf>,
    #[serde(flatten)]
    found: Found,
    /// UUID of the device that a reservation would keep.
    ours: Option<String>,
    /// Why there is none, or why NVML does not report it.
    why_none: Option<String>,
    /// What identifies this machine as a Tegra system.
    tegra: Option<String>,
    /// Processes by device, with `--observe-processes` and if NVML lists them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    processes: BTreeMap<String, Vec<ObservedProcess>>,
}

async fn print(arguments: &ReserveArguments) -> anyhow::Result<()> {
    let socket = &*arguments.podresources_socket;
    let tegra = tegra::sign(&|path| std::fs::read_to_string(path).ok());
    let printed = match (open(), own_name()) {
        (Ok(Opened { nvml, library }), _) => {
            let found = look(&*nvml)?;
            let (ours, why_none) = match found.ours(&visible()) {
                Ok(device) => (Some(device.uuid.clone()), None),
                Err(error) => (None, Some(error.to_string())),
            };
            let observe = |device: &Device| {
                let processes = observe_device(&*nvml, &device.uuid, Path::new(PROCESSES));
                Some((device.uuid.clone(), processes?))
            };
            let observed = found.devices.iter().filter(|_| arguments.observe_processes);
            let processes = observed.filter_map(observe).collect();
            Printed { library: Some(library), found, ours, why_none, tegra, processes }
        }
        (Err(error), Ok(pod)) if socket.exists() => {
            let ours = Some(by_kubelet(&pod, socket, &error).await?);
            let why_none = Some(format!("{error:#}"));
            let (found, processes) = Default::default();
            Printed { library: None, found, ours, why_none, tegra, processes }
        }
        (Err(error), _) => return Err(error),
    };
    let text = if arguments.json {
        serde_json::to_string_pretty(&printed)? + "\n"
    } else {
        table(&printed)
    };
    output::print(&text).context("cannot print")
}

/// Marks a device in the table.
const OURS: &str = "  <- a reservation here keeps this one";

fn table(printed: &Printed) -> String {
    let unknown = || "unknown".to_owned();
    let mut text = String::new();
    if let Some(library) = &printed.library {
        let driver = printed.found.driver.clone().unwrap_or_else(unknown);
        let _ = writeln!(text, "library  {}\ndriver   {driver}", library.display());
    } else if let Some(uuid) = &printed.ours {
        let _ = writeln!(text, "kubelet  {uuid}{OURS}");
    }
    if let Some(sign) = &printed.tegra {
        let _ = writeln!(text, "tegra    {sign}");
    }
    for device in &printed.found.devices {
        let name = device.name.clone().unwrap_or_else(unknown);
        let memory = device.memory_mib.map_or_else(unknown, |mib| format!("{mib} MiB"));
        let is_ours = printed.ours.as_ref() == Some(&device.uuid);
        let mark = if is_ours { OURS } else { "" };
        let _ = writeln!(text, "GPU {:<4} {}  {name}  {memory}{mark}", device.index, device.uuid);
        for process in printed.processes.get(&device.uuid).into_iter().flatten() {
            let ObservedProcess { pid, pod, used_bytes, guard, why } = process;
            let (mib, pod) = (used_bytes >> 20, pod.as_deref().unwrap_or("none"));
            let line = format!(
                "         process {pid}  {mib} MiB  pod {pod}  library {}  {why}",
                guard.name()
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    if let Some(why) = &printed.why_none {
        let _ = writeln!(text, "{why}");
    }
    text
}
