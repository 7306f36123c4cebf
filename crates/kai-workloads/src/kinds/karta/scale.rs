//! How many pods a component and all below it have at least.
//!
//! A component's own scale is its minimum where that is positive, else its replicas; it multiplies what is below. A component that
//! says nothing passes on what is above and below. Without any scale, each component with pods counts once.

use serde_json::Value;

use crate::error::GroupingError;
use crate::jq::Query;
use crate::object::Object;

use super::definition::{Component, Structure};

/// The scale of the subtree under a component; of one instance of that component, where one is named.
pub(super) fn of_subtree(
    structure: &Structure,
    name: &str,
    instance: Option<&str>,
    top: Object<'_>,
) -> Result<i32, GroupingError> {
    let scaled = structure
        .subtree(name)
        .into_iter()
        .any(|name| structure.component(name).is_ok_and(|component| component.has_scale));
    let counter = Counter { structure, top };
    let size = if scaled {
        counter.by_scale(name, instance)?
    } else {
        counter.by_leaves(name, instance)?
    };
    i32::try_from(size).map_err(|_| structure.error(name, format!("{size} pods are too many")))
}

struct Counter<'a> {
    structure: &'a Structure,
    top: Object<'a>,
}

impl Counter<'_> {
    fn by_scale(&self, name: &str, instance: Option<&str>) -> Result<i64, GroupingError> {
        let component = self.structure.component(name)?;
        let scales = self.scales(name, component)?;
        let own = match instance {
            None => scales.iter().map(|(_, scale)| scale).sum(),
            Some(instance) => {
                scales.iter().find(|(id, _)| id == instance).map(|(_, scale)| *scale).ok_or_else(
                    || self.structure.error(name, format!("instance id {instance} not found")),
                )?
            }
        };
        let mut below = 0_i64;
        for child in &component.children {
            below = below.saturating_add(self.by_scale(child, None)?);
        }
        Ok(match (own, below) {
            (own, 0) => own,
            (0, below) => below,
            (own, below) => own.saturating_mul(below),
        })
    }

    fn by_leaves(&self, name: &str, instance: Option<&str>) -> Result<i64, GroupingError> {
        let component = self.structure.component(name)?;
        if component.has_pods || component.children.is_empty() {
            return Ok(match instance {
                Some(_) => 1,
                None => self.instances(name)?.len() as i64,
            });
        }
        component.children.iter().map(|child| self.by_leaves(child, None)).sum()
    }

    /// The ids of the instances of a component; one without a name where it has no instances.
    fn instances(&self, name: &str) -> Result<Vec<String>, GroupingError> {
        match &self.structure.component(name)?.instance_ids {
            None => Ok(vec![String::new()]),
            Some(query) => Ok(self.run(name, query)?.iter().map(text).collect()),
        }
    }

    fn scales(
        &self,
        name: &str,
        component: &Component,
    ) -> Result<Vec<(String, i64)>, GroupingError> {
        if !component.has_scale {
            return Ok(Vec::new());
        }
        let replicas = self.numbers(name, component.replicas.as_ref())?;
        let minimums = self.numbers(name, component.min_replicas.as_ref())?;
        let ids = self.instances(name)?;
        let found = replicas.len().max(minimums.len());
        if found != ids.len() && found > 0 {
            let problem = format!(
                "instance ids count ({}) does not match results count ({found})",
                ids.len()
            );
            return Err(self.structure.error(name, problem));
        }
        let positive = |numbers: &[i64], index: usize| {
            numbers.get(index).copied().filter(|number| *number > 0)
        };
        let scale =
            |index| positive(&minimums, index).or_else(|| positive(&replicas, index)).unwrap_or(0);
        Ok(ids.into_iter().enumerate().map(|(index, id)| (id, scale(index))).collect())
    }

    fn numbers(&self, name: &str, query: Option<&Query>) -> Result<Vec<i64>, GroupingError> {
        let Some(query) = query else { return Ok(Vec::new()) };
        let number = |value: &Value| match value {
            Value::Null => Some(0),
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        self.run(name, query)?
            .iter()
            .map(|value| {
                number(value).ok_or_else(|| {
                    self.structure.error(name, format!("{value} is no number of replicas"))
                })
            })
            .collect()
    }

    fn run(&self, name: &str, query: &Query) -> Result<Vec<Value>, GroupingError> {
        query.run(self.top.value()).map_err(|error| self.structure.error(name, error.to_string()))
    }
}

/// A value as it reads in a name.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
