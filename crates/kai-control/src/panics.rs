//! Panics of a planner: caught where a change is applied or a cycle planned, so that one object does not end the process.
//!
//! The state after a panic is not trusted. The planner is discarded and lists everything anew, without the object that was
//! being read; the same panic again ends the process.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use k8s_openapi::api::core::v1 as api;
use kai_api::view::Pod;
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::watch::Change;
use kai_client::write::{Create, Write, Writer};
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;

use crate::planner::Planner;
use crate::status::events::{Subject, counted_once};

thread_local! {
    /// A panic of this thread is caught by [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the latest such panic came from.
    static SITE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does something; where it panics, the place in the source and the message.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Site> {
    observe_panics();
    let before = IS_GUARDED.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(before);
    ended.map_err(|payload| Site { place: SITE.take(), message: message(&*payload) })
}

/// Where a panic came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// File, line and column.
    pub(crate) place: String,
    pub(crate) message: String,
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Notes where guarded panics come from; others are reported as before.
fn observe_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_GUARDED.get() {
                let place = panic.location().map(ToString::to_string).unwrap_or_default();
                SITE.set(place);
            } else {
                before(panic);
            }
        }));
    });
}

/// An object by kind and name.
pub(crate) type Address = (Kind, ObjectName);

/// The object that a change is about.
pub(crate) fn address(change: &Change) -> Option<Address> {
    change.object()
}

/// What was learnt from panics.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    skipped: BTreeSet<Address>,
    places: BTreeSet<String>,
    /// How many panics there were.
    pub(crate) panics: u64,
}

impl Quarantine {
    /// Remembers a panic; false where the same was there before.
    fn record(&mut self, site: &Site, object: Option<&Address>) -> bool {
        self.panics += 1;
        self.skipped.extend(object.cloned());
        self.places.insert(site.place.clone())
    }

    /// Remembers a panic; the same panic again ends the process.
    pub(crate) fn record_or_abort(&mut self, site: &Site, object: Option<&Address>) {
        if !self.record(site, object) {
            tracing::error!(place = site.place, "the same panic again, ending the process");
            std::process::abort();
        }
    }

    /// Is the change about an object that made a planner panic? One that is gone is forgotten.
    pub(crate) fn skips(&mut self, change: &Change) -> bool {
        if self.skipped.is_empty() {
            return false;
        }
        if let Change::Gone(kind, name) = change {
            self.skipped.remove(&(*kind, name.clone()));
            return false;
        }
        address(change).is_some_and(|address| self.skipped.contains(&address))
    }
}

/// Panics where a test wants it, as a change is applied.
pub(crate) fn trip(change: &Change) {
    #[cfg(test)]
    tests::trip_change(change);
    let _ = change;
}

/// Panics where a test wants it, as a pod is grouped.
pub(crate) fn trip_grouping(pod: &Pod) {
    #[cfg(test)]
    tests::trip_grouping(pod);
    let _ = pod;
}

/// The clock of a cycle, which panics in the midst of it where a test wants it.
pub(crate) fn cycle_clock(env: Env, planner: &Planner) -> impl Fn() -> Timestamp + use<> {
    #[cfg(test)]
    let fault = tests::CycleFault::of(planner);
    let _ = planner;
    move || {
        #[cfg(test)]
        fault.trip();
        env.now()
    }
}

/// Records an event of the object: it is skipped, and why.
pub(crate) async fn report(writer: Writer, address: Address, site: Site, now: Timestamp) {
    let (kind, name) = address;
    let subject = Subject::Object(kind, name.clone(), "".into());
    let write = Write::Create(Create::new(&event(&subject, &site, now)));
    if let Err(failure) = writer.write(&write).await {
        tracing::warn!(kind = kind.name(), object = %name, %failure, "failed to write the event of a skipped object");
    }
}

fn event(subject: &Subject, site: &Site, now: Timestamp) -> api::Event {
    api::Event {
        metadata: subject.event_metadata(now.nanos),
        involved_object: subject.reference(),
        type_: Some("Warning".to_owned()),
        reason: Some("SchedulerPanicked".to_owned()),
        message: Some(format!(
            "the scheduler panicked at {} while it handled this object, which is skipped until it is deleted: {}",
            site.place, site.message
        )),
        ..counted_once("kai", now)
    }
}

#[cfg(test)]
mod tests;
