{{/*
Adds sections that the values lack and the defaults have: `helm upgrade --reuse-values` brings the values of an earlier version,
or of KAI's chart, without the defaults of this one.
*/}}
{{- define "kai.completeValues" -}}
{{- include "kai.addSections" (dict "values" .Values "defaults" (.Files.Get "files/values.yaml" | fromYaml)) -}}
{{- end -}}

{{- define "kai.addSections" -}}
{{- range $key, $default := .defaults -}}
{{- if kindIs "map" $default -}}
{{- if kindIs "map" (get $.values $key) -}}
{{- include "kai.addSections" (dict "values" (get $.values $key) "defaults" $default) -}}
{{- else -}}
{{- $_ := set $.values $key $default -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Image of every container. */}}
{{- define "kai.image" -}}
{{ .Values.global.registry | default "localhost/kai-scheduler" | trimSuffix "/" }}/{{ .Values.image.name }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.global.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/*
There is one image, so there is one pull policy: that of all components, or else of the first that has one. IfNotPresent, which
KAI's chart sets everywhere, gives way to any other.
*/}}
{{- define "kai.pullPolicy" -}}
{{- $usual := "IfNotPresent" -}}
{{- $policies := list .Values.global.imagePullPolicy -}}
{{- range $component := list "scheduler" "crdupgrader" "binder" "admission" "podgrouper" "podgroupcontroller" "queuecontroller" "operator" "nodescaleadjuster" "numaPlacementExporter" "kaiConfigDeployer" "topologyMigration" "postCleanup" -}}
{{- range $image := list "image" "resourceReservationImage" "scalingPodImage" -}}
{{- $image = get (get $.Values $component | default dict) $image -}}
{{- if kindIs "map" $image -}}{{- $policies = append $policies (get $image "pullPolicy") -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- without $policies nil "" $usual | first | default $usual -}}
{{- end -}}

{{/* Not empty on OpenShift. */}}
{{- define "kai.openshift" -}}
{{- if or .Values.openshift (.Capabilities.APIVersions.Has "security.openshift.io/v1") -}}true{{- end -}}
{{- end -}}

{{/* Pull secrets as a list of objects. */}}
{{- define "kai.pullSecrets" -}}
{{- $secrets := list -}}
{{- range .Values.global.imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- toJson $secrets -}}
{{- end -}}

{{/* Replicas of a component. Arguments: root, component. */}}
{{- define "kai.replicas" -}}
{{- $component := index .root.Values .component -}}
{{- $component.replicas | default .root.Values.operator.replicaCount | default 2 -}}
{{- end -}}

{{/* Not empty if pods may request fractions of GPUs. */}}
{{- define "kai.gpuSharing" -}}
{{- $mode := .Values.global.gpuSharingMode | default "" -}}
{{- if $mode -}}
{{- if ne $mode "Disabled" -}}true{{- end -}}
{{- else if eq (toString .Values.global.gpuSharing) "true" -}}true{{- end -}}
{{- end -}}

{{/* Namespace of scaling pods. */}}
{{- define "kai.scalingNamespace" -}}
{{- .Values.nodescaleadjuster.scalingPodNamespace | default "kai-scale-adjust" -}}
{{- end -}}

{{/* How limits of GPU memory are treated at least; empty: they are off. */}}
{{- define "kai.gpuMemoryEnforcement" -}}
{{- $least := .Values.global.gpuMemoryEnforcement | default "off" | toString -}}
{{- if eq $least "false" -}}{{- $least = "off" -}}{{- end -}}
{{- if eq (.Values.global.gpuSharingMode | default "") "Guard" -}}{{- $least = "enforce" -}}{{- end -}}
{{- if ne $least "off" -}}{{ $least }}{{- end -}}
{{- end -}}

{{/* Not empty if reservation pods see the processes of their nodes. */}}
{{- define "kai.observesProcesses" -}}
{{- $set := .Values.global.resourceReservation.observeProcesses -}}
{{- if kindIs "bool" $set -}}{{- if $set -}}true{{- end -}}
{{- else if include "kai.gpuMemoryEnforcement" . -}}true
{{- end -}}
{{- end -}}

{{/* Plugins of the binder, with those that the sharing mode asks for. */}}
{{- define "kai.binderPlugins" -}}
{{- $plugins := deepCopy (.Values.binder.plugins | default dict) -}}
{{- if eq (.Values.global.gpuSharingMode | default "") "HamiCore" -}}
{{- $plugins = mergeOverwrite (dict "hamicore" (dict "enabled" true)) $plugins -}}
{{- end -}}
{{- toJson $plugins -}}
{{- end -}}

{{/* Security context of reservation containers on OpenShift, which assigns the user id. */}}
{{- define "kai.openshiftReservationSecurity" -}}
{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}
{{- end -}}

{{/* Functions that run, as a JSON list; empty: all of them. */}}
{{- define "kai.functions" -}}
{{- $names := dict "scheduler" "scheduler" "podgrouper" "pod-grouper" "binder" "binder" "podgroupcontroller" "podgroup-controller" "queuecontroller" "queue-controller" -}}
{{- $on := list -}}
{{- range $component, $function := $names -}}
{{- if ne (dig "enabled" true (index $.Values $component | default dict)) false -}}{{- $on = append $on $function -}}{{- end -}}
{{- end -}}
{{- if ne (len $on) (len $names) -}}{{- join "," $on -}}{{- end -}}
{{- end -}}

{{/* Arguments of both Deployments about access, as a JSON list. */}}
{{- define "kai.accessArguments" -}}
{{- $args := list -}}
{{- if .Values.global.queueAuthorization -}}{{- $args = append $args "--queue-authorization" -}}{{- end -}}
{{- if .Values.prometheus.authenticateMetrics -}}{{- $args = append $args "--metrics-authentication" -}}{{- end -}}
{{- toJson $args -}}
{{- end -}}

{{/* Other arguments that both Deployments have, as a JSON list. */}}
{{- define "kai.commonArguments" -}}
{{- $v := .Values -}}
{{- $args := list -}}
{{- if ne .Release.Namespace "kai-scheduler" -}}{{- $args = append $args (printf "--namespace=%s" .Release.Namespace) -}}{{- end -}}
{{- with include "kai.gpuMemoryEnforcement" . -}}{{- $args = append $args (printf "--gpu-memory-enforcement=%s" .) -}}{{- end -}}
{{- if $v.global.jsonLog -}}{{- $args = append $args "--log-json" -}}{{- end -}}
{{- if ne ($v.podgrouper.queueLabelKey | default "kai.scheduler/queue") "kai.scheduler/queue" -}}{{- $args = append $args (printf "--queue-label-key=%s" $v.podgrouper.queueLabelKey) -}}{{- end -}}
{{- if ne (include "kai.binderPlugins" .) "{}" -}}{{- $args = append $args (printf "--plugins=%s" (include "kai.binderPlugins" .)) -}}{{- end -}}
{{- toJson $args -}}
{{- end -}}

{{/* Arguments of admission, as a JSON list. */}}
{{- define "kai.admissionArguments" -}}
{{- $v := .Values -}}
{{- $args := concat (list "run" "--leader-elect" "--only" "admission") (include "kai.accessArguments" . | fromJsonArray) -}}
{{- $args = append $args (printf "--gpu-sharing-enabled=%t" (ne (include "kai.gpuSharing" .) "")) -}}
{{- if $v.global.blockNvidiaVisibleDevices -}}{{- $args = append $args "--block-nvidia-visible-devices" -}}{{- end -}}
{{- if eq ($v.global.gpuSharingMode | default "") "HamiCore" -}}{{- $args = append $args "--hami-core-enabled" -}}{{- end -}}
{{- if include "kai.gpuSharing" . -}}
{{- if ne (include "kai.pullPolicy" .) "IfNotPresent" -}}{{- $args = append $args (printf "--guard-pull-policy=%s" (include "kai.pullPolicy" .)) -}}{{- end -}}
{{- with $v.global.guardPullSecrets -}}{{- $args = append $args (printf "--guard-pull-secrets=%s" (join "," .)) -}}{{- end -}}
{{- end -}}
{{- $class := $v.admission.gpuFractionRuntimeClassName -}}
{{- if kindIs "invalid" $class -}}{{- $class = dig "gpuPodRuntimeClassName" "nvidia" $v.admission -}}{{- end -}}
{{- if and (kindIs "string" $class) (ne $class "nvidia") -}}{{- $args = append $args (printf "--gpu-fraction-runtime-class-name=%s" $class) -}}{{- end -}}
{{- toJson (concat $args (include "kai.commonArguments" . | fromJsonArray) (include "kai.additionalArguments" $v.admission | fromJsonArray)) -}}
{{- end -}}

{{/* Further arguments of a component as a JSON list; a text is one argument. */}}
{{- define "kai.additionalArguments" -}}
{{- $more := .additionalArgs | default list -}}
{{- kindIs "slice" $more | ternary $more (list $more) | toJson -}}
{{- end -}}

{{- define "kai.disruptionBudgetDelay" -}}
{{- .Values.scheduler.disruptionBudgetDelay | default "10m" -}}
{{- end -}}

{{/* Arguments of the scheduler, as a JSON list. */}}
{{- define "kai.arguments" -}}
{{- $v := .Values -}}
{{- $reservation := $v.global.resourceReservation -}}
{{- $args := concat (list "run" "--leader-elect") (include "kai.accessArguments" . | fromJsonArray) -}}
{{- if ne (include "kai.disruptionBudgetDelay" .) "10m" -}}{{- $args = append $args (printf "--disruption-budget-delay=%s" (include "kai.disruptionBudgetDelay" .)) -}}{{- end -}}
{{- $args = append $args "--upgrade-crds" -}}
{{- if $v.defaultQueue.createDefaultQueue -}}{{- $args = append $args "--default-queues=/etc/kai/queues.yaml" -}}{{- end -}}
{{- $args = append $args (printf "--resource-reservation-pull-policy=%s" (include "kai.pullPolicy" .)) -}}
{{- if include "kai.openshift" . -}}{{- $args = append $args (printf "--resource-reservation-container-security-context=%s" (include "kai.openshiftReservationSecurity" .)) -}}{{- end -}}
{{- if gt (int $v.global.gpuMemoryReserveMib) 0 -}}{{- $args = append $args (printf "--gpu-memory-reserve-mib=%d" (int $v.global.gpuMemoryReserveMib)) -}}{{- end -}}
{{- if kindIs "bool" $reservation.observeProcesses -}}{{- $args = append $args (printf "--resource-reservation-observe-processes=%t" $reservation.observeProcesses) -}}{{- end -}}
{{- if $v.global.clusterAutoscaling -}}{{- $args = append $args "--node-scale-adjuster" -}}{{- end -}}
{{- if ne (include "kai.scalingNamespace" .) "kai-scale-adjust" -}}{{- $args = append $args (printf "--scale-adjust-namespace=%s" (include "kai.scalingNamespace" .)) -}}{{- end -}}
{{- with include "kai.functions" . -}}{{- $args = append $args (printf "--only=%s" .) -}}{{- end -}}
{{- if eq ($v.global.gpuSharingMode | default "") "NvFractions" -}}{{- $args = append $args "--nv-fractions-enabled" -}}{{- end -}}
{{- with $v.global.nodePoolLabelKey -}}{{- $args = append $args (printf "--nodepool-label-key=%s" .) -}}{{- end -}}
{{- if eq (get $v.podgrouper "genericKartaFallback") false -}}{{- $args = append $args "--generic-karta-fallback=false" -}}{{- end -}}
{{- if hasKey $v.binder "cdiEnabled" -}}{{- $args = append $args (printf "--cdi-enabled=%t" $v.binder.cdiEnabled) -}}{{- end -}}
{{- /* KAI's documents have the second form. */ -}}
{{- with get $v.binder "runtimeClassName" | default (get (get $v.binder "resourceReservation" | default dict) "runtimeClassName") -}}{{- $args = append $args (printf "--runtime-class-name=%s" .) -}}{{- end -}}
{{- with get $v.binder "resourceReservationPodResources" -}}{{- $args = append $args (printf "--resource-reservation-pod-resources=%s" (toJson .)) -}}{{- end -}}
{{- if ne $reservation.namespace "kai-resource-reservation" -}}{{- $args = append $args (printf "--resource-reservation-namespace=%s" $reservation.namespace) -}}{{- end -}}
{{- if ne $reservation.serviceAccount "kai-resource-reservation" -}}{{- $args = append $args (printf "--resource-reservation-service-account=%s" $reservation.serviceAccount) -}}{{- end -}}
{{- if ne $reservation.appLabel "kai-resource-reservation" -}}{{- $args = append $args (printf "--resource-reservation-app-label=%s" $reservation.appLabel) -}}{{- end -}}
{{- toJson (concat $args (include "kai.commonArguments" . | fromJsonArray) (include "kai.additionalArguments" $v.scheduler | fromJsonArray)) -}}
{{- end -}}

{{/*
Not empty if an object of the cluster may be part of this release: it is absent, or a release of this name made it.
Arguments: apiVersion, kind, namespace, name, release.
*/}}
{{- define "kai.mayOwn" -}}
{{- $found := lookup .apiVersion .kind .namespace .name -}}
{{- if not $found -}}true
{{- else if eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found) .release -}}true
{{- end -}}
{{- end -}}

{{/* Annotations of objects that outlive the release, whether Helm or Argo CD removes it, as JSON. */}}
{{- define "kai.keptAnnotations" -}}
{"argocd.argoproj.io/sync-options":"Prune=false,Delete=false","helm.sh/resource-policy":"keep"}
{{- end -}}
