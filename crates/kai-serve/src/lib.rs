//! What a process serves: a small HTTP server, and metrics in the text format of Prometheus.

mod connections;
pub mod http;
pub mod metrics_text;
pub mod tls;
