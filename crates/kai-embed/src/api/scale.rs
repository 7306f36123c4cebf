//! The scale of a workload: how many it wants, has, and which.

use serde_json::{Value, json};

use super::Subject;
use super::patch::merge;
use super::request::{Answer, Content, Request};
use super::write::{Part, Writer};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::ScalePaths;
use crate::object::{self, entries, text};

impl Cluster {
    pub(super) fn scale(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
    ) -> Result<Answer, Failure> {
        let Some(paths) = subject.version().scale.clone() else {
            return Err(Failure::no_such_path());
        };
        let object = self.find(subject, name)?;
        let scale = scale_of(&object, &paths);
        let wanted = match request.method.as_str() {
            "GET" => return Ok(Answer::object(200, scale)),
            "PUT" => request.object()?,
            "PATCH" if request.patch_kind()? != Content::JsonPatch => {
                let mut wanted = scale;
                merge(&mut wanted, &request.value()?);
                wanted
            }
            _ => return Err(Failure::method_not_allowed()),
        };
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
        let mut scaled = Value::clone(&object);
        object::set(&mut scaled, &segments(&paths.spec), json!(replicas));
        if object::version(&wanted) != object::version(&object) {
            let version = object::version(&wanted).to_owned();
            object::set(&mut scaled, &["metadata", "resourceVersion"], version.into());
        }
        let writer = Writer { subresource: "scale", ..Writer::of(request)? };
        let written = self.update(&subject.resource, scaled, Part::Whole, &writer)?;
        Ok(Answer::object(200, scale_of(&written, &paths)))
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('.').filter(|part| !part.is_empty()).collect()
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let number = |path: &str| object::at(object, &segments(path)).as_i64().unwrap_or_default();
    let mut status = json!({"replicas": number(&paths.status)});
    if let Some(path) = &paths.selector {
        let selector = object::at(object, &segments(path));
        let selector = match selector {
            Value::String(selector) => selector.clone(),
            selector => {
                let pairs = entries(&selector["matchLabels"]);
                let pairs: Vec<String> =
                    pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
                pairs.join(",")
            }
        };
        status["selector"] = json!(selector);
    }
    let metadata = &object["metadata"];
    let wanted = match number(&paths.spec) {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": text(&metadata["name"]),
            "namespace": text(&metadata["namespace"]),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": wanted,
        "status": status,
    })
}
