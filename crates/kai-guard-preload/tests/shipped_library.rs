//! The library as `cargo xtask guard` builds it: symbol versions, aarch64, and programs that cannot load it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test that fails may panic"
)]

#[allow(dead_code, reason = "the other test uses all of it")]
mod harness;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Container, DEVICE};

const NEWEST_GLIBC: (u32, u32) = (2, 17);

/// `out/guard/<architecture>/libkai_guard.so`, if it was built.
fn shipped(architecture: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = root.join("out/guard").join(architecture).join("libkai_guard.so");
    if library.exists() {
        return Some(library);
    }
    skipped(&format!("{} is absent, run cargo xtask guard", library.display()));
    None
}

/// Written past the capture of the test harness, which would hide it.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED shipped library of kai-guard: {why}");
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !found.status.success() {
        skipped(&format!("{program} is absent"));
    }
    found.status.success()
}

#[test]
fn shipped_library_needs_nothing_newer_than_glibc_2_17() {
    for architecture in ["x86_64", "aarch64"] {
        let Some(library) = shipped(architecture) else { continue };
        let output =
            Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&library).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let versions: Vec<(u32, u32)> = text
            .split("@GLIBC_")
            .skip(1)
            .filter_map(|rest| {
                let mut numbers = rest.split(|character: char| !character.is_ascii_digit());
                Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
            })
            .collect();
        assert!(!versions.is_empty(), "{architecture}: readelf shows no versions");
        assert!(
            versions.iter().all(|version| *version <= NEWEST_GLIBC),
            "{architecture}: {versions:?}"
        );
    }
}

/// glibc 2.34 and later consist of these two files; images made of copied libraries have nothing else.
#[test]
fn shipped_library_needs_no_file_but_the_c_library_and_the_loader() {
    for architecture in ["x86_64", "aarch64"] {
        let Some(library) = shipped(architecture) else { continue };
        let output = Command::new("readelf").args(["-W", "-d"]).arg(&library).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
        let needed: Vec<&str> = needed.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
        assert!(needed.contains(&"libc.so.6"), "{architecture}: {text}");
        let is_other = |file: &&&str| **file != "libc.so.6" && !file.starts_with("ld-linux-");
        assert_eq!(needed.iter().find(is_other), None, "{architecture}: {needed:?}");
        let output = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&library).output();
        let symbols = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(!symbols.contains("pthread_"), "{architecture}: {symbols}");
    }
}

/// The files of an image with nothing but the loader, the C library and programs.
struct Distroless {
    image: PathBuf,
    /// Program that runs the programs of the image here.
    emulator: Option<&'static str>,
}

impl Distroless {
    fn new(container: &Container, architecture: &str) -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        if !is_root {
            skipped("chroot needs root");
            return None;
        }
        let (compiler, libraries, loader, emulator) = match architecture {
            "x86_64" => ("cc", "/lib/x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2", None),
            _ => (
                "aarch64-linux-gnu-gcc",
                "/usr/aarch64-linux-gnu/lib",
                "lib/ld-linux-aarch64.so.1",
                Some("qemu-aarch64-static"),
            ),
        };
        if !has(compiler) || emulator.is_some_and(|emulator| !has(emulator)) {
            return None;
        }
        let library = shipped(architecture)?;
        let image = container.root().join(format!("image-{architecture}"));
        for folder in
            ["etc", "lib", "lib64", "kai-guard/lib", "kai-guard/limits", "kai-guard/usage"]
        {
            std::fs::create_dir_all(image.join(folder)).unwrap();
        }
        let loader_name = Path::new(loader).file_name().unwrap();
        std::fs::copy(Path::new(libraries).join(loader_name), image.join(loader)).unwrap();
        std::fs::copy(Path::new(libraries).join("libc.so.6"), image.join("lib/libc.so.6")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub/build.sh");
        let mut built = Command::new("sh");
        built.arg(script).arg(image.join("stub")).env("CC", compiler);
        assert!(built.status().unwrap().success());
        compile(compiler, &[], &image);
        std::fs::copy(library, image.join("kai-guard/lib/libkai_guard.so")).unwrap();
        let preload = "/kai-guard/lib/libkai_guard.so\n";
        std::fs::write(image.join("etc/ld.so.preload"), preload).unwrap();
        if let Some(emulator) = emulator {
            std::fs::copy(Path::new("/usr/bin").join(emulator), image.join(emulator)).unwrap();
        }
        Some(Self { image, emulator })
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let emulator = self.emulator.map(|emulator| format!("/{emulator}"));
        Command::new("chroot")
            .arg(&self.image)
            .args(emulator)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LD_LIBRARY_PATH", "/lib:/stub")
            .env("LD_BIND_NOW", "1")
            .env("STUB_CUDA_DEVICES", DEVICE.replace('-', ""))
            .output()
            .unwrap()
    }
}

#[test]
fn distroless_image_without_libpthread_and_libdl_starts_and_is_limited() {
    for architecture in ["x86_64", "aarch64"] {
        let limits = format!("v1 mode=enforce device=GPU-{DEVICE},limit=2048");
        let container = Container::new(&limits);
        let Some(distroless) = Distroless::new(&container, architecture) else { continue };
        std::fs::write(distroless.image.join("kai-guard/limits/limits"), limits).unwrap();
        let hello = distroless.run(&["/hello"]);
        assert_eq!(
            (hello.status.code(), &hello.stdout[..], &hello.stderr[..]),
            (Some(7), &b"hello\n"[..], &b""[..]),
            "{architecture}: {hello:?}"
        );
        let filled = distroless.run(&["/stub/workload", "fill", "linear", "64"]);
        let text = String::from_utf8_lossy(&filled.stdout).into_owned();
        assert!(filled.status.success(), "{architecture}: {filled:?}");
        assert!(
            text.contains("code 2") && text.contains("total_mib 2048"),
            "{architecture}: {text}"
        );
    }
}

/// Stub and workload for aarch64 under qemu, with the limits of a container.
#[test]
fn aarch64_library_stops_allocation_at_the_limit() {
    let tools = has("qemu-aarch64-static") && has("aarch64-linux-gnu-gcc");
    let (Some(library), true) = (shipped("aarch64"), tools) else { return };
    let container = Container::new(&format!("v1 mode=enforce device=GPU-{DEVICE},limit=2048"));
    let preload = container.root().join("lib/libkai_guard.so");
    std::fs::copy(library, &preload).unwrap();
    let stub = container.root().join("stub");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub/build.sh");
    let built = Command::new("sh")
        .arg(script)
        .arg(&stub)
        .env("CC", "aarch64-linux-gnu-gcc")
        .status()
        .unwrap();
    assert!(built.success());
    for (program, family) in [
        ("workload", "linear"),
        ("workload", "async"),
        ("workload", "vmm"),
        ("workload-linked", "linear"),
    ] {
        let output = Command::new("qemu-aarch64-static")
            .args(["-L", "/usr/aarch64-linux-gnu"])
            .args(["-E", &format!("LD_PRELOAD={}", preload.display())])
            .args(["-E", &format!("LD_LIBRARY_PATH={}", stub.display())])
            .arg(stub.join(program))
            .args(["fill", family, "64"])
            .env("STUB_CUDA_DEVICES", DEVICE.replace('-', ""))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {family}: {text}");
        assert!(
            text.contains("round 1 count 2") && text.contains("code 2"),
            "{program} {family}: {text}"
        );
        assert!(text.contains("total_mib 2048"), "{program} {family}: {text}");
    }
}

fn compile(compiler: &str, flags: &[&str], folder: &Path) -> PathBuf {
    let source = folder.join("hello.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 7; }\n")
        .unwrap();
    let program = folder.join("hello");
    let built =
        Command::new(compiler).args(flags).arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success(), "{compiler} {flags:?}");
    program
}

#[test]
fn static_program_behaves_as_without_the_library() {
    let container = Container::new(&format!("v1 mode=enforce device=GPU-{DEVICE},limit=1"));
    let program = compile("cc", &["-static"], container.root());
    let output = container.preloaded(&mut Command::new(program));
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(7), &b"hello\n"[..], &b""[..])
    );
}

/// An image with nothing but musl and one program, as a pod gets it: the preload is a file, not a variable.
#[test]
fn musl_program_in_an_image_with_the_preload_file_starts() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        skipped("chroot needs root");
        return;
    }
    if !has("musl-gcc") {
        return;
    }
    let container = Container::new(&format!("v1 mode=enforce device=GPU-{DEVICE},limit=1"));
    let image = container.root().join("image");
    for folder in ["etc", "lib", "kai-guard/lib"] {
        std::fs::create_dir_all(image.join(folder)).unwrap();
    }
    compile("musl-gcc", &[], &image);
    let loader = format!("lib/ld-musl-{}.so.1", std::env::consts::ARCH);
    std::fs::copy("/usr/lib/x86_64-linux-musl/libc.so", image.join(loader)).unwrap();
    std::fs::copy(
        container.root().join("lib/libkai_guard.so"),
        image.join("kai-guard/lib/libkai_guard.so"),
    )
    .unwrap();
    std::fs::write(image.join("etc/ld.so.preload"), "/kai-guard/lib/libkai_guard.so\n").unwrap();
    let run = |variables: &[(&str, &str)]| {
        Command::new("chroot")
            .arg(&image)
            .arg("/hello")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    let output = run(&[]);
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(7), &b"hello\n"[..]),
        "{output:?}"
    );
    let by_variable = Command::new("chroot")
        .arg(&image)
        .args(["/lib/ld-musl-x86_64.so.1", "--preload", "/kai-guard/lib/libkai_guard.so", "/hello"])
        .output()
        .unwrap();
    assert_ne!(by_variable.status.code(), Some(7), "why the variable is not used: {by_variable:?}");
}
