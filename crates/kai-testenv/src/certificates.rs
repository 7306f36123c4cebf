//! Certificates for one run.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.crt`, `server.{crt,key}`, `admin.{crt,key}` and `accounts.{key,pub}` into `folder`.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "kai-test");
    let own = authority.self_signed(&key)?;
    save(folder, "ca.crt", &own.pem())?;
    let issuer = Issuer::new(authority, key);
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(folder, "server", &server, &issuer)?;
    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(folder, "admin", &admin, &issuer)?;
    let accounts = KeyPair::generate()?;
    save(folder, "accounts.key", &accounts.serialize_pem())?;
    save(folder, "accounts.pub", &accounts.public_key_pem())
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
