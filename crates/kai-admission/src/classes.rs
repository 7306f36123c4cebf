//! Runtime classes that exist: a pod that names one that does not is denied by the API server, so none is given that is
//! not there.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::watch::{Change, Lists, watch};
use kube::Client;
use tokio::sync::mpsc::channel;

use super::PodRules;

/// The class that is taken where the configured one does not exist.
const USUAL: &str = "nvidia";

/// Runtime classes that exist; none: they were not listed yet.
#[derive(Debug, Default)]
pub(super) struct RuntimeClasses(RwLock<Option<BTreeSet<String>>>);

impl RuntimeClasses {
    /// Follows them for as long as the process lives.
    pub(super) fn follow(client: &Client, env: &Env) -> Arc<Self> {
        let classes = Arc::new(Self::default());
        let (sink, mut changes) = channel(1);
        env.spawn(
            "watch",
            watch(client.clone(), env.clone(), Kind::RuntimeClass, Lists::default(), sink),
        );
        let known = Arc::clone(&classes);
        env.spawn("watch", async move {
            let mut existing = BTreeSet::new();
            let mut listed = false;
            while let Some(change) = changes.recv().await {
                match change {
                    Change::Object(name, _) => {
                        existing.insert(name.name.to_string());
                    }
                    Change::Malformed(malformed) => {
                        existing.insert(malformed.name.name.to_string());
                    }
                    Change::Gone(_, name) => {
                        existing.remove(&*name.name);
                    }
                    Change::Listed(_) | Change::Absent(_) => listed = true,
                    Change::Pod(_) | Change::Node(_) => {}
                }
                if listed {
                    known.set(existing.clone());
                }
            }
        });
        classes
    }

    fn set(&self, existing: BTreeSet<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(existing);
    }

    /// The rules with a runtime class that exists: the configured one, else the usual one, else none.
    pub(super) fn narrow(&self, rules: &PodRules) -> PodRules {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut rules = rules.clone();
        if let Some(existing) = &*known {
            let names = rules.runtime_class.iter().map(String::as_str).chain([USUAL]);
            let class = names.into_iter().find(|name| existing.contains(*name)).map(str::to_owned);
            rules.runtime_class = rules.runtime_class.and(class);
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed(configured: Option<&str>, existing: Option<&[&str]>) -> Option<String> {
        let classes = RuntimeClasses::default();
        if let Some(existing) = existing {
            classes.set(existing.iter().map(ToString::to_string).collect());
        }
        let runtime_class = configured.map(str::to_owned);
        classes.narrow(&PodRules { runtime_class, ..PodRules::default() }).runtime_class
    }

    #[test]
    fn only_a_class_that_exists_is_given() {
        assert_eq!(narrowed(Some("gpu"), None).as_deref(), Some("gpu"), "not listed yet");
        assert_eq!(narrowed(Some("gpu"), Some(&["gpu", "nvidia"])).as_deref(), Some("gpu"));
        assert_eq!(narrowed(Some("gpu"), Some(&["nvidia"])).as_deref(), Some("nvidia"));
        assert_eq!(narrowed(Some("nvidia"), Some(&[])), None);
        assert_eq!(narrowed(None, Some(&["nvidia"])), None, "turned off");
    }
}
