//! Lists, whole or by the page.

use std::sync::Arc;

use serde_json::{Value, json};

use super::representation::{Representation, represent_list};
use super::request::{Answer, Request};
use super::{Subject, watch::Filter};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::object::Key;

/// A list of several pages: where the next page starts, and the version of the first page.
struct Continue {
    version: u64,
    after: Key,
}

impl Continue {
    /// Version, namespace and name; no name may contain a slash.
    fn token(&self) -> String {
        format!("{}/{}/{}", self.version, self.after.namespace, self.after.name)
    }

    fn parse(token: &str) -> Result<Self, Failure> {
        let mut parts = token.splitn(3, '/');
        let mut next = || parts.next().ok_or(());
        let parse = || -> Result<Self, ()> {
            let version = next()?.parse().map_err(|_| ())?;
            Ok(Self { version, after: Key::new(next()?, next()?) })
        };
        let mut parse = parse;
        parse().map_err(|()| Failure::bad_request("continue key is not valid"))
    }
}

impl Cluster {
    pub(super) fn list_objects(
        &mut self,
        request: &Request,
        subject: &Subject,
    ) -> Result<Answer, Failure> {
        let filter = Filter::of(request, subject, None)?;
        let more = request.query.get("continue").map(Continue::parse).transpose()?;
        let version = match &more {
            Some(more) => more.version,
            None => self.wanted_version(request)?,
        };
        let expired = |_| {
            Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            )
        };
        let objects = self.store.at(&subject.resource.id, version).map_err(expired)?;
        let mut found: Vec<&Arc<Value>> = objects
            .iter()
            .filter(|(key, _)| more.as_ref().is_none_or(|more| **key > more.after))
            .map(|(_, object)| object)
            .filter(|object| filter.matches(object))
            .collect();
        let limit = request.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if limit > 0 && found.len() > limit {
            let remaining = found.len() - limit;
            found.truncate(limit);
            let after = found.last().map(|object| Key::of(object)).unwrap_or_default();
            metadata["continue"] = json!(Continue { version, after }.token());
            if filter.is_open() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        let representation = Representation::of(request);
        let list = represent_list(representation, subject, &found, &metadata, self.now);
        Ok(Answer::object(200, list))
    }

    /// The version at which the list is wanted.
    fn wanted_version(&self, request: &Request) -> Result<u64, Failure> {
        let now = self.store.version();
        match request.query.get("resourceVersion") {
            Some(text) if text != "0" => {
                let version: u64 = text.parse().map_err(|_| {
                    Failure::bad_request(format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"))
                })?;
                match request.query.get("resourceVersionMatch") {
                    Some("Exact") => Ok(version.min(now)),
                    _ => Ok(now),
                }
            }
            _ => Ok(now),
        }
    }
}
