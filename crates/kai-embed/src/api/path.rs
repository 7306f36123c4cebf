//! Paths.

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Something that is always there: discovery, health, version.
    Fixed(String),
    /// Objects, one object, or a part of one.
    Resource {
        group: String,
        version: String,
        /// Empty: all of them, or none.
        namespace: String,
        plural: String,
        name: Option<String>,
        subresource: Option<String>,
    },
}

/// Reads a path; none where it can lead nowhere.
pub(super) fn read(path: &str) -> Option<Target> {
    let segments: Vec<String> =
        path.split('/').filter(|part| !part.is_empty()).map(percent_decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Some(Target::Fixed(path.trim_end_matches('/').to_owned())),
    };
    if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
        return Some(Target::Fixed(path.to_owned()));
    }
    let target = |namespace: &str, plural: &str, rest: &[&str]| {
        let (name, subresource) = match rest {
            [] => (None, None),
            [name] => (Some(*name), None),
            [name, subresource] => (Some(*name), Some(*subresource)),
            _ => return None,
        };
        Some(Target::Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    };
    match rest {
        // A namespace itself, or a part of it.
        ["namespaces", name] if group.is_empty() => target("", "namespaces", &[name]),
        ["namespaces", name, part @ ("status" | "finalize")] if group.is_empty() => {
            target("", "namespaces", &[name, part])
        }
        ["namespaces", namespace, plural, rest @ ..] => target(namespace, plural, rest),
        [plural, rest @ ..] => target("", plural, rest),
        [] => None,
    }
}

/// Reads `%41` as `A`; what is no such thing stays.
pub(super) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(code) if byte == b'%' => {
                decoded.push(code);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> (String, String, String, String, Option<String>, Option<String>) {
        match read(path) {
            Some(Target::Resource { group, version, namespace, plural, name, subresource }) => {
                (group, version, namespace, plural, name, subresource)
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_lead_where_they_should() {
        let text = |text: &str| Some(text.to_owned());
        let own = |text: &str| text.to_owned();
        assert_eq!(
            resource("/api/v1/pods"),
            (own(""), own("v1"), own(""), own("pods"), None, None)
        );
        assert_eq!(
            resource("/api/v1/namespaces/a/pods/p/binding"),
            (own(""), own("v1"), own("a"), own("pods"), text("p"), text("binding"))
        );
        assert_eq!(
            resource("/api/v1/namespaces/a"),
            (own(""), own("v1"), own(""), own("namespaces"), text("a"), None)
        );
        assert_eq!(
            resource("/apis/scheduling.run.ai/v2/queues/q"),
            (own("scheduling.run.ai"), own("v2"), own(""), own("queues"), text("q"), None)
        );
        assert_eq!(read("/apis/apps/v1"), Some(Target::Fixed("/apis/apps/v1".to_owned())));
        assert_eq!(read("/api/v1/namespaces/a/pods/p/x/y"), None);
        assert_eq!(percent_decode("a%2Fb%zz%"), "a/b%zz%");
    }
}
