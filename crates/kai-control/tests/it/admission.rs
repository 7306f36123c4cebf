//! Admission's certificate and registrations over months, in virtual time: the same story gives the same requests, keys
//! included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use kai_admission::certificates::KeyMaker;
use kai_admission::server;
use kai_client::env::{Clock, Env, TokioSpawner, Work};
use kai_core::time::{Span, Timestamp};
use kai_settings::admission::AdmissionSettings;
use rcgen::{KeyPair, PKCS_ED25519};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep};

use crate::api::Fault;
use crate::virtual_time::{VirtualClock, client, in_virtual_time, new_api};
use crate::{fault, times, writes};

/// What the story's clock takes for a day.
const DAY: u64 = 60 * 60;
const SECRETS: &str = "/api/v1/namespaces/kai-scheduler/secrets";

/// Keys in a fixed order, of a kind that signs the same text in the same way.
#[derive(Default)]
struct FixedKeys(AtomicU8);

impl KeyMaker for FixedKeys {
    fn make(&self) -> Result<KeyPair, rcgen::Error> {
        /// What stands before the 32 bytes of such a key.
        const HEAD: [u8; 16] =
            [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let seed = [self.0.fetch_add(1, Ordering::Relaxed); 32];
        let key = PrivatePkcs8KeyDer::from([&HEAD[..], &seed].concat());
        KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519)
    }
}

fn settings() -> AdmissionSettings {
    AdmissionSettings { port: 0, ..AdmissionSettings::default() }
}

/// By this clock a day passes while others wait for an hour: certificates live long.
struct DayAnHour(VirtualClock);

impl Clock for DayAnHour {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.0.elapsed().as_nanos()).expect("a short story");
        self.0.now().plus(Span { nanos: 23 * passed })
    }

    fn sleep(&self, span: Span) -> Work {
        self.0.sleep(span)
    }

    fn uptime(&self) -> Span {
        self.0.uptime()
    }
}

/// A hundred days, with a change of settings on the second; the requests, and the Secret of the end.
fn hundred_days(faults: Vec<Fault>) -> (Vec<String>, Value) {
    in_virtual_time(async {
        let begin = Instant::now();
        let api = new_api(begin, faults);
        let (sink, changing) = watch::channel(settings());
        let keys = Arc::new(FixedKeys::default());
        let clock = DayAnHour(VirtualClock(begin));
        let env = Env::new(Arc::new(clock), Arc::new(TokioSpawner));
        server::start(client(&api), env, keys, changing, &Arc::default()).await.expect("it starts");
        sleep(Duration::from_secs(DAY + DAY / 2)).await;
        sink.send_modify(|settings| settings.queues = false);
        sleep(Duration::from_secs(98 * DAY)).await;
        (api.log(), api.objects()["/api/v1/secrets"][0].clone())
    })
}

#[test]
fn the_certificate_is_renewed_in_time_and_the_same_story_gives_the_same_requests() {
    let (log, secret) = hundred_days(Vec::new());
    assert_eq!(log, hundred_days(Vec::new()).0);
    let writes = writes(&log);
    assert_eq!(times(&writes, &format!("POST {SECRETS} ")), [0.0]);
    let renewed = times(&writes, &format!("PUT {SECRETS}/"));
    let [renewed] = renewed[..] else { panic!("renewed once, after two thirds: {renewed:?}") };
    assert!((60.0..61.0).contains(&(renewed / DAY as f64)), "{renewed}");
    let queues = "validatingwebhookconfigurations/kai-queue-validation";
    let emptied: Vec<&&str> =
        writes.iter().filter(|line| line.contains(queues) && line.contains("[]")).collect();
    let emptied = times(&[emptied.first().expect("no longer checked")], "");
    assert_eq!(emptied, [(DAY + DAY / 2) as f64], "at once");
    assert_ne!(secret["data"]["tls.crt"], Value::Null);
}

#[test]
fn a_write_that_fails_is_tried_again_soon() {
    let refused = vec![fault("PUT", "/secrets/", 500, 2), fault("PUT", "/secrets/", 409, 1)];
    let (log, _) = hundred_days(refused.clone());
    assert_eq!(log, hundred_days(refused).0);
    let tried = times(&writes(&log), &format!("PUT {SECRETS}/"));
    let [first, second, third, fourth] = tried[..] else { panic!("{tried:?}") };
    assert_eq!([second - first, third - second, fourth - third], [5.0, 5.0, 0.0]);
}
