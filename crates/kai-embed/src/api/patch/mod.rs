//! Patches of every kind.

mod apply;
mod json;
mod merge;
mod strategic;

use serde_json::Value;

use super::Subject;
use super::request::{Answer, Content, Request};
use super::write::{Part, Writer};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::Origin;
use crate::object;

pub(crate) use json::apply as apply_json_patch;
pub(crate) use merge::merge;

impl Cluster {
    pub(super) fn patch(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
        part: Part,
    ) -> Result<Answer, Failure> {
        let kind = request.patch_kind()?;
        if kind == Content::Apply {
            return self.apply(request, subject, name, part);
        }
        let old = self.find(subject, name)?;
        let mut new = match kind {
            // A patch of this kind may name any field.
            Content::JsonPatch => Value::clone(&old),
            _ => object::without_managers(&old, &[]),
        };
        subject.dialect.speak(&mut new);
        let patch = request.value()?;
        match kind {
            Content::JsonPatch => json::apply(&mut new, &patch)
                .map_err(|why| Failure::invalid_patch(&subject.resource.id, &why))?,
            Content::StrategicMergePatch if subject.resource.origin == Origin::Builtin => {
                strategic::merge(&mut new, &patch);
            }
            Content::StrategicMergePatch => {
                return Err(Failure::unsupported_media_type(&request.content_type));
            }
            Content::MergePatch | Content::Apply => merge(&mut new, &patch),
        }
        if !new.is_object() {
            return Err(Failure::bad_request("the result of the patch is not an object"));
        }
        subject.dialect.understand(&mut new);
        keep_identity(&mut new, &old, &patch, subject)?;
        let mut writer = Writer::of(request)?;
        if part == Part::Status {
            writer.subresource = "status";
        }
        let written = self.update(&subject.resource, new, part, &writer)?;
        Ok(self.show(request, subject, 200, &written))
    }
}

/// A patch may state what the object is, but not change it.
fn keep_identity(
    new: &mut Value,
    old: &Value,
    patch: &Value,
    subject: &Subject,
) -> Result<(), Failure> {
    for key in ["name", "namespace"] {
        if new["metadata"][key] != old["metadata"][key] {
            return Err(Failure::bad_request(format!(
                "the {key} of the object does not match the {key} on the URL"
            )));
        }
    }
    // A version in a patch is a precondition; one that is not there is none.
    if patch["metadata"].get("resourceVersion").is_none() {
        object::remove(new, &["metadata", "resourceVersion"]);
    }
    new["apiVersion"] = Value::from(subject.resource.api_version(&subject.resource.stored().name));
    new["kind"] = Value::from(subject.resource.kind.as_str());
    Ok(())
}
