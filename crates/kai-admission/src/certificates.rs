//! Our own authority and the certificate it signs, kept in one Secret that all replicas share. The certificate is renewed
//! when a third of its time is left; the authority too, and then the old one is trusted beside the new one.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use kai_api::json;
use kai_client::failure::Failure;
use kai_client::path::Resource;
use kai_client::request::send;
use kai_client::write::read;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_translate::time;
use kube::Client;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

const DAY: i64 = 24 * 60 * 60;
const AUTHORITY_DAYS: i64 = 3650;
const CERTIFICATE_DAYS: i64 = 90;
/// Annotations of the Secret: when what it holds is renewed.
const RENEW_AUTHORITY: &str = "kai.scheduler/renew-authority";
const RENEW_CERTIFICATE: &str = "kai.scheduler/renew-certificate";
/// Annotation of the Secret: the names that the certificate is for.
const NAMES: &str = "kai.scheduler/certificate-names";
/// How often another replica may be faster before we wait.
const ATTEMPTS: usize = 5;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The Secret cannot be read or written.
    #[error("the Secret {0}: {1}")]
    Secret(String, Failure),
    /// It cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Made(#[from] rcgen::Error),
    /// Other writers change the Secret all the time.
    #[error("the Secret {0}: others changed it {ATTEMPTS} times while it was written")]
    Contested(String),
}

/// Makes keys. Chance is an input, as time is: a test that plays a story twice brings the same keys.
pub trait KeyMaker: Send + Sync {
    /// Generates a key pair.
    fn make(&self) -> Result<KeyPair, rcgen::Error>;
}

/// Keys that cannot be predicted.
#[derive(Clone, Copy, Debug)]
pub struct SystemKeys;

impl KeyMaker for SystemKeys {
    fn make(&self) -> Result<KeyPair, rcgen::Error> {
        KeyPair::generate()
    }
}

/// How a certificate is made.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// Names that it is for.
    pub names: &'a BTreeSet<String>,
    /// Where its keys come from.
    pub keys: &'a dyn KeyMaker,
    pub now: Timestamp,
}

/// The Secret that all replicas share.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub namespace: &'a str,
    /// Name of the Secret.
    pub secret: &'a str,
}

/// What the Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Certificates that clients trust, the newest first.
    pub trusted: String,
    authority_key: String,
    pub certificate: String,
    pub key: String,
    names: BTreeSet<String>,
    renew_authority: Timestamp,
    renew_certificate: Timestamp,
}

impl Bundle {
    /// A new authority and a new certificate. What was trusted stays trusted.
    pub fn new(making: Making<'_>, old: Option<&Self>) -> Result<Self, rcgen::Error> {
        let now = making.now;
        let key = making.keys.make()?;
        let authority = authority(now)?;
        let own = authority.self_signed(&key)?;
        let trusted = own.pem() + old.map_or("", |old| first_certificate(&old.trusted));
        let bundle = Self {
            trusted,
            authority_key: key.serialize_pem(),
            certificate: String::new(),
            key: String::new(),
            names: making.names.clone(),
            renew_authority: renewal(AUTHORITY_DAYS, now),
            renew_certificate: now,
        };
        bundle.with_certificate(making)
    }

    /// The same authority, and a new certificate.
    fn with_certificate(&self, making: Making<'_>) -> Result<Self, rcgen::Error> {
        let Making { names, keys, now } = making;
        let issuer = Issuer::new(authority(now)?, KeyPair::from_pem(&self.authority_key)?);
        let key = keys.make()?;
        let mut subject = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
        let name = names.first().map_or("kai", String::as_str);
        subject.distinguished_name.push(DnType::CommonName, name);
        subject.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut subject, CERTIFICATE_DAYS, now);
        Ok(Self {
            certificate: subject.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            names: names.clone(),
            renew_certificate: renewal(CERTIFICATE_DAYS, now),
            ..self.clone()
        })
    }

    /// What is to be used from now on, where this is too old or lacks a name. No name is taken back: another replica may be
    /// called by it.
    pub fn renewed(&self, making: Making<'_>) -> Result<Option<Self>, rcgen::Error> {
        let all = self.names.union(making.names).cloned().collect();
        let making = Making { names: &all, ..making };
        if self.renew_authority <= making.now {
            Self::new(making, Some(self)).map(Some)
        } else if self.renew_certificate <= making.now || self.names != all {
            self.with_certificate(making).map(Some)
        } else {
            Ok(None)
        }
    }

    fn from_secret(secret: &Value) -> Option<Self> {
        let text = |key: &str| {
            let bytes: ByteString = serde_json::from_value(secret["data"][key].clone()).ok()?;
            String::from_utf8(bytes.0).ok()
        };
        let note = |key: &str| secret["metadata"]["annotations"][key].as_str();
        let moment = |key: &str| time::parse(note(key)?).ok();
        Some(Self {
            trusted: text("ca.crt")?,
            authority_key: text("ca.key")?,
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
            names: note(NAMES).unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            renew_authority: moment(RENEW_AUTHORITY)?,
            renew_certificate: moment(RENEW_CERTIFICATE)?,
        })
    }

    /// The Secret with this bundle. Labels and annotations of the observed Secret stay: Helm and engines like Argo CD recognise
    /// their objects by them.
    fn secret(&self, place: Place<'_>, observed: Option<&Value>) -> Value {
        let mut secret = observed.cloned().unwrap_or_else(|| {
            let metadata = json!({"name": place.secret, "namespace": place.namespace});
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        });
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        for (annotation, value) in [
            (NAMES, names.join(" ")),
            (RENEW_AUTHORITY, time::format(self.renew_authority)),
            (RENEW_CERTIFICATE, time::format(self.renew_certificate)),
        ] {
            json::set(&mut secret, &["metadata", "annotations", annotation], value);
        }
        for (key, text) in [
            ("ca.crt", &self.trusted),
            ("ca.key", &self.authority_key),
            ("tls.crt", &self.certificate),
            ("tls.key", &self.key),
        ] {
            json::set(&mut secret, &["data", key], json!(ByteString(text.as_bytes().to_vec())));
        }
        secret
    }
}

fn authority(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "kai-admission");
    set_validity(&mut authority, AUTHORITY_DAYS, now);
    Ok(authority)
}

/// When two thirds of the time have passed.
fn renewal(days: i64, now: Timestamp) -> Timestamp {
    now.plus(time::seconds(days * DAY * 2 / 3))
}

fn first_certificate(trusted: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    trusted.find(END).map_or(trusted, |at| &trusted[..at + END.len()])
}

/// Valid from yesterday, so that clocks may differ, for so many days.
fn set_validity(certificate: &mut CertificateParams, days: i64, now: Timestamp) {
    let date = |days: i64| {
        let text = time::format(now.plus(time::seconds(days * DAY)));
        let number = |from: usize, to: usize| -> u16 {
            text.get(from..to).and_then(|part| part.parse().ok()).unwrap_or(1)
        };
        let (month, day) = (number(5, 7).to_le_bytes()[0], number(8, 10).to_le_bytes()[0]);
        date_time_ymd(number(0, 4).into(), month, day)
    };
    certificate.not_before = date(-1);
    certificate.not_after = date(days);
}

/// The certificate that all replicas use now, made or renewed if it must be.
pub async fn current(
    client: &Client,
    place: Place<'_>,
    making: Making<'_>,
) -> Result<Bundle, CertificateError> {
    let list = Resource::SECRETS.collection(place.namespace);
    let path = Resource::SECRETS.object(&ObjectName::new(place.namespace, place.secret));
    let failed = |failure: Failure| CertificateError::Secret(place.secret.to_owned(), failure);
    // Another replica may be faster: then what it made is ours too.
    for _ in 0..ATTEMPTS {
        let secret = read(client, &path).await.map_err(failed)?;
        let held = secret.as_ref().and_then(Bundle::from_secret);
        let wanted = match &held {
            Some(held) => match held.renewed(making)? {
                Some(renewed) => renewed,
                None => return Ok(held.clone()),
            },
            None => Bundle::new(making, None)?,
        };
        let object = wanted.secret(place, secret.as_ref());
        let written = match secret {
            Some(_) => send::<Value>(client, "PUT", &path, None, &object).await,
            None => send::<Value>(client, "POST", &list, None, &object).await,
        };
        match written {
            Ok(_) => return Ok(wanted),
            Err(Failure::Conflict { .. }) => {}
            Err(failure) => return Err(failed(failure)),
        }
    }
    Err(CertificateError::Contested(place.secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn after_days(days: i64) -> Timestamp {
        Timestamp { nanos: (1_767_225_600 + days * DAY) * 1_000_000_000 }
    }

    fn on_day(days: i64, names: &BTreeSet<String>) -> Making<'_> {
        Making { names, keys: &SystemKeys, now: after_days(days) }
    }

    #[test]
    fn certificates_are_renewed_in_time_and_the_old_authority_stays_trusted() {
        let names = names(&["admission.kai-scheduler.svc"]);
        let first = Bundle::new(on_day(0, &names), None).expect("a bundle");
        assert_eq!(first.renewed(on_day(59, &names)).expect("no error"), None);
        let second = first.renewed(on_day(60, &names)).expect("no error").expect("a new one");
        assert_eq!(second.trusted, first.trusted);
        assert_ne!(second.certificate, first.certificate);
        let third = second.renewed(on_day(2434, &names)).expect("no error").expect("a new one");
        assert_eq!(third.trusted.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(third.trusted.ends_with(&first.trusted));
    }

    #[test]
    fn a_name_that_the_certificate_lacks_is_added_and_none_is_taken_back() {
        let [one, both] = [names(&["service"]), names(&["service", "host"])];
        let first = Bundle::new(on_day(0, &one), None).expect("a bundle");
        let second = first.renewed(on_day(0, &both)).expect("no error");
        let second = second.expect("a new certificate");
        assert_eq!(second.trusted, first.trusted);
        assert_eq!(second.names, both);
        assert_eq!(second.renewed(on_day(0, &one)).expect("no error"), None);
    }

    #[test]
    fn secret_keeps_bundle_and_foreign_metadata() {
        let names = names(&["a", "b"]);
        let bundle = Bundle::new(on_day(0, &names), None).expect("a bundle");
        let place = Place { namespace: "kai-scheduler", secret: "s" };
        assert_eq!(Bundle::from_secret(&bundle.secret(place, None)), Some(bundle.clone()));
        let metadata = json!({"name": "s", "namespace": "kai-scheduler", "resourceVersion": "7",
            "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"tracking-id": "a"}});
        let installed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        let secret = bundle.secret(place, Some(&installed));
        assert_eq!(Bundle::from_secret(&secret), Some(bundle));
        assert_eq!(secret["metadata"]["resourceVersion"], "7");
        assert_eq!(secret["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(secret["metadata"]["annotations"]["tracking-id"], "a");
        assert_eq!(Bundle::from_secret(&json!({"data": {}})), None);
    }
}
