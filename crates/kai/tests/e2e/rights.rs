//! What the accounts of an installation may do, beside what they did over the whole end-to-end list: a right that nothing
//! used is a failure, unless it is listed with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use kai_testenv::AuditedRequest;
use serde_json::Value;

use crate::installation::{KAI, print_past_harness};

/// One verb on one resource, as an account has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Name of the service account.
    account: String,
    /// Role that grants it.
    role: String,
    /// Namespace that the role is bound in; empty: all of them.
    namespace: String,
    group: String,
    resource: String,
    /// Name of the only object; empty: all of them.
    name: String,
    verb: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { account, role, namespace, group, resource, name, verb } = self;
        write!(f, "{account}: {verb} {resource}.{group} {namespace}/{name} (role {role})")
    }
}

/// A request of an account, as far as rights are concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Act {
    /// Accounts whose right it shows.
    accounts: Vec<String>,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

/// The account of the one process, which has the rights of every function.
const PROCESS: &str = "kai";
/// Functions that run in the one process.
const FUNCTIONS: [&str; 5] =
    ["scheduler", "pod-grouper", "binder", "podgroup-controller", "queue-controller"];

impl Act {
    /// What a request shows; none where it was forbidden, or is of no account of ours.
    ///
    /// The one process does what its functions would do alone: writes name the function in their user agent, everything else
    /// (watches, leases, statuses) is done for all of them.
    pub(crate) fn of(request: &AuditedRequest) -> Option<Self> {
        let user = request.user.strip_prefix("system:serviceaccount:")?;
        let (_, account) = user.split_once(':')?;
        if request.code == 403 || request.resource.is_empty() {
            return None;
        }
        let mut accounts = vec![account.to_owned()];
        if account == PROCESS {
            let function =
                request.agent.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
            match function {
                Some(function) => accounts.push(function.to_owned()),
                None => accounts.extend(FUNCTIONS.map(str::to_owned)),
            }
        }
        Some(Self {
            accounts,
            verb: request.verb.clone(),
            group: request.group.clone(),
            resource: request.resource.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        })
    }

    fn shows(&self, right: &Right) -> bool {
        let fits = |granted: &str, requested: &str| granted.is_empty() || granted == requested;
        self.accounts.contains(&right.account)
            && self.verb == right.verb
            && self.group == right.group
            && self.resource == right.resource
            && fits(&right.namespace, &self.namespace)
            && fits(&right.name, &self.name)
    }
}

/// Every right in the manifests.
pub(crate) fn granted(manifests: &[Value]) -> BTreeSet<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |kind: &str, namespace: &str, name: &str| format!("{kind} {namespace}/{name}");
    let mut roles: BTreeMap<String, &Value> = BTreeMap::new();
    for object in manifests {
        let kind = text(&object["kind"]);
        if kind == "ClusterRole" || kind == "Role" {
            let metadata = &object["metadata"];
            let place = key(&kind, &text(&metadata["namespace"]), &text(&metadata["name"]));
            roles.insert(place, object);
        }
    }
    let mut rights = BTreeSet::new();
    for object in manifests {
        let namespace = match object["kind"].as_str() {
            Some("ClusterRoleBinding") => String::new(),
            Some("RoleBinding") => text(&object["metadata"]["namespace"]),
            _ => continue,
        };
        let (kind, name) = (text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
        let home = if kind == "Role" { namespace.as_str() } else { "" };
        let role = roles.get(&key(&kind, home, &name));
        let role = role.unwrap_or_else(|| panic!("{object} binds a role that is not installed"));
        for subject in object["subjects"].as_array().into_iter().flatten() {
            let account = text(&subject["name"]);
            let rules = role["rules"].as_array().into_iter().flatten();
            rights.extend(rules.flat_map(|rule| rights_of(rule, &account, &name, &namespace)));
        }
    }
    rights
}

fn rights_of(rule: &Value, account: &str, role: &str, namespace: &str) -> Vec<Right> {
    let list = |key: &str| -> Vec<String> {
        let values = rule[key].as_array().into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let mut names = list("resourceNames");
    if names.is_empty() {
        names.push(String::new());
    }
    let mut rights = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            for verb in list("verbs") {
                rights.extend(names.iter().map(|name| Right {
                    account: account.to_owned(),
                    role: role.to_owned(),
                    namespace: namespace.to_owned(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    rights
}

/// Rights that no request of the list shows, and why they are granted.
struct Exception {
    role: &'static str,
    /// API group; `*`: all of them.
    group: &'static str,
    /// Resources, separated by spaces; `*`: all of them.
    resources: &'static str,
    /// Verbs, separated by spaces; `*`: all of them.
    verbs: &'static str,
    reason: &'static str,
}

const fn except(
    role: &'static str,
    group: &'static str,
    resources: &'static str,
    verbs: &'static str,
    reason: &'static str,
) -> Exception {
    Exception { role, group, resources, verbs, reason }
}

const NOT_INSTALLED: &str = "kind of a workload that the list does not install";
const POLICY: &str = "required by the admission policy kai-protected-pod-metadata; no request shows it, but without it what the list does is denied";
const FAILED_BIND: &str = "after a bind that failed or was interrupted, of which the list has none; tests/cluster/{binder,volumes_and_claims,in_process}.rs have";
const REMOVED_AGAIN: &str = "looks for the object where its removal is answered with a conflict; removal_of_a_replaced_object_has_succeeded in kai-client";

const EXCEPTIONS: &[Exception] = &[
    except(
        "kai-scheduler",
        "",
        "pods",
        "get",
        "reads a pod that its node rejected, of which the list has none; kai-control/tests/it/contested_nodes.rs has, in virtual time",
    ),
    except("kai-write-placements", "kai.scheduler", "*", "write", POLICY),
    except("kai-write-reservations", "kai.scheduler", "*", "write", POLICY),
    except("kai-write-groupings", "kai.scheduler", "*", "write", POLICY),
    except("kai-write-numa-placements", "kai.scheduler", "*", "write", POLICY),
    except(
        "kai-usage",
        "",
        "configmaps",
        "create patch",
        "the record of usage is written every five minutes, which no case takes; kai-control/tests/it/usage.rs does in virtual time",
    ),
    except("kai-delete-victims", "", "pods", "get", REMOVED_AGAIN),
    except("kai-binder", "", "configmaps", "patch delete", FAILED_BIND),
    except("kai-binder", "resource.k8s.io", "resourceclaims", "delete", FAILED_BIND),
    except("kai-binder", "scheduling.run.ai", "bindrequests", "delete", FAILED_BIND),
    except("kai-scheduler", "scheduling.run.ai", "bindrequests", "delete", FAILED_BIND),
    except("kai-binder", "scheduling.run.ai", "bindrequests", "get", REMOVED_AGAIN),
    except("kai-scheduler", "scheduling.run.ai", "bindrequests", "get", REMOVED_AGAIN),
    except("kai-binder", "resource.k8s.io", "resourceclaims", "get", REMOVED_AGAIN),
    except(
        "kai-binder",
        "",
        "pods",
        "patch",
        "labels of GPU groups that an API server before Kubernetes 1.35 did not take from a bind; kai-control/tests/it/shared_fill.rs has one",
    ),
    except(
        "kai-binder",
        "",
        "pods",
        "get",
        "where a reservation pod of the name, or a config map of an earlier pod, exists already; tests/cluster/in_process.rs kills binders, kai-control/tests/it/binder.rs has such config maps",
    ),
    except(
        "kai-binder",
        "",
        "pods/eviction",
        "create",
        "pods whose GPU was lost are evicted; kai-control/tests/it/binder.rs loses one",
    ),
    except(
        "kai-binder",
        "",
        "nodes/status",
        "patch",
        "conditions of nodes whose GPUs are not understood; kai-control/tests/it/gpu_discovery.rs has some",
    ),
    except(
        "kai-binder",
        "resource.k8s.io",
        "resourceclaims/binding",
        "patch",
        "required by Kubernetes 1.36 when the status of a claim is written; no request shows it",
    ),
    except(
        "kai-podgrouper",
        "scheduling.run.ai",
        "podgroups",
        "create",
        "required when a pod group is applied that does not exist; the request is a patch",
    ),
    except("kai-podgrouper", "amlarc.azureml.com", "amljobs", "get", NOT_INSTALLED),
    except("kai-podgrouper", "argoproj.io", "workflows", "get", NOT_INSTALLED),
    except("kai-podgrouper", "egx.nvidia.io", "spotrequests", "get", NOT_INSTALLED),
    except("kai-podgrouper", "grove.io", "*", "get", NOT_INSTALLED),
    except("kai-podgrouper", "scheduler.grove.io", "podgangs", "get", NOT_INSTALLED),
    except("kai-podgrouper", "kubeflow.org", "notebooks scheduledworkflows", "get", NOT_INSTALLED),
    except("kai-podgrouper", "trainer.kubeflow.org", "trainjobs", "get", NOT_INSTALLED),
    except("kai-podgrouper", "kubevirt.io", "*", "get", NOT_INSTALLED),
    except(
        "kai-podgrouper",
        "machinelearning.seldon.io",
        "seldondeployments",
        "get",
        NOT_INSTALLED,
    ),
    except("kai-podgrouper", "ray.io", "rayservices", "get", NOT_INSTALLED),
    except(
        "kai-podgrouper",
        "run.ai",
        "runaijobs distributedinferenceworkloads distributedworkloads inferenceworkloads interactiveworkloads trainingworkloads",
        "get",
        NOT_INSTALLED,
    ),
    except(
        "kai-podgrouper",
        "scheduling.k8s.io",
        "podgroups workloads",
        "get",
        "alpha kinds of Kubernetes; tests/cluster/kubernetes_groups.rs turns them on",
    ),
    except("kai-podgrouper", "tekton.dev", "*", "get", NOT_INSTALLED),
    except("kai-podgrouper", "workspace.devfile.io", "devworkspaces", "get", NOT_INSTALLED),
];

impl Exception {
    fn covers(&self, right: &Right) -> bool {
        let names = |list: &str, one: &str| list == "*" || list.split(' ').any(|it| it == one);
        self.role == right.role
            && (self.group == "*" || self.group == right.group)
            && names(self.resources, &right.resource)
            && names(self.verbs, &right.verb)
    }
}

fn is_excepted(right: &Right) -> bool {
    EXCEPTIONS.iter().any(|exception| exception.covers(right))
}

/// Exceptions all of whose rights are shown by acts. No failure: what happens after conflicts and restarts differs from run to run.
fn needless(rights: &BTreeSet<Right>, acts: &BTreeSet<Act>) -> Vec<String> {
    let is_unused = |right: &Right| !acts.iter().any(|act| act.shows(right));
    let is_needless = |exception: &&Exception| {
        !rights.iter().any(|right| exception.covers(right) && is_unused(right))
    };
    let name = |one: &Exception| format!("{} {} {}", one.role, one.resources, one.verbs);
    EXCEPTIONS.iter().filter(is_needless).map(name).collect()
}

/// Rights that no act shows and no exception explains.
fn unused<'a>(rights: &'a BTreeSet<Right>, acts: &BTreeSet<Act>) -> Vec<&'a Right> {
    let is_unused =
        |right: &&Right| !is_excepted(right) && !acts.iter().any(|act| act.shows(right));
    rights.iter().filter(is_unused).collect()
}

/// The rights of the usual installation.
pub(crate) fn shipped() -> BTreeSet<Right> {
    let printed = Command::new(KAI).arg("manifests").output().expect("kai manifests runs");
    let text = String::from_utf8(printed.stdout).expect("text");
    let manifests: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    granted(&manifests)
}

/// Fails where an account has a right that nothing used.
pub(crate) fn compare(acts: &BTreeSet<Act>) {
    let rights = shipped();
    let unused: Vec<String> = unused(&rights, acts).iter().map(ToString::to_string).collect();
    assert!(
        unused.is_empty(),
        "rights that nothing used over the end-to-end list: take them away, or list them with a reason:\n{}",
        unused.join("\n")
    );
    let needless = needless(&rights, acts);
    if !needless.is_empty() {
        print_past_harness(&format!(
            "exceptions for rights that were used this time: {needless:?}\n"
        ));
    }
    // The comparison can fail: an account with one right more is found out.
    let mut more = rights;
    let useless = Right {
        account: PROCESS.to_owned(),
        role: "kai-scheduler".to_owned(),
        namespace: String::new(),
        group: String::new(),
        resource: "secrets".to_owned(),
        name: String::new(),
        verb: "list".to_owned(),
    };
    more.insert(useless.clone());
    assert_eq!(self::unused(&more, acts), [&useless]);
}

#[test]
fn every_exception_is_about_a_right_that_is_granted() {
    let rights = shipped();
    for exception in EXCEPTIONS {
        let Exception { role, group, resources, verbs, reason } = exception;
        assert!(!reason.is_empty(), "{role} {group} {resources} without a reason");
        assert!(
            rights.iter().any(|right| exception.covers(right)),
            "no right of {role} is {verbs} {resources}.{group}"
        );
    }
}
