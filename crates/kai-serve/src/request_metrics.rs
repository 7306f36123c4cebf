//! How many requests the servers of a process answered, how long that took, and how many handlers panicked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kai_core::time::Span;

use crate::metrics_text::{Histogram, Labels, Page};

/// The path of requests whose own path no server names.
const OTHER: &str = "other";
/// Seconds up to the first bound of durations; each bound is twice the one before.
const FIRST_BOUND_SECONDS: f64 = 0.001;
const BOUNDS: usize = 14;

/// Requests of all servers of a process.
#[derive(Debug)]
pub struct RequestMetrics {
    namespace: String,
    servers: Mutex<BTreeMap<&'static str, Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// By path and status code.
    answered: BTreeMap<(&'static str, u16), u64>,
    durations: BTreeMap<&'static str, Histogram>,
    panics: u64,
}

impl RequestMetrics {
    /// No requests yet; names of metrics begin with the namespace.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), servers: Mutex::default() }
    }

    /// The counts of one server. Paths come from clients: only these have series of their own.
    pub fn server(
        self: &Arc<Self>,
        name: &'static str,
        paths: &'static [&'static str],
    ) -> ServerMetrics {
        self.counts().entry(name).or_default();
        ServerMetrics { all: Arc::clone(self), name, paths }
    }

    /// A page of metrics.
    pub fn page(&self) -> String {
        let servers = self.counts();
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut page = Page::new(&self.namespace, None);
        let answered = servers.iter().flat_map(|(server, counts)| {
            counts.answered.iter().map(move |((path, code), count)| {
                let code = label("code", &code.to_string());
                (vec![label("server", server), label("path", path), code], *count)
            })
        });
        page.counted("http_requests_total", "Requests that were answered.", answered);
        let durations = servers.iter().flat_map(|(server, counts)| {
            counts.durations.iter().map(move |(path, histogram)| {
                (vec![label("server", server), label("path", path)], histogram)
            })
        });
        let help = "From the headers of a request to its answer.";
        page.histograms("http_request_duration_seconds", help, durations);
        let panics = servers
            .iter()
            .map(|(server, counts)| (Labels::from([label("server", server)]), counts.panics));
        let help = "Requests whose handler panicked; each was answered with 500.";
        page.counted("http_request_panics_total", help, panics);
        page.finish()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, Counts>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self::new("kai")
    }
}

/// Counts the requests of one server.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    all: Arc<RequestMetrics>,
    name: &'static str,
    paths: &'static [&'static str],
}

impl ServerMetrics {
    /// A request was answered with a status code after a span.
    pub(crate) fn note_answer(&self, path: &str, code: u16, span: Span) {
        let path = self.paths.iter().find(|known| **known == path).copied().unwrap_or(OTHER);
        let mut servers = self.all.counts();
        let counts = servers.entry(self.name).or_default();
        *counts.answered.entry((path, code)).or_default() += 1;
        let new = || Histogram::doubling(FIRST_BOUND_SECONDS, BOUNDS);
        counts.durations.entry(path).or_insert_with(new).note(span.as_seconds());
    }

    /// Counts a panic of a handler.
    pub(crate) fn note_panic(&self) {
        self.all.counts().entry(self.name).or_default().panics += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_no_server_names_share_one_series() {
        let metrics = Arc::new(RequestMetrics::default());
        let server = metrics.server("admission", &["/mutate"]);
        let page = metrics.page();
        assert!(page.contains("kai_http_request_panics_total{server=\"admission\"} 0\n"), "{page}");
        server.note_answer("/mutate", 200, Span { nanos: 3_000_000 });
        for number in 0..100 {
            server.note_answer(&format!("/{number}"), 404, Span { nanos: 1 });
        }
        let page = metrics.page();
        let series = |path: &str, code: u16| {
            format!(
                "kai_http_requests_total{{server=\"admission\",path=\"{path}\",code=\"{code}\"}}"
            )
        };
        assert!(page.contains(&format!("{} 1\n", series("/mutate", 200))), "{page}");
        assert!(page.contains(&format!("{} 100\n", series("other", 404))), "{page}");
        assert_eq!(page.matches("kai_http_requests_total{").count(), 2, "{page}");
        let took = "kai_http_request_duration_seconds_bucket{server=\"admission\",path=\"/mutate\",le=\"0.004\"} 1\n";
        assert!(page.contains(took), "{page}");
    }
}
