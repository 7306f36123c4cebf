//! What a request to the fake API asks for.

/// Address of a list, or of an object in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    /// Path of the list over all namespaces, `/api/v1/pods`.
    pub(crate) list: String,
    /// Empty for objects without a namespace, and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Empty for a list.
    pub(crate) name: String,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// With all objects that exist, and a bookmark behind them.
    InitialEvents,
    /// With the first event after this resource version.
    After(u64),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Read(Address),
    List(Address),
    Watch(Address, WatchStart),
    Create(Address),
    /// Patches of subresources patch the object.
    Patch(Address, WhenMissing),
    Delete(Address),
    Bind(Address),
    Evict(Address),
    /// An event, which nothing reads.
    RecordEvent,
    /// The fake API has no answer: 404.
    Unknown,
}

/// What a patch does to an object that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenMissing {
    Fail,
    /// Server-side apply.
    Create,
}

impl Route {
    pub(crate) fn of(method: &str, path: &str, query: &str) -> Self {
        let Some((address, subresource)) = address(path) else { return Self::Unknown };
        let is_named = !address.name.is_empty();
        match (method, is_named, subresource) {
            ("POST", ..) if address.list.ends_with("/events") => Self::RecordEvent,
            ("GET", true, None | Some("status")) => Self::Read(address),
            ("GET", false, None) if has(query, "watch", "true") => {
                Self::Watch(address, watch_start(query))
            }
            ("GET", false, None) => Self::List(address),
            ("POST", false, None) => Self::Create(address),
            ("POST", true, Some("binding")) => Self::Bind(address),
            ("POST", true, Some("eviction")) => Self::Evict(address),
            ("PATCH", true, None | Some("status")) => {
                let applies = parameter(query, "fieldManager").is_some();
                let missing = if applies { WhenMissing::Create } else { WhenMissing::Fail };
                Self::Patch(address, missing)
            }
            ("DELETE", true, None) => Self::Delete(address),
            _ => Self::Unknown,
        }
    }
}

/// Address and subresource of a path; none where it names neither a list nor an object.
fn address(path: &str) -> Option<(Address, Option<&str>)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (api, rest) = match parts.as_slice() {
        ["api", _, ..] => parts.split_at(2),
        ["apis", _, _, ..] => parts.split_at(3),
        _ => return None,
    };
    // A namespace itself has no namespace.
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match *rest {
        [plural] => (plural, "", None),
        [plural, name] => (plural, name, None),
        [plural, name, subresource] => (plural, name, Some(subresource)),
        _ => return None,
    };
    let list = format!("/{}/{plural}", api.join("/"));
    let address = Address { list, namespace: namespace.to_owned(), name: name.to_owned() };
    Some((address, subresource))
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn has(query: &str, name: &str, value: &str) -> bool {
    parameter(query, name) == Some(value)
}

fn watch_start(query: &str) -> WatchStart {
    if has(query, "sendInitialEvents", "true") {
        return WatchStart::InitialEvents;
    }
    let version = parameter(query, "resourceVersion").and_then(|version| version.parse().ok());
    // Version 0 is older than every event, so that the client lists.
    WatchStart::After(version.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(list: &str, namespace: &str, name: &str) -> Address {
        Address { list: list.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn lists_and_watches_differ_in_their_query() {
        let queues = "/apis/scheduling.run.ai/v2/queues";
        assert_eq!(Route::of("GET", queues, "limit=500"), Route::List(at(queues, "", "")));
        let streamed = "watch=true&sendInitialEvents=true&resourceVersion=";
        let begin = Route::Watch(at(queues, "", ""), WatchStart::InitialEvents);
        assert_eq!(Route::of("GET", queues, streamed), begin);
        let resumed = Route::Watch(at(queues, "", ""), WatchStart::After(12));
        assert_eq!(Route::of("GET", queues, "watch=true&resourceVersion=12"), resumed);
        let unversioned = Route::Watch(at(queues, "", ""), WatchStart::After(0));
        assert_eq!(Route::of("GET", queues, "watch=true"), unversioned);
    }

    #[test]
    fn writes_of_pods_name_the_pod() {
        let pods = "/api/v1/namespaces/bench/pods";
        let (all, pod) = (at("/api/v1/pods", "bench", ""), at("/api/v1/pods", "bench", "a"));
        let of = |method: &str, rest: &str| Route::of(method, &format!("{pods}{rest}"), "");
        assert_eq!(of("POST", ""), Route::Create(all));
        assert_eq!(of("POST", "/a/binding"), Route::Bind(pod.clone()));
        assert_eq!(of("POST", "/a/eviction"), Route::Evict(pod.clone()));
        assert_eq!(of("DELETE", "/a"), Route::Delete(pod.clone()));
        assert_eq!(of("PATCH", "/a/status"), Route::Patch(pod.clone(), WhenMissing::Fail));
        assert_eq!(of("GET", "/a"), Route::Read(pod));
        assert_eq!(of("PUT", "/a/ephemeralcontainers"), Route::Unknown);
    }

    #[test]
    fn applied_objects_may_be_missing() {
        let path = "/apis/scheduling.run.ai/v2alpha2/namespaces/bench/podgroups/g";
        let group = at("/apis/scheduling.run.ai/v2alpha2/podgroups", "bench", "g");
        let applied = Route::of("PATCH", path, "fieldManager=kai&force=true");
        assert_eq!(applied, Route::Patch(group, WhenMissing::Create));
    }

    #[test]
    fn namespaces_have_no_namespace() {
        let namespace = at("/api/v1/namespaces", "", "bench");
        assert_eq!(Route::of("GET", "/api/v1/namespaces/bench", ""), Route::Read(namespace));
        let all = at("/api/v1/namespaces", "", "");
        assert_eq!(Route::of("GET", "/api/v1/namespaces", ""), Route::List(all));
    }

    #[test]
    fn events_are_recorded_nowhere_and_discovery_is_unknown() {
        let events = "/apis/events.k8s.io/v1/namespaces/bench/events";
        assert_eq!(Route::of("POST", events, ""), Route::RecordEvent);
        for path in ["/apis/resource.k8s.io", "/version", "/api/v1", "/"] {
            assert_eq!(Route::of("GET", path, ""), Route::Unknown, "{path}");
        }
    }
}
