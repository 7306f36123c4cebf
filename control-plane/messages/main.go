// Prints the shapes of the built-in kinds that an embedded cluster serves: a message per line, with number, name and type
// of each field. From the folder above:
//
//	go run ./messages > ../crates/kai-embed/src/kinds/messages.txt
package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	devices "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var kinds = []any{
	admissionregistration.MutatingWebhookConfiguration{}, admissionregistration.ValidatingAdmissionPolicy{},
	admissionregistration.ValidatingAdmissionPolicyBinding{}, admissionregistration.ValidatingWebhookConfiguration{},
	apiextensions.CustomResourceDefinition{},
	apps.ControllerRevision{}, apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{},
	authentication.SelfSubjectReview{}, authentication.TokenRequest{},
	authorization.SelfSubjectAccessReview{}, authorization.SelfSubjectRulesReview{}, authorization.SubjectAccessReview{},
	autoscaling.Scale{},
	batch.CronJob{}, batch.Job{},
	coordination.Lease{},
	core.Binding{}, core.ConfigMap{}, core.Endpoints{}, core.Event{}, core.LimitRange{}, core.Namespace{}, core.Node{},
	core.PersistentVolume{}, core.PersistentVolumeClaim{}, core.Pod{}, core.PodTemplate{}, core.ResourceQuota{},
	core.Secret{}, core.Service{}, core.ServiceAccount{},
	devices.DeviceClass{}, devices.ResourceClaim{}, devices.ResourceClaimTemplate{}, devices.ResourceSlice{},
	discovery.EndpointSlice{},
	events.Event{},
	meta.DeleteOptions{},
	node.RuntimeClass{},
	policy.Eviction{}, policy.PodDisruptionBudget{},
	rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{},
	scheduling.PriorityClass{},
	storage.CSIDriver{}, storage.CSINode{}, storage.CSIStorageCapacity{}, storage.StorageClass{}, storage.VolumeAttachment{},
}

// Types that are written in JSON in another way than as an object of their fields.
var codes = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                          "q",
	reflect.TypeFor[meta.Time]():                                  "t",
	reflect.TypeFor[meta.MicroTime]():                             "u",
	reflect.TypeFor[intstr.IntOrString]():                         "x",
	reflect.TypeFor[runtime.RawExtension]():                       "f",
	reflect.TypeFor[meta.FieldsV1]():                              "f",
	reflect.TypeFor[apiextensions.JSON]():                         "f",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "f",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "f",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "f",
}

var (
	messages    = map[string]string{}
	fieldNumber = regexp.MustCompile(`^[a-z0-9]+,([0-9]+),`)
	packageName = regexp.MustCompile(`([a-z]+)/v1$`)
)

// name adds the message of a type, and those of its fields, and returns its name.
func name(of reflect.Type) string {
	text := packageName.FindStringSubmatch(of.PkgPath())[1] + "/" + of.Name()
	if _, known := messages[text]; known {
		return text
	}
	messages[text] = ""
	if of.Kind() == reflect.Slice {
		messages[text] = "1:items:" + code(of.Elem(), "*")
		return text
	}
	var fields []string
	for at := range of.NumField() {
		if field := field(of.Field(at)); field != "" {
			fields = append(fields, field)
		}
	}
	messages[text] = strings.Join(fields, " ")
	return text
}

// field is number, name and type of a field; empty for a field that is never written. Kind and version have no number:
// protobuf writes them apart.
func field(of reflect.StructField) string {
	if of.Type == reflect.TypeFor[meta.TypeMeta]() {
		return "0:TypeMeta:" + code(of.Type, "^")
	}
	number := fieldNumber.FindStringSubmatch(of.Tag.Get("protobuf"))
	if number == nil {
		return ""
	}
	json, _, _ := strings.Cut(of.Tag.Get("json"), ",")
	if json == "" {
		return fmt.Sprintf("%s:%s:%s", number[1], of.Name, code(of.Type, "^"))
	}
	return fmt.Sprintf("%s:%s:%s", number[1], json, code(of.Type, ""))
}

// code is the type of a field; prefix says how often it is there.
func code(of reflect.Type, prefix string) string {
	if known, found := codes[of]; found {
		return prefix + known
	}
	switch of.Kind() {
	case reflect.Pointer:
		return setWhereZero(code(of.Elem(), prefix))
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return prefix + "y"
		}
		if of.PkgPath() != "" && prefix != "" {
			return prefix + "@" + name(of)
		}
		return setWhereZero(code(of.Elem(), "*"))
	case reflect.Map:
		return setWhereZero(code(of.Elem(), "%"))
	case reflect.Struct:
		return prefix + "@" + name(of)
	case reflect.String:
		return prefix + "s"
	case reflect.Bool:
		return prefix + "B"
	case reflect.Float64:
		return prefix + "d"
	case reflect.Int64:
		return prefix + "L"
	default:
		return prefix + "I"
	}
}

// setWhereZero is the type of a value whose zero is a value: behind a pointer, in a list, under a key.
func setWhereZero(code string) string {
	switch strings.TrimLeft(code, "*%") {
	case "B", "I", "L":
		return strings.ToLower(code)
	default:
		return code
	}
}

func main() {
	for _, kind := range kinds {
		name(reflect.TypeOf(kind))
	}
	var lines []string
	for message, fields := range messages {
		lines = append(lines, strings.TrimSpace(message+" "+fields))
	}
	slices.Sort(lines)
	fmt.Println(`# Shapes of objects of Kubernetes v1.36 in JSON and in protobuf, printed by control-plane/messages: a message per line, then
# number in protobuf, name in JSON and type of each field. s text, y bytes, i and l whole number of 32 and 64 bits, b truth
# (I, L and B: not set where zero), d number, q quantity, t time, u time to the microsecond, x number or text, f JSON, @ a
# message. Before it: * many, % by key, ^ its fields are those of the object.`)
	fmt.Println(strings.Join(lines, "\n"))
}
