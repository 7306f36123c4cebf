//! OCI image archives: one index, and per platform a manifest, a configuration and a layer.

use std::collections::BTreeMap;
use std::fmt::Write;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::platform::Platform;
use crate::tree::Tree;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// How a container of the image is started.
#[derive(Clone, Debug, Default)]
pub struct RunConfig {
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// User and group, such as `10000:10000`; none: root.
    pub user: Option<String>,
    /// Environment variables, each as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
}

/// An image for one or several platforms.
#[derive(Clone, Debug)]
pub struct Image {
    /// Full name with host and tag, such as `localhost/kai-scheduler/kai:0.1.0`. Pods ask for the image by this name.
    pub name: String,
    /// How its containers are started.
    pub run: RunConfig,
    /// Files of the image, by platform.
    pub platforms: BTreeMap<Platform, Tree>,
}

/// A finished OCI archive.
#[derive(Debug)]
pub struct Archive {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Digest of the image index, by which a registry knows the image.
    pub digest: String,
}

impl Image {
    /// The archive that `ctr images import`, `k3s ctr images import`, `podman load` and `skopeo` take.
    pub fn archive(&self) -> anyhow::Result<Archive> {
        let mut blobs = Blobs::default();
        let mut manifests = Vec::new();
        for (platform, tree) in &self.platforms {
            let mut manifest = self.manifest(*platform, tree, &mut blobs)?;
            if let Some(fields) = manifest.as_object_mut() {
                let on = json!({"architecture": platform.architecture(), "os": "linux"});
                fields.insert("platform".to_owned(), on);
            }
            manifests.push(manifest);
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let mut descriptor = blobs.add_json(INDEX, &index);
        let digest = descriptor["digest"].as_str().unwrap_or_default().to_owned();
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        if let Some(fields) = descriptor.as_object_mut() {
            let names = json!({
                "io.containerd.image.name": self.name,
                "org.opencontainers.image.ref.name": tag,
            });
            fields.insert("annotations".to_owned(), names);
        }
        let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
        let mut files = blobs.0;
        files.file("index.json", top.to_string(), 0o644);
        files.file("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string(), 0o644);
        Ok(Archive { bytes: files.pack()?, digest })
    }

    /// Descriptor of the manifest for a platform.
    fn manifest(
        &self,
        platform: Platform,
        tree: &Tree,
        blobs: &mut Blobs,
    ) -> anyhow::Result<Value> {
        let layer = blobs.add(LAYER, tree.pack()?);
        let RunConfig { entrypoint, user, env, labels } = &self.run;
        let config = json!({
            "architecture": platform.architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": entrypoint,
                "Env": env,
                "Labels": labels,
                "User": user.as_deref().unwrap_or_default(),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        let config = blobs.add_json(CONFIG, &config);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
        });
        Ok(blobs.add_json(MANIFEST, &manifest))
    }
}

/// Content by its digest.
#[derive(Default)]
struct Blobs(Tree);

impl Blobs {
    /// Adds content; its descriptor.
    fn add(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let (hash, size) = (sha256(&content), content.len());
        self.0.file(&format!("blobs/sha256/{hash}"), content, 0o644);
        json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": size})
    }

    fn add_json(&mut self, media_type: &str, content: &Value) -> Value {
        self.add(media_type, content.to_string().into_bytes())
    }
}

fn sha256(content: &[u8]) -> String {
    let hash = digest(&SHA256, content);
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
