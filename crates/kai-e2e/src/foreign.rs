//! Kinds that other people's operators install, without their schemas, and objects of them.

use anyhow::Context;
use serde_json::{Value, json};

use crate::objects::{Pod, merge, pod};
use crate::test_space::{TestSpace, has_condition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A kind of another project.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// API group of the kind.
    pub group: &'static str,
    /// All its versions; the first is the one that is used.
    pub versions: &'static [&'static str],
    /// Kind in objects, such as `RayCluster`.
    pub kind: &'static str,
    /// It is in no namespace.
    pub cluster_wide: bool,
}

impl Kind {
    /// A kind with one version, in namespaces.
    pub const fn new(
        group: &'static str,
        versions: &'static [&'static str],
        kind: &'static str,
    ) -> Self {
        Self { group, versions, kind, cluster_wide: false }
    }

    fn plural(&self) -> String {
        let name = self.kind.to_lowercase();
        match name.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{name}s"),
        }
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.versions[0])
    }

    /// Where objects of the kind are.
    pub fn path(&self, space: &TestSpace) -> String {
        let (api, plural) = (self.api_version(), self.plural());
        if self.cluster_wide {
            format!("/apis/{api}/{plural}")
        } else {
            format!("/apis/{api}/namespaces/{}/{plural}", space.name)
        }
    }
}

/// Makes sure that a kind is served.
pub async fn install(space: &TestSpace, kind: &Kind) -> anyhow::Result<()> {
    let (plural, singular) = (kind.plural(), kind.kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut names: Vec<&str> = kind.versions.to_vec();
    // Several cases use one kind: they must mean the same definition.
    names.sort_unstable();
    let versions: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "served": true, "storage": at == 0, "schema": schema}))
        .collect();
    let scope = if kind.cluster_wide { "Cluster" } else { "Namespaced" };
    let names = json!({"kind": kind.kind, "plural": plural, "singular": singular});
    let name = format!("{plural}.{}", kind.group);
    let spec = json!({"group": kind.group, "scope": scope, "names": names, "versions": versions});
    // Kinds of groups under k8s.io need an approval.
    let approved = json!({"api-approved.kubernetes.io": "unapproved, for tests"});
    let metadata = json!({"name": name, "annotations": approved});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec});
    let own = format!("{DEFINITIONS}/{name}");
    if space.see(&own).await?.is_none() {
        // Another case may be faster.
        let _ = space.create(DEFINITIONS, &definition).await;
    }
    let established = async || {
        let definition = space.see(&own).await?;
        Ok(definition.is_some_and(|definition| has_condition(&definition, "Established", "True")))
    };
    space.until(&format!("{name} is established"), established).await
}

/// Makes an object of a kind; a label with the queue `q` and the test space's node pool is added.
pub async fn make(space: &TestSpace, kind: &Kind, object: Value) -> anyhow::Result<Value> {
    let labels = space.pod_object(&pod("x", "q"))["metadata"]["labels"].clone();
    let mut all = json!({"metadata": {"labels": labels}});
    merge(&mut all, object);
    make_unlabelled(space, kind, all).await
}

/// Makes an object of a kind as it is: only its pods name a queue.
pub async fn make_unlabelled(
    space: &TestSpace,
    kind: &Kind,
    object: Value,
) -> anyhow::Result<Value> {
    install(space, kind).await?;
    let mut all = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
    merge(&mut all, object);
    let path = kind.path(space);
    let name = all["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // A new kind is served a moment after it is established.
    let made = async || {
        let made = space.create(&path, &all).await;
        Ok(made.is_ok() || space.see(&format!("{path}/{name}")).await?.is_some())
    };
    space.until(&format!("a {} can be made", kind.kind), made).await?;
    space.see(&format!("{path}/{name}")).await?.context("it was made")
}

/// Lets the pod grouper read a kind that is not known to it.
pub async fn permit(space: &TestSpace, kind: &Kind) -> anyhow::Result<()> {
    let name = format!("{}-reads-{}", space.name, kind.plural());
    let rules = json!([{"apiGroups": [kind.group], "resources": [kind.plural()], "verbs": ["get", "list"]}]);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    space.create(&format!("{ROLES}/clusterroles"), &role).await?;
    let subject = json!([{"kind": "ServiceAccount", "namespace": "kai-scheduler", "name": "kai"}]);
    let reference =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": subject});
    space.create(&format!("{ROLES}/clusterrolebindings"), &binding).await.map(|_| ())
}

/// A reference to an owner that controls the object.
pub fn owned_by(owner: &Value) -> Value {
    let mut references = referring_to(owner);
    references[0]["controller"] = json!(true);
    references
}

/// A reference to an owner that does not say that it controls the object, as KAI's own cases write it.
pub fn referring_to(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }])
}

/// Makes a pod of an owner.
pub async fn member(space: &TestSpace, owner: &Value, member: &Pod) -> anyhow::Result<()> {
    make_pod(space, member, owned_by(owner)).await
}

/// Makes a pod whose owner does not control it.
pub async fn dependent(space: &TestSpace, owner: &Value, member: &Pod) -> anyhow::Result<()> {
    make_pod(space, member, referring_to(owner)).await
}

async fn make_pod(space: &TestSpace, member: &Pod, references: Value) -> anyhow::Result<()> {
    let mut object = space.pod_object(member);
    object["metadata"]["ownerReferences"] = references;
    space.create(&format!("/api/v1/namespaces/{}/pods", space.name), &object).await.map(|_| ())
}
