//! The scheduler's own webhook for pods, asked in the same process.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Completes a new pod or says why it is refused; the text is for names that nobody else may have.
type Ask = dyn Fn(&Value, &str) -> Result<Value, String> + Send + Sync;

/// Who is asked about new pods.
#[derive(Clone, Default)]
pub struct PodWebhook(Option<Arc<Ask>>);

impl PodWebhook {
    /// Asks this function.
    pub fn new(
        ask: impl Fn(&Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// The pod as it may be made.
    pub(crate) fn admit(&self, pod: &Value, unique: &str) -> Result<Value, String> {
        match &self.0 {
            Some(ask) => ask(pod, unique)
                .map_err(|why| format!("admission webhook denied the request: {why}")),
            None => Ok(pod.clone()),
        }
    }
}

impl fmt::Debug for PodWebhook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PodWebhook({})", self.0.is_some())
    }
}
