//! Tables: the columns that `kubectl get` prints.

mod columns;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::{Origin, Resource, Version};
use crate::object::{self, name, read_moment};

/// Objects as rows; `row_object` is what a row carries beside its cells.
pub(crate) fn table(
    resource: &Resource,
    version: &Version,
    objects: &[&Value],
    metadata: &Value,
    now: Timestamp,
    row_object: &dyn Fn(&Value) -> Value,
) -> Value {
    let (columns, rows) = match resource.origin {
        Origin::Builtin => {
            let columns = columns::of(resource);
            let cells =
                |object: &Value| columns.iter().map(|one| (one.cell)(object, now)).collect();
            let rows: Vec<Vec<Value>> = objects.iter().map(|object| cells(object)).collect();
            let head: Vec<Value> = columns
                .iter()
                .map(|one| column(one.name, "string", format(one.name), one.priority))
                .collect();
            (head, rows)
        }
        Origin::Custom => custom(version, objects, now),
    };
    let rows: Vec<Value> = rows
        .into_iter()
        .zip(objects)
        .map(|(cells, object)| json!({"cells": cells, "object": row_object(object)}))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// The columns that a definition asks for.
fn custom(version: &Version, objects: &[&Value], now: Timestamp) -> (Vec<Value>, Vec<Vec<Value>>) {
    let mut columns = vec![column("Name", "string", "name", 0)];
    let mut paths: Vec<&str> = Vec::new();
    for own in &version.columns {
        let kind = object::text(&own["type"]);
        let priority = own["priority"].as_i64().unwrap_or_default();
        columns.push(column(object::text(&own["name"]), kind, "", priority));
        paths.push(object::text(&own["jsonPath"]));
    }
    if version.columns.is_empty() {
        columns.push(column("Age", "date", "", 0));
        paths.push(".metadata.creationTimestamp");
    }
    let rows = objects.iter().map(|object| {
        let own = paths
            .iter()
            .zip(&columns[1..])
            .map(|(path, column)| cell(at_path(object, path), object::text(&column["type"]), now));
        std::iter::once(json!(name(object))).chain(own).collect()
    });
    let rows = rows.collect();
    (columns, rows)
}

/// Commands put the kind before what is formatted as a name.
fn format(column: &str) -> &'static str {
    if column == "Name" { "name" } else { "" }
}

fn column(name: &str, kind: &str, format: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

fn at_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(object, |here, key| &here[key])
}

fn cell(value: &Value, kind: &str, now: Timestamp) -> Value {
    match (kind, read_moment(value)) {
        ("date", Some(moment)) => json!(age(now, moment)),
        ("string", _) if value.is_object() || value.is_array() => json!(value.to_string()),
        _ => value.clone(),
    }
}

/// A span as `kubectl` shows it: the two largest units while they are small.
pub fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = (now.as_second() - since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now = Timestamp::from_second(1_000_000_000).expect("a time");
        let ago = |seconds: i64| {
            age(now, Timestamp::from_second(1_000_000_000 - seconds).expect("a time"))
        };
        let ages = [5, 119, 125, 600, 3600, 3 * 3600 + 60, 50 * 3600, 9 * 86_400].map(ago);
        assert_eq!(ages, ["5s", "119s", "2m5s", "10m", "60m", "3h1m", "2d2h", "9d"]);
    }
}
