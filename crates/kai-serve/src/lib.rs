//! What a process serves: a small HTTP server with counts of its requests, and metrics in the text format of Prometheus.

mod connections;
pub mod http;
pub mod metrics_text;
pub mod request_metrics;
pub mod tls;
