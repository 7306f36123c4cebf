//! Claims of devices: defaults.

use serde_json::{Value, json};

use crate::object::{self, set_default};

/// Fills the requests of a claim; `spec` is its specification.
pub(super) fn fill_claim(spec: &mut Value) {
    let requests = spec["devices"].get_mut("requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if request["exactly"].is_object() {
            fill_request(&mut request["exactly"]);
        }
        let choices = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        choices.into_iter().flatten().for_each(fill_request);
    }
}

/// Fills a template of claims.
pub(super) fn fill_template(template: &mut Value) {
    set_default(template, &["spec", "metadata"], json!({}));
    object::map_at(template, &["spec", "spec"]);
    fill_claim(&mut template["spec"]["spec"]);
}

fn fill_request(request: &mut Value) {
    set_default(request, &["allocationMode"], json!("ExactCount"));
    if request["allocationMode"] == "ExactCount" {
        set_default(request, &["count"], json!(1));
    }
}
