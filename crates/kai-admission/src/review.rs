//! Questions of the API server and our answers. Pure.

use std::borrow::Cow;
use std::sync::OnceLock;

use k8s_openapi::ByteString;
use kai_api::Queue;
use kai_api::names::admission as paths;
use kai_client::access::Requester;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::pod::Pod;
use super::{
    PodRules, QueueRules, Verdict, guard, mutate, pod_groups, pods, queues, quotas, reductions,
    topologies,
};

/// What is known beside the question.
pub struct Known<'a> {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler: &'a str,
    pub rules: &'a PodRules,
    /// The queues that exist; none where they could not be listed.
    pub queues: Option<&'a [Queue]>,
    pub queue_rules: QueueRules,
}

/// A question of the API server: an `AdmissionReview` without its answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Review<'a> {
    request: Request<'a>,
}

/// An object that is about to be written or deleted in the same process.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub uid: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// Namespace of the object; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The object as it will be; none where it is deleted.
    pub object: Option<&'a Value>,
    /// The object as it is; none where it is created.
    pub old_object: Option<&'a Value>,
}

impl<'a> Review<'a> {
    /// The question of an API server in the same process, which has objects and no text.
    pub fn of(subject: Subject<'a>) -> Self {
        let request = Request {
            uid: subject.uid.to_owned(),
            operation: subject.operation.to_owned(),
            namespace: subject.namespace.to_owned(),
            object: subject.object.map(Cow::Borrowed),
            old_object: subject.old_object.map(Cow::Borrowed),
            ..Request::default()
        };
        Self { request }
    }
}

impl Review<'_> {
    /// Namespace and object where one is created.
    pub(super) fn new_object(&self) -> Option<(&str, &Value)> {
        let Request { operation, namespace, object, .. } = &self.request;
        let object = object.as_deref().filter(|_| operation == "CREATE")?;
        Some((namespace, object))
    }

    /// An object that is created or changed, and who writes it.
    pub(super) fn written_object(&self) -> Option<Written<'_>> {
        let Request { operation, namespace, object, old_object, user_info, .. } = &self.request;
        let object = object.as_deref().filter(|_| operation != "DELETE")?;
        let old_object = old_object.as_deref();
        Some(Written { namespace, object, old_object, writer: user_info })
    }

    /// The answer that denies it.
    pub(super) fn denied(&self, why: String) -> Value {
        response(&self.request.uid, &Verdict::deny(why), &[])
    }
}

/// An object that is created or changed.
pub(super) struct Written<'a> {
    pub(super) namespace: &'a str,
    pub(super) object: &'a Value,
    /// The object as it is; none where it is created.
    pub(super) old_object: Option<&'a Value>,
    /// The user that writes it.
    pub(super) writer: &'a Requester,
}

/// What is about to be written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request<'a> {
    uid: String,
    operation: String,
    namespace: String,
    /// The object as it will be; none where it is deleted.
    object: Option<Cow<'a, Value>>,
    /// The object as it is; none where it is created.
    old_object: Option<Cow<'a, Value>>,
    user_info: Requester,
    /// The object as it will be, decoded as a pod when it is first asked for.
    #[serde(skip)]
    pod: OnceLock<Result<Pod, String>>,
}

impl Review<'_> {
    /// The namespace of the pod, where what the pod is given depends on its labels.
    pub fn namespace_to_read(&self, rules: &PodRules) -> Option<&str> {
        let pod = self.request.pod().ok()?;
        guard::depends_on_namespace(pod, rules).then_some(&self.request.namespace)
    }
}

impl Request<'_> {
    /// The object as it will be.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        decode(self.object.as_deref().unwrap_or(&Value::Null))
    }

    /// The pod as it will be.
    fn pod(&self) -> Result<&Pod, String> {
        self.pod.get_or_init(|| self.decode()).as_ref().map_err(Clone::clone)
    }
}

fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| format!("cannot decode the object: {error}"))
}

/// The answer to an `AdmissionReview` that came on this path; none where there is no such path.
pub fn answer(path: &str, review: &Review<'_>, known: &Known<'_>) -> Option<Value> {
    let request = &review.request;
    let (verdict, patch) = match path {
        paths::MUTATE_POD_PATH => mutate_pod(request, known),
        paths::VALIDATE_POD_PATH => {
            let denial = validate_pod(request, known).err();
            (Verdict { denial, warnings: Vec::new() }, Vec::new())
        }
        paths::VALIDATE_QUEUE_PATH => (validate_queue(request, known), Vec::new()),
        paths::VALIDATE_POD_GROUP_PATH => (validate_pod_group(request), Vec::new()),
        paths::VALIDATE_TOPOLOGY_PATH => (validate_topology(request), Vec::new()),
        _ => return None,
    };
    Some(response(&request.uid, &verdict, &patch))
}

fn validate_pod_group(request: &Request<'_>) -> Verdict {
    let is_new = request.operation == "CREATE";
    let before = request.old_object.as_deref().map(decode).transpose();
    match (request.decode(), before) {
        (Ok(group), Ok(before)) => pod_groups::validate(&group, before.as_ref(), is_new),
        (Err(why), _) | (_, Err(why)) => Verdict::deny(why),
    }
}

fn validate_topology(request: &Request<'_>) -> Verdict {
    match request.decode() {
        Ok(topology) => topologies::validate(&topology),
        Err(why) => Verdict::deny(why),
    }
}

/// Queues that do not have the shape of one are denied before a rule looks at them.
fn validate_queue(request: &Request<'_>, known: &Known<'_>) -> Verdict {
    let old = decode::<Queue>(request.old_object.as_deref().unwrap_or(&Value::Null));
    if request.operation == "DELETE" {
        let among = known.queue_rules.deny_parent_deletion.then(|| known.queues.unwrap_or(&[]));
        return match old {
            Ok(old) => queues::validate_deletion(&old, among),
            Err(why) => Verdict::deny(why),
        };
    }
    match request.decode::<Queue>() {
        // What cannot be decoded may be put right.
        Ok(new) => {
            let mut verdict = queue(&new, old.ok().as_ref(), known);
            if verdict.denial.is_none() {
                let Verdict { denial, warnings } = lowered_bounds(request, known);
                verdict.denial = denial;
                verdict.warnings.extend(warnings);
            }
            verdict
        }
        Err(why) => Verdict::deny(why),
    }
}

/// Limits and quotas that a change lowers below what the queue has.
fn lowered_bounds(request: &Request<'_>, known: &Known<'_>) -> Verdict {
    let new = request.object.as_deref().unwrap_or(&Value::Null);
    let old = request.old_object.as_deref().unwrap_or(&Value::Null);
    reductions::check(new, old, known.queue_rules.reductions)
}

/// A queue by itself, then among the others.
fn queue(new: &Queue, old: Option<&Queue>, known: &Known<'_>) -> Verdict {
    let mut verdict = queues::validate(new);
    let Some(others) = known.queues else { return verdict };
    let mut check = |check: &dyn Fn() -> Verdict| {
        if verdict.denial.is_none() {
            let Verdict { denial, warnings } = check();
            verdict.denial = denial;
            verdict.warnings.extend(warnings);
        }
    };
    check(&|| queues::validate_parent(new, old, others));
    if known.queue_rules.check_quotas {
        check(&|| quotas::check(new, others));
    }
    verdict
}

fn mutate_pod(request: &Request<'_>, known: &Known<'_>) -> (Verdict, Vec<Value>) {
    match mutation(request, known) {
        Ok(patch) => (Verdict::default(), patch),
        Err(why) => (Verdict::deny(why), Vec::new()),
    }
}

/// What our pods are given; nothing for pods of other schedulers.
fn mutation(request: &Request<'_>, known: &Known<'_>) -> Result<Vec<Value>, String> {
    let pod = request.pod()?;
    if pod.spec.scheduler_name.as_deref() != Some(known.scheduler) {
        return Ok(Vec::new());
    }
    let namespace = &request.namespace;
    let own = pod.metadata.namespace.as_deref().unwrap_or_default();
    if !own.is_empty() && own != namespace {
        return Err(format!(
            "error: the namespace from the provided object {own} does not match the namespace {namespace}"
        ));
    }
    let wanted = mutate::mutated(pod, known.rules, &request.uid)?;
    Ok(mutate::patch(pod, &wanted))
}

/// Why a pod of ours is denied; a pod may leave its namespace to the request.
fn validate_pod(request: &Request<'_>, known: &Known<'_>) -> Result<(), String> {
    let pod = request.pod()?;
    if pod.spec.scheduler_name.as_deref() != Some(known.scheduler) {
        return Ok(());
    }
    let mut pod = Cow::Borrowed(pod);
    if pod.metadata.namespace.is_none() {
        pod.to_mut().metadata.namespace = Some(request.namespace.clone());
    }
    let before: Option<Pod> = request.old_object.as_deref().map(decode).transpose()?;
    pods::validate_change(before.as_ref(), &pod)?;
    guard::validate(before.as_ref(), &pod)?;
    pods::validate(&pod, request.operation == "CREATE", known.rules)
}

fn response(uid: &str, verdict: &Verdict, patch: &[Value]) -> Value {
    let status = verdict
        .denial
        .as_ref()
        .map(|why| json!({"code": 403, "reason": "Forbidden", "message": why}));
    let patch = (!patch.is_empty()).then(|| ByteString(json!(patch).to_string().into_bytes()));
    let response = Response {
        uid,
        allowed: verdict.denial.is_none(),
        status,
        warnings: &verdict.warnings,
        patch_type: patch.as_ref().map(|_| "JSONPatch"),
        patch,
    };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, request: &Value) -> Value {
        let rules = PodRules { gpu_sharing: true, ..PodRules::default() };
        let review = Review::deserialize(&json!({"request": request})).expect("a review");
        let answer = answer(
            path,
            &review,
            &Known {
                scheduler: "kai-scheduler",
                rules: &rules,
                queues: None,
                queue_rules: QueueRules::default(),
            },
        );
        answer.expect("a known path")["response"].clone()
    }

    fn pod(scheduler: &str) -> Value {
        json!({
            "metadata": {"name": "p", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c"}]},
        })
    }

    #[test]
    fn our_pods_are_changed_and_others_are_not() {
        let request = |scheduler: &str| json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": pod(scheduler)});
        let ours = ask(paths::MUTATE_POD_PATH, &request("kai-scheduler"));
        let patch: ByteString = serde_json::from_value(ours["patch"].clone()).expect("base64");
        let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
        assert_eq!(patch[0]["path"], "/metadata/annotations");
        assert_eq!((&ours["uid"], &ours["allowed"]), (&json!("u"), &json!(true)));
        let others = ask(paths::MUTATE_POD_PATH, &request("default-scheduler"));
        assert_eq!(others, json!({"uid": "u", "allowed": true}));
    }

    #[test]
    fn denial_says_why() {
        let mut bad = pod("kai-scheduler");
        bad["metadata"]["annotations"]["gpu-fraction"] = json!("2");
        let response = ask(
            paths::VALIDATE_POD_PATH,
            &json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": bad}),
        );
        assert_eq!(response["allowed"], false);
        assert_eq!(
            response["status"]["message"],
            "Pod a/p: metadata.annotations[gpu-fraction]: gpu-fraction annotation value must be a positive number smaller than 1.0"
        );
        let mut lost = pod("kai-scheduler");
        lost["metadata"]["namespace"] = json!("b");
        let response = ask(
            paths::MUTATE_POD_PATH,
            &json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": lost}),
        );
        assert_eq!(
            response["status"]["message"],
            "error: the namespace from the provided object b does not match the namespace a"
        );
    }

    #[test]
    fn there_are_no_other_paths() {
        let rules = PodRules::default();
        let queue_rules = QueueRules::default();
        let known = Known { scheduler: "s", rules: &rules, queues: None, queue_rules };
        assert_eq!(answer("/else", &Review::default(), &known), None);
    }

    #[test]
    fn malformed_pods_are_denied_and_never_panic() {
        let malformed = [
            json!({"metadata": 1, "spec": {"schedulerName": "kai-scheduler"}}),
            json!({"metadata": {"annotations": {"gpu-fraction": "0.5"}}, "spec": {"schedulerName": "kai-scheduler", "containers": ["x"]}}),
            json!({"spec": {"schedulerName": "kai-scheduler", "containers": {"a": 1}}}),
            json!({"spec": 7}),
            json!("pod"),
            Value::Null,
        ];
        for object in malformed {
            for path in [paths::MUTATE_POD_PATH, paths::VALIDATE_POD_PATH] {
                let response =
                    ask(path, &json!({"uid": "u", "operation": "CREATE", "object": object}));
                assert_eq!(response["allowed"], false, "{path} {object}");
                let text = response["status"]["message"].as_str().expect("a message");
                assert!(text.starts_with("cannot decode the object"), "{text}");
            }
        }
    }

    #[test]
    fn malformed_queues_and_topologies_are_denied() {
        let queue = |spec: Value| json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
        let topology = |spec: Value| json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}, "spec": spec});
        let malformed = [
            (paths::VALIDATE_QUEUE_PATH, queue(json!(7))),
            (paths::VALIDATE_QUEUE_PATH, queue(json!({"parentQueue": {"a": 1}}))),
            (paths::VALIDATE_QUEUE_PATH, queue(json!({"resources": {"gpu": {"quota": "all"}}}))),
            (paths::VALIDATE_QUEUE_PATH, json!([])),
            (paths::VALIDATE_TOPOLOGY_PATH, topology(json!({"levels": "rack"}))),
            (paths::VALIDATE_TOPOLOGY_PATH, topology(json!({"levels": [{"nodeLabel": 1}]}))),
            (paths::VALIDATE_TOPOLOGY_PATH, Value::Null),
        ];
        for (path, object) in malformed {
            let response = ask(path, &json!({"uid": "u", "operation": "CREATE", "object": object}));
            assert_eq!(response["allowed"], false, "{path} {object}");
            let text = response["status"]["message"].as_str().expect("a message");
            assert!(text.starts_with("cannot decode the object"), "{text}");
        }
        let response = ask(
            paths::VALIDATE_QUEUE_PATH,
            &json!({"uid": "u", "operation": "DELETE", "oldObject": {"status": 1}}),
        );
        assert_eq!(response["allowed"], false);
    }

    #[test]
    fn fields_that_no_rule_reads_survive_a_patch() {
        let mut object = pod("kai-scheduler");
        object["spec"]["containers"] = json!([{
            "name": "c", "image": "i", "resources": {"limits": {"cpu": 1}, "new": true},
            "env": [{"name": "A", "value": "b", "newer": 1.5}], "securityContext": {"runAsUser": 1_000},
        }]);
        object["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        let request =
            json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": object});
        let response = ask(paths::MUTATE_POD_PATH, &request);
        let patch: ByteString = serde_json::from_value(response["patch"].clone()).expect("base64");
        let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
        let container = &patch[1]["value"][0];
        assert_eq!(container["image"], "i");
        assert_eq!(container["resources"], json!({"limits": {"cpu": 1}, "new": true}));
        assert_eq!(container["env"][0], json!({"name": "A", "value": "b", "newer": 1.5}));
        assert_eq!(container["securityContext"], json!({"runAsUser": 1_000}));
        assert_eq!(patch[2]["value"][0], json!({"name": "v", "emptyDir": {}}));
    }
}
