//! Open connections of a server: how many there may be, and which is closed when there are too many.
//!
//! The longest open connection that has no request to answer is closed first, so that connections which never say anything
//! do not keep others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Open connections, in the order in which they came.
pub(super) struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, Entry>,
}

struct Entry {
    close: Arc<Notify>,
    /// A request is being answered.
    is_busy: bool,
}

/// One open connection; forgotten when dropped.
pub(super) struct Connection {
    number: u64,
    close: Arc<Notify>,
    all: Arc<Connections>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in, if need be in the place of an older one; none where all of them are busy.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Connection> {
        let mut open = self.lock();
        if open.by_number.len() >= self.most {
            let oldest = open.by_number.iter().find(|(_, entry)| !entry.is_busy);
            let oldest = oldest.map(|(number, _)| *number)?;
            if let Some(entry) = open.by_number.remove(&oldest) {
                entry.close.notify_one();
            }
        }
        let number = open.next;
        open.next += 1;
        let close = Arc::new(Notify::new());
        open.by_number.insert(number, Entry { close: Arc::clone(&close), is_busy: false });
        Some(Connection { number, close, all: Arc::clone(self) })
    }
}

impl Connection {
    /// Ends when the connection has to be closed in favour of another.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Says whether a request is being answered.
    pub(super) fn set_busy(&self, is_busy: bool) {
        if let Some(entry) = self.all.lock().by_number.get_mut(&self.number) {
            entry.is_busy = is_busy;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_oldest_connection_without_a_request_makes_way() {
        let all = Connections::new(2);
        let busy = all.admit().expect("the first");
        busy.set_busy(true);
        let idle = all.admit().expect("the second");
        let third = all.admit().expect("in the place of the second");
        assert!(idle.closed().now_or_never().is_some());
        assert!(busy.closed().now_or_never().is_none());
        third.set_busy(true);
        assert!(all.admit().is_none(), "both are busy");
        drop(busy);
        assert!(all.admit().is_some());
    }
}
