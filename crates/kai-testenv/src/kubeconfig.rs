//! Kubeconfig files: address of the API server and credentials of a client.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

/// Writes a kubeconfig for `user` into `folder` and gives its path. The certificate authority is `ca.crt` in `plane`.
pub(crate) fn write(
    plane: &Path,
    folder: &Path,
    name: &str,
    server: &str,
    user: &Value,
) -> anyhow::Result<PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": plane.join("ca.crt")}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        "current-context": "test",
    });
    let path = folder.join(format!("{name}.kubeconfig"));
    fs::write(&path, serde_json::to_string_pretty(&config)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
