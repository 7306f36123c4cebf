//! Container images made from files: no registry, no daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use kai_image::{Platform, RunConfig, Tree, product};

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

    /// Writes the image of `kai` as it is shipped, with this program, into `folder`.
    pub fn write_product(name: &str, program: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
        Self::write_product_with(name, program, &[], folder)
    }

    /// The same with further files of this machine, and where they are in the image.
    pub fn write_product_with(
        name: &str,
        program: &Path,
        more: &[(PathBuf, &str)],
        folder: &Path,
    ) -> anyhow::Result<PathBuf> {
        let mut files = product::files(program, Platform::host())?;
        for (from, at) in more {
            files.copy(from, at)?;
        }
        let image = product::image(name, [(Platform::host(), files)].into());
        let file = folder.join("product.tar");
        fs::write(&file, image.archive()?.bytes)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
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
        let run = RunConfig {
            entrypoint: self.entrypoint.clone(),
            env: vec!["PATH=/bin:/usr/bin".to_owned()],
            ..RunConfig::default()
        };
        let platforms = [(Platform::host(), self.tree()?)].into();
        let image = kai_image::Image { name: self.name.clone(), run, platforms };
        let file = folder.join(format!("{name}.tar"));
        fs::write(&file, image.archive()?.bytes)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    fn tree(&self) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        for (from, at) in &self.files {
            tree.copy(from, &at.display().to_string())?;
        }
        for (at, to) in &self.links {
            tree.link(&at.display().to_string(), &to.display().to_string());
        }
        Ok(tree)
    }
}

/// The libraries a program is linked to, the loader included, as `ldd` finds them.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let paths = listed.lines().filter_map(|line| {
        let line = line.split(" => ").last()?;
        let path = line.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}
