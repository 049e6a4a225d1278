{{- define "fluxgate.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{- define "fluxgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains (include "fluxgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "fluxgate.name" .) | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The Service of the metrics and admin ports. */ -}}
{{- define "fluxgate.internalService" -}}
{{ include "fluxgate.fullname" . }}-internal
{{- end -}}

{{- define "fluxgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fluxgate.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "fluxgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "fluxgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* The labels of the servers, which jobs and tests do not have. */ -}}
{{- define "fluxgate.serverLabels" -}}
{{ include "fluxgate.selectorLabels" . }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "fluxgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "fluxgate.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "fluxgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "fluxgate.rulesConfigMap" -}}
{{- .Values.rules.existingConfigMap | default (printf "%s-rules" (include "fluxgate.fullname" .)) -}}
{{- end -}}

{{- define "fluxgate.asksForTokens" -}}
{{- if or .Values.auth.tokens.existingSecret .Values.auth.oidc.issuer }}yes{{ end -}}
{{- end -}}

{{- /* Whether helm test can ask: it has a token if one is needed, but no client certificate. */ -}}
{{- define "fluxgate.canTest" -}}
{{- if and .Values.test.enabled (not .Values.tls.clientCAKey) (or .Values.test.existingSecret (not (include "fluxgate.asksForTokens" .))) }}yes{{ end -}}
{{- end -}}

{{- define "fluxgate.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "fluxgate.securityContext" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* What all pods have. */ -}}
{{- define "fluxgate.podSpec" -}}
serviceAccountName: {{ include "fluxgate.serviceAccount" . | quote }}
automountServiceAccountToken: false
# Variables for each Service of the namespace could be taken for settings.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "fluxgate.podSecurityContext" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}
