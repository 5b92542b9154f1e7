{{- define "gangline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "gangline.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "gangline.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gangline.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gangline.selector" -}}
app.kubernetes.io/name: {{ include "gangline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gangline.labels" -}}
{{ include "gangline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gangline
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gangline.image" -}}
{{- $image := .Values.image -}}
{{- $place := $image.repository -}}
{{- if $image.registry }}{{ $place = printf "%s/%s" $image.registry $image.repository }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $place $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $place (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "gangline.natsImage" -}}
{{- if .Values.nats.digest }}{{ regexReplaceAll ":[^:/]+$" .Values.nats.image "" }}@{{ .Values.nats.digest }}{{ else }}{{ .Values.nats.image }}{{ end -}}
{{- end -}}

{{- define "gangline.secret" -}}
{{- default (printf "%s-keys" (include "gangline.fullname" .)) .Values.existingSecret -}}
{{- end -}}

{{- define "gangline.natsUrl" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "gangline.fullname" . }}-nats:4222
{{- else -}}
{{- required "nats.url must be set when nats.enabled is false" .Values.nats.url -}}
{{- end -}}
{{- end -}}

{{- define "gangline.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "gangline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "gangline.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gangline.busEnv" -}}
- { name: GANGLINE_NATS_URL, value: {{ include "gangline.natsUrl" .root | quote }} }
- { name: GANGLINE_NATS_USER, value: {{ .user }} }
- { name: GANGLINE_NATS_PASSWORD_FILE, value: /etc/gangline-keys/{{ .user }}.password }
- { name: GANGLINE_REPLICAS, value: {{ .root.Values.nats.replicas | quote }} }
- { name: GANGLINE_LOG_LEVEL, value: {{ .root.Values.logLevel | quote }} }
{{- with .root.Values.tracing.endpoint }}
- { name: GANGLINE_OTLP_ENDPOINT, value: {{ . | quote }} }
{{- end }}
{{- end -}}

{{- define "gangline.serviceEnv" -}}
{{ include "gangline.busEnv" (dict "root" .root "user" .service) }}
- { name: GANGLINE_HTTP_HOST, value: 0.0.0.0 }
- { name: GANGLINE_HTTP_PORT, value: "9100" }
{{- if eq .service "gateway" }}
- { name: GANGLINE_GATEWAY_HOST, value: 0.0.0.0 }
- { name: GANGLINE_GATEWAY_HOSTS, value: {{ list .root.Values.ingress.host (printf "%s-gateway" (include "gangline.fullname" .root)) (printf "%s-gateway.%s.svc" (include "gangline.fullname" .root) .root.Release.Namespace) | join "," | quote }} }
{{- else if eq .service "admission" }}
- { name: GANGLINE_ADMISSION_ADMIN_TOKEN_FILE, value: /etc/gangline-keys/admin.token }
- { name: GANGLINE_ADMISSION_FIRST_GROUP, value: {{ .root.Values.jobs.group | quote }} }
- { name: GANGLINE_ADMISSION_FIRST_USER, value: {{ .root.Values.jobs.user | quote }} }
{{- else if (eq .service "recorder") }}
- { name: GANGLINE_RECORDER_ARCHIVE_DIR, value: /var/lib/gangline/archive }
{{- else if (eq .service "kubernetes") }}
- { name: GANGLINE_KUBERNETES_CLUSTER, value: {{ .root.Values.cluster.name | quote }} }
- { name: GANGLINE_KUBERNETES_MODE, value: {{ .root.Values.cluster.mode }} }
- { name: GANGLINE_KUBERNETES_POOL, value: {{ .root.Values.cluster.pool | quote }} }
- { name: GANGLINE_KUBERNETES_NAMESPACE, value: {{ .root.Values.jobs.namespace | quote }} }
- { name: GANGLINE_KUBERNETES_GROUP, value: {{ .root.Values.cluster.defaultGroup | quote }} }
- { name: GANGLINE_KUBERNETES_USER, value: {{ .root.Values.cluster.defaultUser | quote }} }
- { name: GANGLINE_KUBERNETES_IMAGE, value: {{ .root.Values.cluster.defaultImage | quote }} }
- { name: GANGLINE_KUBERNETES_ADOPT, value: {{ .root.Values.cluster.adopt | quote }} }
- { name: GANGLINE_KUBERNETES_BUDGET_S, value: {{ .root.Values.cluster.budgetSeconds | quote }} }
- { name: GANGLINE_KUBERNETES_SUSPEND, value: {{ .root.Values.cluster.suspend | quote }} }
- { name: GANGLINE_KUBERNETES_PROVISIONING_CLASS, value: {{ .root.Values.cluster.provisioningClass | quote }} }
{{- end }}
{{- end -}}
