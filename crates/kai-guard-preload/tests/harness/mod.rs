//! A container without a container: the files of `kai-guard/README.md` in a folder, and the workload beside a stub of
//! the driver.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// UUID of the stub's device.
pub const DEVICE: &str = "8a5f0000-0000-0000-0000-00000000002a";
/// UUID of another device.
pub const OTHER_DEVICE: &str = "0b000000-0000-0000-0000-000000000001";

fn build_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_path_buf()
}

/// The library that cargo built beside this test.
pub fn library() -> PathBuf {
    build_folder().join("deps/libkai_guard_preload.so")
}

/// Folder with the compiled stub and workload.
pub fn stub() -> &'static Path {
    static STUB: OnceLock<PathBuf> = OnceLock::new();
    STUB.get_or_init(|| {
        let folder = build_folder().join(format!("guard-stub-{}", std::process::id()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub/build.sh");
        let status = Command::new("sh").arg(script).arg(&folder).status().unwrap();
        assert!(status.success(), "the stub does not compile");
        folder
    })
}

/// Files of one container.
pub struct Container {
    root: PathBuf,
}

impl Container {
    pub fn new(limits: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = build_folder().join(format!("guard-container-{}-{number}", std::process::id()));
        for folder in ["lib", "limits", "usage"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::copy(library(), root.join("lib/libkai_guard.so")).unwrap();
        let container = Self { root };
        container.write_limits(limits);
        container
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn write_limits(&self, limits: &str) {
        std::fs::write(self.root.join("limits/limits"), limits).unwrap();
    }

    /// Bytes of the usage region; empty when there is none.
    pub fn region(&self) -> Vec<u8> {
        std::fs::read(self.root.join("usage/region")).unwrap_or_default()
    }

    fn command(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(stub().join(program));
        command
            .args(arguments)
            .env("LD_PRELOAD", self.root.join("lib/libkai_guard.so"))
            .env("LD_LIBRARY_PATH", stub())
            .env("STUB_CUDA_DEVICES", DEVICE.replace('-', ""))
            .env("WORKLOAD_LIBCUDA", stub().join("libcuda.so.1"))
            .envs(variables.iter().copied());
        command
    }

    pub fn run(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let output = self.command(program, arguments, variables).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Output {
            code: Output::exit_code(output.status),
            text: String::from_utf8(output.stdout).unwrap(),
        }
    }

    pub fn workload(&self, arguments: &[&str]) -> Output {
        self.run("workload", arguments, &[])
    }

    pub fn workload_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.run("workload", arguments, variables)
    }

    /// A workload that says one line and waits.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.start_with(arguments, &[])
    }

    /// The same with more environment variables.
    pub fn start_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
        let mut command = self.command("workload", arguments, variables);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("code 0"), "{line}");
        child
    }

    /// A process that holds so much memory.
    pub fn hold(&self, mib: u64) -> Child {
        self.start(&["hold", &mib.to_string()])
    }

    /// Any program with the library preloaded.
    pub fn preloaded(&self, command: &mut Command) -> std::process::Output {
        command.env("LD_PRELOAD", self.root.join("lib/libkai_guard.so")).output().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// What a workload printed.
pub struct Output {
    pub code: i32,
    pub text: String,
}

impl Output {
    /// Exit code, or the negative signal.
    pub fn exit_code(status: ExitStatus) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
    }

    pub fn lines(&self, start: &str) -> Vec<Line> {
        let of = |line: &str| line.starts_with(start).then(|| Line(line.to_owned()));
        self.text.lines().filter_map(of).collect()
    }

    pub fn line(&self, start: &str) -> Line {
        let lines = self.lines(start);
        assert!(!lines.is_empty(), "no line {start}: {}", self.text);
        lines.into_iter().next().unwrap()
    }
}

/// One line of `key value` pairs.
pub struct Line(String);

impl Line {
    pub fn number(&self, key: &str) -> u64 {
        let mut words = self.0.split(' ').skip_while(|word| *word != key);
        let value = words.nth(1).unwrap_or_else(|| panic!("no {key} in {}", self.0));
        value.parse().unwrap_or_else(|_| panic!("{key} is {value}"))
    }
}
