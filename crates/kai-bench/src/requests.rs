//! Writes that the API server served, from its own metrics.

use anyhow::Context;
use kube::Client;

const METRIC: &str = "apiserver_request_total{";
const WRITES: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
/// Written by every process all the time, and by none per pod.
const IGNORED: [&str; 2] = ["leases", "tokenreviews"];

/// Number of writes that the API server served since it began.
pub(crate) async fn writes(client: &Client) -> anyhow::Result<f64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text =
        client.request_text(request).await.context("cannot read the API server's metrics")?;
    Ok(count(&text))
}

fn count(text: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(METRIC)?.rsplit_once("} "));
    let writes = lines.filter(|(labels, _)| {
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split('"').next()
        };
        label("verb").is_some_and(|verb| WRITES.contains(&verb))
            && !label("resource").is_some_and(|resource| IGNORED.contains(&resource))
    });
    writes.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_leases_do_not_count() {
        let text = "# HELP apiserver_request_total x\n\
            apiserver_request_total{code=\"201\",resource=\"pods\",subresource=\"binding\",verb=\"POST\"} 7\n\
            apiserver_request_total{code=\"200\",resource=\"pods\",verb=\"LIST\"} 3\n\
            apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 5\n\
            apiserver_request_total{code=\"200\",resource=\"configmaps\",verb=\"PATCH\"} 2\n";
        assert_eq!(count(text), 9.0);
    }
}
