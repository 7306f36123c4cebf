//! The calls, in order; later ones see what earlier ones did. `~` stands for the namespace.

pub(crate) const NAMESPACE: &str = "conformance";

/// One request that both servers get.
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: &'static str,
    /// What follows from it on the real server, in its own time.
    pub(crate) leads_to: Option<&'static str>,
    /// Why the two may differ here.
    pub(crate) known_difference: Option<&'static str>,
}

const fn call(method: &'static str, path: &'static str, body: &'static str) -> Call {
    Call {
        method,
        path,
        content_type: "application/json",
        body,
        leads_to: None,
        known_difference: None,
    }
}

impl Call {
    const fn of_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }

    const fn leads_to(self, path: &'static str) -> Self {
        Self { leads_to: Some(path), ..self }
    }

    const fn differs(self, why: &'static str) -> Self {
        Self { known_difference: Some(why), ..self }
    }
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const MAPS: &str = "/api/v1/namespaces/~/configmaps";
const MAP: &str = "/api/v1/namespaces/~/configmaps/m";
const PODS: &str = "/api/v1/namespaces/~/pods";
const POD: &str = "/api/v1/namespaces/~/pods/p";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/~/widgets";
const WIDGET: &str = "/apis/example.com/v1/namespaces/~/widgets/w";

const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","required":["size"],"properties":{"size":{"type":"integer","minimum":1},"colour":{"type":"string","default":"red","enum":["red","blue"]}}},
"status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}}}]}}"#;

const POD_OBJECT: &str = r#"{"metadata":{"name":"p","labels":{"app":"a"}},"spec":{"schedulerName":"none","automountServiceAccountToken":false,
"containers":[{"name":"c","image":"i:1","resources":{"limits":{"cpu":"1000m","nvidia.com/gpu":1}}}]}}"#;

const GADGETS: &str = "/apis/example.com/v1/namespaces/~/gadgets";
const GADGET: &str = "/apis/example.com/v1/namespaces/~/gadgets/g";
const CLAIMS: &str = "/api/v1/namespaces/~/persistentvolumeclaims";

/// A kind with rules as expressions.
const RULED: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","x-kubernetes-validations":[{"rule":"!has(self.low) || !has(self.high) || self.low < self.high","messageExpression":"self.low > 2.0 ? 'low is high' : 'high is low'"}],"properties":{
"low":{"type":"number","x-kubernetes-validations":[{"rule":"self != 0.5","message":"a half is not enough"}]},"high":{"type":"number","minimum":0,"exclusiveMinimum":true},"parts":{"type":"array","maxItems":5,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"size":{"type":"integer"}}}},"tag":{"type":"string","maxLength":9,"pattern":"^[a-z]+$"},
"levels":{"type":"array","maxItems":5,"items":{"type":"object","required":["label"],"properties":{"label":{"type":"string","maxLength":20}}},"x-kubernetes-validations":[
{"rule":"self.all(one, self.exists_one(other, other.label == one.label))","message":"labels must be unique"},
{"rule":"self.map(one, one.label) == oldSelf.map(one, one.label)"}]}}}}}}}]}}"#;

const WORKLOAD: &str = r#"{"metadata":{"name":"w"},"spec":{"replicas":0,"serviceName":"","selector":{"matchLabels":{"app":"w"}},"template":{"metadata":{"labels":{"app":"w"}},"spec":{"containers":[{"name":"c","image":"i:1"}]}}}}"#;

const CRON_JOB: &str = r#"{"metadata":{"name":"nightly"},"spec":{"schedule":"0 3 * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}}}}}"#;

pub(crate) const CALLS: &[Call] = &[
    call("POST", "/api/v1/namespaces", r#"{"metadata":{"name":"~"}}"#)
        .leads_to("/api/v1/namespaces/~/serviceaccounts/default"),
    call("POST", MAPS, r#"{"metadata":{"name":"m","labels":{"a":"b"}},"data":{"x":"1"}}"#),
    call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#),
    call("POST", MAPS, r#"{"metadata":{"name":"Bad_Name"}}"#),
    call("POST", MAPS, r#"{"metadata":{}}"#),
    call("POST", MAPS, r#"{"metadata":{"name":"other","namespace":"elsewhere"}}"#),
    call("POST", "/api/v1/namespaces/missing/configmaps", r#"{"metadata":{"name":"m"}}"#),
    call("GET", MAP, ""),
    call("GET", "/api/v1/namespaces/~/configmaps/missing", ""),
    call("GET", "/apis/example.org/v1/things", ""),
    call("PATCH", MAP, r#"{"data":{"y":"2"}}"#).of_type(MERGE),
    call("PATCH", MAP, r#"{"data":{"x":null}}"#).of_type(STRATEGIC),
    call("PATCH", MAP, r#"[{"op":"add","path":"/data/z","value":"3"}]"#).of_type(JSON_PATCH),
    call("PATCH", MAP, r#"[{"op":"test","path":"/data/z","value":"4"}]"#)
        .of_type(JSON_PATCH)
        .differs("the text of the library that applies JSON patches"),
    call(
        "PATCH",
        "/api/v1/namespaces/~/configmaps/m?fieldManager=one",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"z":"4"}}"#,
    )
    .of_type(APPLY),
    call(
        "PATCH",
        "/api/v1/namespaces/~/configmaps/m?fieldManager=one&force=true",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"z":"4"}}"#,
    )
    .of_type(APPLY),
    call(
        "PATCH",
        "/api/v1/namespaces/~/configmaps/new?fieldManager=one",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"a":"1"}}"#,
    )
    .of_type(APPLY),
    call("PUT", MAP, r#"{"metadata":{"name":"m","resourceVersion":"1"},"data":{}}"#),
    call(
        "PUT",
        MAP,
        r#"{"metadata":{"name":"m","uid":"11111111-1111-1111-1111-111111111111"},"data":{}}"#,
    ),
    call("PUT", MAP, r#"{"metadata":{"name":"m"},"data":{"only":"this"}}"#),
    call("PUT", MAP, r#"{"metadata":{"name":"n"},"data":{}}"#),
    call("GET", "/api/v1/namespaces/~/configmaps?labelSelector=a%3Db", ""),
    call("GET", "/api/v1/namespaces/~/configmaps?fieldSelector=metadata.name%3Dnew", ""),
    call("GET", "/api/v1/namespaces/~/configmaps?fieldSelector=data.a%3D1", ""),
    call("DELETE", MAP, r#"{"preconditions":{"uid":"11111111-1111-1111-1111-111111111111"}}"#),
    call("DELETE", MAP, ""),
    call("DELETE", MAP, ""),
    call("POST", PODS, POD_OBJECT),
    call("POST", PODS, r#"{"metadata":{"name":"q"},"spec":{"containers":[]}}"#),
    call(
        "POST",
        PODS,
        r#"{"metadata":{"name":"q"},"spec":{"priorityClassName":"missing","containers":[{"name":"c","image":"i"}]}}"#,
    ),
    call(
        "POST",
        "/api/v1/namespaces/~/pods?fieldValidation=Strict",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"odd":1,"containers":[{"name":"c","image":"i"}]}}"#,
    ),
    call("PATCH", POD, r#"{"spec":{"containers":[{"name":"c","image":"i:2"}]}}"#)
        .of_type(STRATEGIC),
    call("PATCH", POD, r#"{"metadata":{"annotations":{"kept":"1"}}}"#).of_type(MERGE),
    call(
        "POST",
        "/api/v1/namespaces/~/pods/p/binding",
        r#"{"metadata":{"name":"p","uid":"11111111-1111-1111-1111-111111111111"},"target":{"kind":"Node","name":"n"}}"#,
    ),
    call(
        "POST",
        "/api/v1/namespaces/~/pods/p/binding",
        r#"{"metadata":{"name":"p","annotations":{"added":"2"}},"target":{"kind":"Node","name":"n"}}"#,
    ),
    call("GET", POD, ""),
    call(
        "POST",
        "/api/v1/namespaces/~/pods/p/binding",
        r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#,
    ),
    call("GET", "/api/v1/namespaces/~/pods?fieldSelector=spec.nodeName%3Dn", ""),
    call(
        "POST",
        "/api/v1/namespaces/~/pods/p/eviction",
        r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#,
    ),
    call("DELETE", POD, r#"{"gracePeriodSeconds":0}"#),
    call("GET", POD, ""),
    call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        .leads_to(WIDGETS)
        .differs("the real one establishes definitions in its own time"),
    call(
        "POST",
        WIDGETS,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1,"odd":2},"status":{"ready":true}}"#,
    ),
    call(
        "POST",
        WIDGETS,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":"big"}}"#,
    ),
    call(
        "POST",
        WIDGETS,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":0}}"#,
    ),
    call(
        "POST",
        WIDGETS,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":1,"colour":"green"}}"#,
    ),
    call(
        "POST",
        WIDGETS,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{}}"#,
    ),
    call(
        "PATCH",
        "/apis/example.com/v1/namespaces/~/widgets/w/status",
        r#"{"status":{"ready":true},"spec":{"size":9}}"#,
    )
    .of_type(MERGE),
    call("PATCH", WIDGET, r#"{"spec":{"size":2},"status":{"ready":false}}"#).of_type(MERGE),
    call("PATCH", WIDGET, r#"{"metadata":{"finalizers":["example.com/f"]}}"#).of_type(MERGE),
    call("GET", WIDGETS, ""),
    call("DELETE", WIDGET, ""),
    call("PATCH", WIDGET, r#"{"metadata":{"finalizers":null}}"#).of_type(MERGE),
    call("GET", WIDGET, ""),
    call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", RULED)
        .leads_to(GADGETS)
        .differs("the real one establishes definitions in its own time"),
    call("POST", GADGETS, r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"levels":[{"label":"a"},{"label":"a"}],"low":3,"high":2}}"#),
    call("POST", GADGETS, r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"levels":[{"label":"a"}],"low":"x"}}"#),
    call("POST", GADGETS, r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"levels":[{"label":"a"}],"high":9}}"#),
    call("PATCH", GADGET, r#"{"spec":{"levels":[{"label":"b"}],"low":1}}"#).of_type(MERGE),
    call("PATCH", GADGET, r#"{"spec":{"low":0.5,"high":2}}"#).of_type(MERGE),
    call("PATCH", GADGET, r#"{"spec":{"tag":"A-1"}}"#).of_type(MERGE),
    call("PATCH", GADGET, r#"{"spec":{"high":0}}"#).of_type(MERGE),
    call("PATCH", GADGET, r#"{"spec":{"parts":[{"name":"a"},{"name":"b"},{"name":"a","size":2}]}}"#).of_type(MERGE),
    call("GET", GADGET, ""),
    call("GET", "/api/v1/namespaces?limit=1", ""),
    call("GET", "/api/v1/namespaces?limit=1&continue=broken", "")
        .differs("the real server reports the error of its decoder"),
    call("POST", "/apis/storage.k8s.io/v1/storageclasses", r#"{"metadata":{"name":"by-hand"},"provisioner":"kubernetes.io/no-provisioner"}"#),
    call("POST", "/api/v1/persistentvolumes", r#"{"metadata":{"name":"v"},"spec":{"storageClassName":"by-hand","accessModes":["ReadWriteOnce"],"capacity":{"storage":"5Gi"},"hostPath":{"path":"/x"}}}"#)
        .differs("the real one protects volumes in use by a finalizer"),
    call("POST", CLAIMS, r#"{"metadata":{"name":"c"},"spec":{"storageClassName":"by-hand","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#)
        .differs("the real one protects claims in use by a finalizer"),
    call("POST", "/apis/batch/v1/namespaces/~/cronjobs", CRON_JOB),
    call("POST", "/apis/batch/v1/namespaces/~/jobs", r#"{"metadata":{"name":"j"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}}}"#),
    call("POST", "/apis/apps/v1/namespaces/~/deployments", WORKLOAD),
    call("POST", "/apis/apps/v1/namespaces/~/replicasets", WORKLOAD),
    call("POST", "/apis/apps/v1/namespaces/~/statefulsets", WORKLOAD),
    call("GET", "/apis/apps/v1/namespaces/~/deployments/w/scale", ""),
    call("PATCH", "/apis/apps/v1/namespaces/~/deployments/w/scale", r#"{"spec":{"replicas":0}}"#).of_type(MERGE),
    call("POST", "/apis/policy/v1/namespaces/~/poddisruptionbudgets", r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"w"}}}}"#),
    call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", r#"{"metadata":{"name":"conformance"},"value":7}"#),
    call("POST", "/apis/node.k8s.io/v1/runtimeclasses", r#"{"metadata":{"name":"conformance"},"handler":"h"}"#),
    call("POST", "/apis/coordination.k8s.io/v1/namespaces/~/leases", r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"x","leaseDurationSeconds":15}}"#),
    call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", r#"{"spec":{"resourceAttributes":{"namespace":"~","verb":"create","resource":"pods"}}}"#)
        .differs("the real one says by which rule"),
    call("POST", "/apis/batch/v1/namespaces/~/cronjobs", r#"{"metadata":{"name":"bad"},"spec":{"schedule":"* * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}}}}}"#),
    call("POST", "/apis/resource.k8s.io/v1/namespaces/~/resourceclaimtemplates", r#"{"metadata":{"name":"t"},"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu.example.com"}}]}}}}"#),
    call("PATCH", "/api/v1/nodes/missing", r#"{"spec":{}}"#).of_type(STRATEGIC),
    call("POST", "/api/v1/nodes", r#"{"metadata":{"name":"n"}}"#)
        .differs("the node has no kubelet there, and a taint until it has"),
];
