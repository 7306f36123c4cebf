//! Container images made from files: no registry, no daemon.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use ring::digest::{SHA256, digest};
use serde_json::json;

/// An image of one layer, as an archive that containerd imports.
#[derive(Debug)]
pub struct Image {
    /// Its name; the tag with it.
    pub name: String,
    /// What is started where a pod names nothing else.
    pub entrypoint: Vec<String>,
    /// Files of this machine, and where they are in the image.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Links in the image, and what they lead to.
    pub links: Vec<(PathBuf, PathBuf)>,
}

/// Programs that busybox is under the name of.
const APPLETS: [&str; 6] = ["sh", "sleep", "cat", "env", "ls", "echo"];

impl Image {
    /// An image with a few small programs.
    pub fn busybox(name: &str, entrypoint: &[&str]) -> Self {
        let links = APPLETS.map(|applet| (Path::new("/bin").join(applet), "busybox".into()));
        Self {
            name: name.to_owned(),
            entrypoint: entrypoint.iter().map(|&word| word.to_owned()).collect(),
            files: vec![("/bin/busybox".into(), "/bin/busybox".into())],
            links: links.to_vec(),
        }
    }

    /// An image with a program and the libraries it is linked to.
    pub fn program(name: &str, program: &Path, at: &str) -> anyhow::Result<Self> {
        let mut image = Self::busybox(name, &[at]);
        image.files.push((program.to_owned(), at.into()));
        image
            .files
            .extend(libraries(program)?.into_iter().map(|library| (library.clone(), library)));
        Ok(image)
    }

    /// Writes the archive into `folder`.
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let name: String =
            self.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let work = folder.join(&name);
        let (root, parts) = (work.join("root"), work.join("parts"));
        fs::create_dir_all(&parts).with_context(|| format!("cannot create {}", parts.display()))?;
        self.lay_out(&root)?;
        pack(&root, &parts.join("layer.tar"))?;
        let layer = sha256(&fs::read(parts.join("layer.tar"))?);
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        })
        .to_string();
        let config_file = format!("{}.json", sha256(config.as_bytes()));
        fs::write(parts.join(&config_file), config)?;
        let manifest =
            json!([{"Config": config_file, "RepoTags": [self.name], "Layers": ["layer.tar"]}]);
        fs::write(parts.join("manifest.json"), manifest.to_string())?;
        let archive = folder.join(format!("{name}.tar"));
        pack(&parts, &archive)?;
        fs::remove_dir_all(&work)?;
        Ok(archive)
    }

    fn lay_out(&self, root: &Path) -> anyhow::Result<()> {
        let place = |at: &Path| -> anyhow::Result<PathBuf> {
            let at = root.join(at.strip_prefix("/").unwrap_or(at));
            fs::create_dir_all(at.parent().unwrap_or(root))?;
            Ok(at)
        };
        for (from, at) in &self.files {
            fs::copy(from, place(at)?)
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        for (at, to) in &self.links {
            symlink(to, place(at)?)
                .with_context(|| format!("cannot make the link {}", at.display()))?;
        }
        Ok(())
    }
}

/// The libraries a program is linked to, the loader included, as `ldd` finds them.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let told = String::from_utf8_lossy(&output.stdout);
    let paths = told.lines().filter_map(|line| {
        let line = line.split(" => ").last()?;
        let path = line.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}

fn pack(folder: &Path, archive: &Path) -> anyhow::Result<()> {
    let status = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--mtime=@0", "-cf"])
        .arg(archive)
        .arg("-C")
        .arg(folder)
        .arg(".")
        .status()
        .context("cannot start tar")?;
    if !status.success() {
        bail!("tar of {} ended with {status}", folder.display());
    }
    Ok(())
}

fn sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
