//! Certificates for one run.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Where the API server is found: by tests, and by pods at its service address.
const SERVER_NAMES: [&str; 4] = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc"];

/// Writes `ca.{crt,key}`, `server.{crt,key}`, `admin.{crt,key}` and `accounts.{key,pub}` into `folder`.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let authority = authority()?;
    save(folder, "ca.crt", &authority.self_signed(&key)?.pem())?;
    save(folder, "ca.key", &key.serialize_pem())?;
    let issuer = Issuer::new(authority, key);
    let names = SERVER_NAMES.map(str::to_owned).to_vec();
    let serving = ExtendedKeyUsagePurpose::ServerAuth;
    sign(folder, "server", &subject("kube-apiserver", None, names, serving)?, &issuer)?;
    let admin = subject("admin", Some("system:masters"), Vec::new(), CLIENT)?;
    sign(folder, "admin", &admin, &issuer)?;
    let accounts = KeyPair::generate()?;
    save(folder, "accounts.key", &accounts.serialize_pem())?;
    save(folder, "accounts.pub", &accounts.public_key_pem())
}

const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;

/// Writes `kubelet.{crt,key}` and `serving.{crt,key}` of a node into `folder`; the certificates of the control plane are in `plane`.
pub(crate) fn write_node(
    plane: &Path,
    folder: &Path,
    node: &str,
    address: &str,
) -> anyhow::Result<()> {
    let key = plane.join("ca.key");
    let key = fs::read_to_string(&key).with_context(|| format!("cannot read {}", key.display()))?;
    let issuer = Issuer::new(authority()?, KeyPair::from_pem(&key)?);
    let name = format!("system:node:{node}");
    let client = subject(&name, Some("system:nodes"), Vec::new(), CLIENT)?;
    sign(folder, "kubelet", &client, &issuer)?;
    let names = vec![address.to_owned(), node.to_owned()];
    let serving = subject(&name, None, names, ExtendedKeyUsagePurpose::ServerAuth)?;
    sign(folder, "serving", &serving, &issuer)
}

/// The same at every call: its key signs certificates in later calls.
fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "kai-test");
    Ok(authority)
}

fn subject(
    name: &str,
    organization: Option<&str>,
    alternatives: Vec<String>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, rcgen::Error> {
    let mut subject = CertificateParams::new(alternatives)?;
    subject.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        subject.distinguished_name.push(DnType::OrganizationName, organization);
    }
    subject.extended_key_usages = vec![usage];
    Ok(subject)
}

fn sign(
    folder: &Path,
    name: &str,
    subject: &CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let certificate = subject.signed_by(&key, issuer)?;
    save(folder, &format!("{name}.crt"), &certificate.pem())?;
    save(folder, &format!("{name}.key"), &key.serialize_pem())
}

fn save(folder: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}
