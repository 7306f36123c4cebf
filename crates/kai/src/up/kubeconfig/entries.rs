//! The entries of a kubeconfig: which are ours, and how they are added and removed.

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::Connection;

const LISTS: [&str; 3] = ["clusters", "contexts", "users"];
const CURRENT: &str = "current-context";
/// The name of our contexts, and of the extension that marks them.
const NAME: &str = "kai";
const EXTENSION: &str = "kai.scheduler/up";

/// A context that was merged: it is removed only while its cluster has the same address.
pub(super) struct MergedContext {
    name: String,
    server: Value,
    previous: Option<String>,
}

impl MergedContext {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// A kubeconfig, with everything in it that this program does not know.
pub(super) struct Entries(Map<String, Value>);

impl Entries {
    /// Reads YAML or JSON; an empty text is an empty kubeconfig.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let read: Option<Value> =
            serde_saphyr::from_str(text).context("the file is not valid YAML")?;
        let map = match read {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => bail!("the file is not a kubeconfig: it must be a map"),
        };
        for list in LISTS {
            if !matches!(map.get(list), None | Some(Value::Null | Value::Array(_))) {
                bail!("the file is not a kubeconfig: {list} must be a list");
            }
        }
        Ok(Self(map))
    }

    /// As YAML that reads back as the same.
    pub(super) fn render(&self) -> anyhow::Result<String> {
        let text = serde_saphyr::to_string(&self.0).context("cannot render the file as YAML")?;
        let read: Result<Map<String, Value>, _> = serde_saphyr::from_str(&text);
        if read.is_ok_and(|read| read == self.0) {
            return Ok(text);
        }
        // JSON is YAML as well.
        Ok(serde_json::to_string_pretty(&self.0)? + "\n")
    }

    /// Whether there is no cluster, no context and no user.
    pub(super) fn is_empty(&self) -> bool {
        LISTS.iter().all(|list| self.list(list).is_empty())
    }

    /// Adds a context under a name that is not in use, and makes it the current one.
    pub(super) fn merge(&mut self, connection: &Connection, process: u32) -> MergedContext {
        let name = self.free_name();
        let previous = self.0.get(CURRENT).and_then(Value::as_str);
        let previous = previous.filter(|name| !name.is_empty()).map(str::to_owned);
        let mark = json!({"process": process, "previousContext": previous});
        let context = json!({
            "cluster": name,
            "user": name,
            "extensions": [{"name": EXTENSION, "extension": mark}],
        });
        self.0.entry("apiVersion").or_insert_with(|| json!("v1"));
        self.0.entry("kind").or_insert_with(|| json!("Config"));
        self.push("clusters", json!({"name": name, "cluster": connection.cluster}));
        self.push("contexts", json!({"name": name, "context": context}));
        self.push("users", json!({"name": name, "user": connection.user}));
        self.0.insert(CURRENT.to_owned(), json!(name));
        let server = connection.cluster.get("server").cloned().unwrap_or_default();
        MergedContext { name, server, previous }
    }

    /// Removes a context, its cluster and its user, unless another tool replaced them under the same name.
    pub(super) fn remove(&mut self, context: &MergedContext) {
        if self.server(&context.name) == Some(&context.server) {
            self.remove_named(&context.name, context.previous.as_deref());
        }
    }

    /// Removes contexts of ours whose process ended without removing them. True if there were any.
    pub(super) fn remove_stale(&mut self, process_is_alive: impl Fn(u64) -> bool) -> bool {
        let stale = |entry: &Value| {
            let mark = mark_of(entry)?;
            let process = mark.get("process")?.as_u64()?;
            let previous = mark.get("previousContext").and_then(Value::as_str);
            let name = name_of(entry)?.to_owned();
            (!process_is_alive(process)).then(|| (name, previous.map(str::to_owned)))
        };
        let stale: Vec<_> = self.list("contexts").iter().filter_map(stale).collect();
        for (name, previous) in stale.iter().rev() {
            self.remove_named(name, previous.as_deref());
        }
        !stale.is_empty()
    }

    fn remove_named(&mut self, name: &str, previous: Option<&str>) {
        for list in LISTS {
            if let Some(Value::Array(entries)) = self.0.get_mut(list) {
                entries.retain(|entry| name_of(entry) != Some(name));
            }
        }
        if self.0.get(CURRENT).and_then(Value::as_str) != Some(name) {
            return;
        }
        let previous = previous.filter(|previous| self.has("contexts", previous));
        self.0.insert(CURRENT.to_owned(), json!(previous.unwrap_or_default()));
    }

    fn free_name(&self) -> String {
        let is_free = |name: &String| !LISTS.iter().any(|list| self.has(list, name));
        let numbered = (2_u32..).map(|number| format!("{NAME}-{number}"));
        std::iter::once(NAME.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    fn server(&self, cluster: &str) -> Option<&Value> {
        let entry = self.list("clusters").iter().find(|entry| name_of(entry) == Some(cluster))?;
        entry.get("cluster")?.get("server")
    }

    fn has(&self, list: &str, name: &str) -> bool {
        self.list(list).iter().any(|entry| name_of(entry) == Some(name))
    }

    fn list(&self, name: &str) -> &[Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn push(&mut self, list: &str, entry: Value) {
        match self.0.get_mut(list) {
            Some(Value::Array(entries)) => entries.push(entry),
            _ => {
                self.0.insert(list.to_owned(), Value::Array(vec![entry]));
            }
        }
    }
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name")?.as_str()
}

/// What we wrote about a context, if it is ours.
fn mark_of(context: &Value) -> Option<&Value> {
    let extensions = context.get("context")?.get("extensions")?.as_array()?;
    extensions.iter().find(|entry| name_of(entry) == Some(EXTENSION))?.get("extension")
}
