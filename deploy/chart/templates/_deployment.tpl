{{/*
Deployment and disruption budget. Arguments: root, name, account, component (its values), arguments (a list), webhooks and
queues (whether it has this port, this volume).
*/}}
{{- define "kai.deployment" -}}
{{- $root := .root -}}
{{- $component := index .root.Values .component -}}
{{- $image := include "kai.image" .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .name }}
spec:
  replicas: {{ include "kai.replicas" (dict "root" $root "component" .component) | int }}
  selector:
    matchLabels:
      app: {{ .name }}
  template:
    metadata:
      labels:
        app: {{ .name }}
      {{- with $component.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      {{- with include "kai.pullSecrets" $root | fromJsonArray }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.global.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.global.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.global.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $affinity := $component.affinity | default $root.Values.global.affinity | default dict | deepCopy }}
      {{- if not (hasKey $affinity "podAntiAffinity") }}
      {{- $term := dict "labelSelector" (dict "matchLabels" (dict "app" .name)) "topologyKey" "kubernetes.io/hostname" }}
      {{- $rule := dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)) }}
      {{- if $root.Values.global.requireDefaultPodAntiAffinityTerm }}
      {{- $rule = dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term) }}
      {{- end }}
      {{- $_ := set $affinity "podAntiAffinity" $rule }}
      {{- end }}
      {{- with $affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $usual := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") }}
      {{- if not (include "kai.openshift" $root) }}
      {{- $_ := set $usual "runAsUser" 10000 }}
      {{- end }}
      securityContext:
        {{- toYaml (mergeOverwrite $usual (deepCopy $root.Values.global.podSecurityContext)) | nindent 8 }}
      containers:
      - name: {{ .name }}
        image: {{ $image | quote }}
        imagePullPolicy: {{ include "kai.pullPolicy" $root }}
        args:
          {{- .arguments | toYaml | nindent 10 }}
        env:
        - name: KAI_IMAGE
          value: {{ $image | quote }}
        ports:
        - name: http-metrics
          containerPort: 8080
        - name: probes
          containerPort: 8081
        {{- if .webhooks }}
        - name: webhook
          containerPort: 9443
        {{- end }}
        livenessProbe:
          httpGet:
            path: /healthz
            port: probes
          periodSeconds: 10
        readinessProbe:
          httpGet:
            path: /readyz
            port: probes
          periodSeconds: 10
        resources:
          {{- toYaml $component.resources | nindent 10 }}
        {{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
        securityContext:
          {{- toYaml (mergeOverwrite $container (deepCopy $root.Values.global.securityContext)) | nindent 10 }}
        {{- if .queues }}
        volumeMounts:
        - name: default-queues
          mountPath: /etc/kai
          readOnly: true
        {{- end }}
      {{- if .queues }}
      volumes:
      - name: default-queues
        configMap:
          name: default-queues
      {{- end }}
{{- if $component.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .name }}
spec:
  maxUnavailable: {{ $component.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app: {{ .name }}
{{- end }}
{{- end -}}
