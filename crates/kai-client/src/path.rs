//! Paths of the API server. Names become part of a path here and nowhere else, percent-encoded: a name such as `a/b` or
//! `?watch=true` addresses an object that does not exist, never another path.

use kai_core::input::ObjectName;

/// A kind of object under its group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Group and version, from the root.
    pub api: &'static str,
    /// Plural name of the kind.
    pub plural: &'static str,
}

impl Resource {
    const fn new(api: &'static str, plural: &'static str) -> Self {
        Self { api, plural }
    }

    pub const PODS: Self = Self::new("/api/v1", "pods");
    pub const NODES: Self = Self::new("/api/v1", "nodes");
    pub const CONFIG_MAPS: Self = Self::new("/api/v1", "configmaps");
    pub const SECRETS: Self = Self::new("/api/v1", "secrets");
    pub const EVENTS: Self = Self::new("/api/v1", "events");
    pub const PERSISTENT_VOLUMES: Self = Self::new("/api/v1", "persistentvolumes");
    pub const PERSISTENT_VOLUME_CLAIMS: Self = Self::new("/api/v1", "persistentvolumeclaims");
    /// Claims of devices.
    pub const RESOURCE_CLAIMS: Self = Self::new("/apis/resource.k8s.io/v1", "resourceclaims");
    pub const LEASES: Self = Self::new("/apis/coordination.k8s.io/v1", "leases");
    pub const BIND_REQUESTS: Self = Self::new("/apis/scheduling.run.ai/v1alpha2", "bindrequests");
    pub const POD_GROUPS: Self = Self::new("/apis/scheduling.run.ai/v2alpha2", "podgroups");
    pub const QUEUES: Self = Self::new("/apis/scheduling.run.ai/v2", "queues");
    /// Settings of the installation.
    pub const CONFIGS: Self = Self::new("/apis/kai.scheduler/v1", "configs");
    pub const SCHEDULING_SHARDS: Self = Self::new("/apis/kai.scheduler/v1", "schedulingshards");

    /// Path of all objects in a namespace; of the kind without namespaces where it is empty.
    pub fn collection(self, namespace: &str) -> String {
        collection_path(self.api, self.plural, namespace)
    }

    /// Path of an object; without a namespace where that is empty.
    pub fn object(self, name: &ObjectName) -> String {
        object_path(self.api, self.plural, name)
    }
}

/// Path of all objects of a kind in a namespace.
pub fn collection_path(api: &str, plural: &str, namespace: &str) -> String {
    if namespace.is_empty() {
        return format!("{api}/{plural}");
    }
    format!("{api}/namespaces/{}/{plural}", segment(namespace))
}

/// Path of an object of a kind that is known only at run time.
pub fn object_path(api: &str, plural: &str, name: &ObjectName) -> String {
    format!("{}/{}", collection_path(api, plural, &name.namespace), segment(&name.name))
}

/// A name as one segment of a path. The empty name would address the whole collection, one or two dots the collection or
/// what is above it: a character that no name has stands before them.
pub fn segment(name: &str) -> String {
    match name {
        "" | "." | ".." => format!("%00{}", name.replace('.', "%2E")),
        name => escape(name),
    }
}

/// Can an object have this name? The API server accepts no other, so that no request is needed to see that it does not
/// exist.
pub fn is_object_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let bytes = label.as_bytes();
        label.bytes().all(fits) && ends(bytes.first()) && ends(bytes.last())
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A path with a query.
pub fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        query.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// A text as part of a path or a query: everything but letters, digits and `-_.~` is percent-encoded.
pub fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |escaped, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            escaped + char::from(byte).to_string().as_str()
        }
        _ => escaped + &format!("%{byte:02X}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_change_the_path() {
        let path =
            |namespace: &str, name: &str| Resource::PODS.object(&ObjectName::new(namespace, name));
        assert_eq!(path("team", "p-0"), "/api/v1/namespaces/team/pods/p-0");
        assert_eq!(path("team", "?watch=true"), "/api/v1/namespaces/team/pods/%3Fwatch%3Dtrue");
        assert_eq!(path("team", "a/b"), "/api/v1/namespaces/team/pods/a%2Fb");
        assert_eq!(path("team", "a#b%2f"), "/api/v1/namespaces/team/pods/a%23b%252f");
        assert_eq!(path("team", ".."), "/api/v1/namespaces/team/pods/%00%2E%2E");
        assert_eq!(path("a/../b", "p"), "/api/v1/namespaces/a%2F..%2Fb/pods/p");
    }

    #[test]
    fn only_dns_names_are_names_of_objects() {
        for name in ["a", "a-1", "a.b-c.0", "kube-root-ca.crt"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in
            ["", ".", "..", "-a", "a-", "a..b", "A", "a_b", "?watch=true", "a/b", "a\nb", &long]
        {
            assert!(!is_object_name(name), "{name}");
        }
    }

    #[test]
    fn empty_name_never_addresses_the_collection() {
        let path = Resource::NODES.object(&ObjectName::new("", ""));
        assert_eq!(path, "/api/v1/nodes/%00");
    }

    #[test]
    fn cluster_wide_objects_have_no_namespace() {
        let path = Resource::QUEUES.object(&ObjectName::new("", "team"));
        assert_eq!(path, "/apis/scheduling.run.ai/v2/queues/team");
        assert_eq!(Resource::PODS.collection("team"), "/api/v1/namespaces/team/pods");
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(escape("status.phase!=Failed"), "status.phase%21%3DFailed");
        assert_eq!(with_query("/p", &[("labelSelector", "a=b&c")]), "/p?labelSelector=a%3Db%26c");
    }
}
