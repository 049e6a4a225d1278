{{- /*
Settings that the chart derives from values, with the value to set instead. Credentials
are among them: config becomes a ConfigMap, which is not for secrets.
*/ -}}
{{- define "fluxgate.checkConfig" -}}
{{- $managed := dict
  "redis.enabled" "redis.enabled"
  "redis.uri" "redis.uri or redis.existingSecret"
  "redis.username-file" "redis.credentials"
  "redis.password-file" "redis.credentials"
  "redis.key-secret-file" "redis.keySecret"
  "redis.tls" "redis.tls"
  "mongo.enabled" "mongo.enabled"
  "mongo.uri" "mongo.uri or mongo.existingSecret"
  "mongo.username-file" "mongo.credentials"
  "mongo.password-file" "mongo.credentials"
  "rules" "rules"
  "server.http" "http.port"
  "server.grpc" "grpc"
  "server.admin" "admin"
  "server.admin-hosts" "admin.hosts"
  "server.metrics" "metrics.port"
  "server.tls.cert-file" "tls.existingSecret"
  "server.tls.key-file" "tls.existingSecret"
  "server.tls.client-ca-file" "tls.clientCAKey"
  "server.tls.listeners" "tls.existingSecret"
  "server.auth.tokens" "auth.tokens.existingSecret"
  "server.auth.tokens-file" "auth.tokens.existingSecret"
  "server.auth.oidc" "auth.oidc"
  "server.drain" "drain"
  "settle.receipt-secret-file" "receipts.existingSecret"
  "events.webhook" "events.existingSecret"
  "events.secret-file" "events.secretKey"
-}}
{{- range $key, $value := $managed }}
  {{- $at := $.Values.config }}
  {{- range splitList "." $key }}
    {{- $at = ternary (get $at .) nil (and (kindIs "map" $at) (hasKey $at .)) }}
  {{- end }}
  {{- if not (kindIs "invalid" $at) }}
    {{- fail (printf "config.%s: set %s instead" $key $value) }}
  {{- end }}
{{- end }}
{{- with (.Values.config.telemetry | default dict) }}
  {{- if contains "@" (index . "otlp-endpoint" | default "" | toString) }}
    {{- fail "config.telemetry.otlp-endpoint: has credentials; set FLUXGATE_TELEMETRY_OTLP_ENDPOINT from a Secret in extraEnv instead" }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /*
Addresses become variables of pods, which others can read: credentials are refused. The
error does not show the address.
*/ -}}
{{- define "fluxgate.checkAddresses" -}}
{{- with .Values }}
{{- if not (regexMatch "^(rediss?(-sentinel)?://.*)?$" .redis.uri) }}
  {{- fail "redis.uri: must begin with redis://, rediss://, redis-sentinel:// or rediss-sentinel://" }}
{{- end }}
{{- if contains "@" (regexReplaceAll "://([^:@/]*:)?[$][(]REDIS_PASSWORD[)]@" .redis.uri "") }}
  {{- fail "redis.uri: has credentials; put the URI or the password into a Secret and set redis.existingSecret" }}
{{- end }}
{{- if not (regexMatch "^(mongodb([+]srv)?://.*)?$" .mongo.uri) }}
  {{- fail "mongo.uri: must begin with mongodb:// or mongodb+srv://" }}
{{- end }}
{{- if regexMatch "@|(?i:password=|session_token:)" .mongo.uri }}
  {{- fail "mongo.uri: has credentials; put the URI into a Secret and set mongo.existingSecret" }}
{{- end }}
{{- if not (regexMatch "^((https|ssh)://.*)?$" .rules.git.repo) }}
  {{- fail "rules.git.repo: must begin with https:// or ssh://" }}
{{- end }}
{{- if contains "@" (regexReplaceAll "^ssh://[^:@/]*@" .rules.git.repo "") }}
  {{- fail "rules.git.repo: has credentials; put them into a Secret and set rules.git.existingSecret" }}
{{- end }}
{{- if not (regexMatch "^(https://[^@]*)?$" .auth.oidc.issuer) }}
  {{- fail "auth.oidc.issuer: must begin with https:// and have no credentials" }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Values that do not fit together. */ -}}
{{- define "fluxgate.checkValues" -}}
{{- include "fluxgate.checkConfig" . }}
{{- include "fluxgate.checkAddresses" . }}
{{- with .Values }}
{{- if and .redis.enabled (not .redis.uri) (or (not .redis.existingSecret) .redis.passwordKey) }}
  {{- fail "redis.uri: set the address of Redis, or redis.existingSecret with the whole URI; redis.enabled=false counts in the memory of each server, for a trial" }}
{{- end }}
{{- if ne (contains "$(REDIS_PASSWORD)" .redis.uri) (ne .redis.passwordKey "") }}
  {{- fail "redis.passwordKey: is the key of the password that replaces $(REDIS_PASSWORD) in redis.uri; set both or none" }}
{{- end }}
{{- if and .redis.passwordKey (not .redis.existingSecret) }}
  {{- fail "redis.passwordKey: needs redis.existingSecret" }}
{{- end }}
{{- if and .redis.existingSecret .redis.uri (not .redis.passwordKey) }}
  {{- fail "redis.uri: is not used beside redis.existingSecret, which has the whole URI; set redis.passwordKey if it has the password only" }}
{{- end }}
{{- if and .redis.credentials.existingSecret .redis.existingSecret }}
  {{- fail "redis.credentials: is not used beside redis.existingSecret; set one of them" }}
{{- end }}
{{- if and .mongo.credentials.existingSecret .mongo.existingSecret }}
  {{- fail "mongo.credentials: is not used beside mongo.existingSecret; set one of them" }}
{{- end }}
{{- if and .redis.enabled .redis.tls.existingSecret .redis.uri (not (hasPrefix "rediss" .redis.uri)) }}
  {{- fail "redis.tls.existingSecret: redis.uri must begin with rediss:// or rediss-sentinel://" }}
{{- end }}
{{- if and .mongo.enabled (eq (empty .mongo.uri) (empty .mongo.existingSecret)) }}
  {{- fail "mongo.uri: set either the address of MongoDB or mongo.existingSecret" }}
{{- end }}
{{- if and (eq .rules.source "mongo") (not .mongo.enabled) }}
  {{- fail "rules.source: mongo needs mongo.enabled" }}
{{- end }}
{{- if and (eq .rules.source "redis") (not .redis.enabled) }}
  {{- fail "rules.source: redis needs redis.enabled" }}
{{- end }}
{{- if eq .rules.source "git" }}
  {{- if not (or .mongo.enabled .redis.enabled) }}
    {{- fail "rules.source: git needs mongo.enabled or redis.enabled, to copy the rules to" }}
  {{- end }}
  {{- if not .rules.git.repo }}
    {{- fail "rules.git.repo: set the repository with the rules" }}
  {{- end }}
{{- end }}
{{- if and (has .rules.source (list "configMap" "envoyFiles")) (eq (empty .rules.files) (empty .rules.existingConfigMap)) }}
  {{- fail "rules.files: set either rule files, as with --set-file 'rules.files.rules\\.yaml=rules.yaml', or rules.existingConfigMap" }}
{{- end }}
{{- if and (eq .rules.source "xds") (not .rules.xds.server) }}
  {{- fail "rules.xds.server: set the address of the xDS server" }}
{{- end }}
{{- if and .admin.enabled (not (include "fluxgate.asksForTokens" $)) (not .tls.clientCAKey) }}
  {{- fail "admin.enabled: the admin API needs authentication; set auth.tokens.existingSecret, auth.oidc.issuer or tls.clientCAKey" }}
{{- end }}
{{- if and .auth.oidc.issuer (not .auth.oidc.audience) }}
  {{- fail "auth.oidc.audience: set the audience of tokens; without it a token for any other service of the issuer would be accepted" }}
{{- end }}
{{- if and .tls.clientCAKey (not .tls.existingSecret) }}
  {{- fail "tls.clientCAKey: needs tls.existingSecret" }}
{{- end }}
{{- if and .serviceMonitor.enabled (include "fluxgate.asksForTokens" $) (not .serviceMonitor.existingSecret) }}
  {{- fail "serviceMonitor.existingSecret: with auth, scrapes need a token with the role read" }}
{{- end }}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) }}
  {{- fail "autoscaling.minReplicas: is more than autoscaling.maxReplicas" }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* fluxgate.yaml as a map: config, and what the chart derives from values. */ -}}
{{- define "fluxgate.config" -}}
{{- include "fluxgate.checkValues" . }}
{{- $secrets := "/etc/fluxgate/secrets" }}
{{- with .Values }}
{{- $redis := dict "enabled" .redis.enabled }}
{{- with .redis.credentials }}
{{- if and .existingSecret $.Values.redis.enabled }}
  {{- $_ := set $redis "password-file" (printf "%s/redis-credentials/%s" $secrets .passwordKey) }}
  {{- if .usernameKey }}
    {{- $_ := set $redis "username-file" (printf "%s/redis-credentials/%s" $secrets .usernameKey) }}
  {{- end }}
{{- end }}
{{- end }}
{{- $mongo := dict "enabled" .mongo.enabled }}
{{- with .mongo.credentials }}
{{- if and .existingSecret $.Values.mongo.enabled }}
  {{- $_ := set $mongo "username-file" (printf "%s/mongo-credentials/%s" $secrets .usernameKey) }}
  {{- $_ := set $mongo "password-file" (printf "%s/mongo-credentials/%s" $secrets .passwordKey) }}
{{- end }}
{{- end }}
{{- if .redis.keySecret.existingSecret }}
  {{- $_ := set $redis "key-secret-file" (printf "%s/key-secret/%s" $secrets .redis.keySecret.key) }}
{{- end }}
{{- if .redis.tls.existingSecret }}
  {{- $tls := dict }}
  {{- if .redis.tls.caKey }}
    {{- $_ := set $tls "ca-file" (printf "%s/redis-tls/%s" $secrets .redis.tls.caKey) }}
  {{- end }}
  {{- if .redis.tls.clientCertificate }}
    {{- $_ := set $tls "cert-file" (printf "%s/redis-tls/tls.crt" $secrets) }}
    {{- $_ := set $tls "key-file" (printf "%s/redis-tls/tls.key" $secrets) }}
  {{- end }}
  {{- $_ := set $redis "tls" $tls }}
{{- end }}
{{- $source := dict "configMap" "file" "envoyFiles" "envoy-files" "git" (ternary "mongo" "redis" .mongo.enabled) }}
{{- $rules := dict "source" (get $source .rules.source | default .rules.source) "copies" "/var/lib/fluxgate" }}
{{- if eq .rules.source "configMap" }}
  {{- $_ := set $rules "file" "/etc/fluxgate/rules" }}
{{- else if eq .rules.source "envoyFiles" }}
  {{- $_ := set $rules "envoy-files" "/etc/fluxgate/rules" }}
{{- else if eq .rules.source "xds" }}
  {{- $xds := dict "server" .rules.xds.server "node-id" .rules.xds.nodeId }}
  {{- if .rules.xds.existingSecret }}
    {{- $at := printf "%s/xds-tls" $secrets }}
    {{- $_ := set $xds "tls" (dict "enabled" true "ca-file" (print $at "/ca.crt") "cert-file" (print $at "/tls.crt") "key-file" (print $at "/tls.key")) }}
  {{- end }}
  {{- $_ := set $rules "xds" $xds }}
{{- end }}
{{- $admin := printf "127.0.0.1:%v" .admin.port }}
{{- $hosts := list }}
{{- if .admin.enabled }}
  {{- $admin = printf ":%v" .admin.port }}
  {{- $service := include "fluxgate.internalService" $ }}
  {{- $namespaced := printf "%s.%s" $service $.Release.Namespace }}
  {{- $hosts = concat (list $service $namespaced (print $namespaced ".svc") (print $namespaced ".svc.cluster.local")) .admin.hosts }}
{{- end }}
{{- $server := dict
  "http" (printf ":%v" .http.port)
  "grpc" (ternary (printf ":%v" .grpc.port) "" .grpc.enabled)
  "admin" $admin
  "admin-hosts" $hosts
  "metrics" (printf ":%v" .metrics.port)
  "drain" (dict "delay" (printf "%vs" .drain.delaySeconds) "timeout" (printf "%vs" .drain.timeoutSeconds))
}}
{{- if .tls.existingSecret }}
  {{- $tls := dict "cert-file" (printf "%s/tls/tls.crt" $secrets) "key-file" (printf "%s/tls/tls.key" $secrets) "listeners" (list "http" "grpc" "admin") }}
  {{- if .tls.clientCAKey }}
    {{- $_ := set $tls "client-ca-file" (printf "%s/tls/%s" $secrets .tls.clientCAKey) }}
  {{- end }}
  {{- $_ := set $server "tls" $tls }}
{{- end }}
{{- $auth := dict }}
{{- if .auth.tokens.existingSecret }}
  {{- $_ := set $auth "tokens-file" (printf "%s/tokens/%s" $secrets .auth.tokens.key) }}
{{- end }}
{{- if .auth.oidc.issuer }}
  {{- $oidc := merge (dict "issuer" .auth.oidc.issuer "audience" .auth.oidc.audience) .auth.oidc.config }}
  {{- if .auth.oidc.existingSecret }}
    {{- $_ := set $oidc "ca-file" (printf "%s/oidc/ca.crt" $secrets) }}
  {{- end }}
  {{- $_ := set $auth "oidc" $oidc }}
{{- end }}
{{- $_ := set $server "auth" $auth }}
{{- $derived := dict "redis" $redis "mongo" $mongo "rules" $rules "server" $server }}
{{- if .receipts.existingSecret }}
  {{- $_ := set $derived "settle" (dict "receipt-secret-file" (printf "%s/receipts/%s" $secrets .receipts.key)) }}
{{- end }}
{{- if and .events.existingSecret .events.secretKey }}
  {{- $_ := set $derived "events" (dict "secret-file" (printf "%s/events/%s" $secrets .events.secretKey)) }}
{{- end }}
{{- /* JSON, which is YAML: toYaml would write 10485760 as 1.048576e+07. */ -}}
{{- dict "fluxgate" (mergeOverwrite (dict "log" (dict "format" "json")) (deepCopy .config) $derived) | toPrettyJson }}
{{- end }}
{{- end -}}

{{- /* The addresses with credentials, for all containers that read the configuration. */ -}}
{{- define "fluxgate.env" -}}
{{- with .Values }}
{{- if .redis.enabled }}
{{- if .redis.passwordKey }}
- name: REDIS_PASSWORD
  valueFrom: { secretKeyRef: { name: {{ .redis.existingSecret | quote }}, key: {{ .redis.passwordKey | quote }} } }
{{- end }}
- name: FLUXGATE_REDIS_URI
{{- if .redis.uri }}
  value: {{ .redis.uri | quote }}
{{- else }}
  valueFrom: { secretKeyRef: { name: {{ .redis.existingSecret | quote }}, key: {{ .redis.uriKey | quote }} } }
{{- end }}
{{- end }}
{{- if .mongo.enabled }}
- name: FLUXGATE_MONGO_URI
{{- if .mongo.uri }}
  value: {{ .mongo.uri | quote }}
{{- else }}
  valueFrom: { secretKeyRef: { name: {{ .mongo.existingSecret | quote }}, key: {{ .mongo.uriKey | quote }} } }
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What the job of the rules needs of the configuration: where they are written to. */ -}}
{{- define "fluxgate.rulesJobConfig" -}}
{{- $config := (include "fluxgate.config" . | fromJson).fluxgate }}
{{- $_ := unset $config.redis "key-secret-file" }}
{{- dict "fluxgate" (pick $config "log" "mongo" "ratelimit" "redis" "rules") | toPrettyJson }}
{{- end -}}

{{- /* Secrets that are mounted, by the folder below /etc/fluxgate/secrets. */ -}}
{{- define "fluxgate.secrets" -}}
{{- with .Values }}
{{- dict
  "redis-credentials" (ternary .redis.credentials.existingSecret "" .redis.enabled)
  "mongo-credentials" (ternary .mongo.credentials.existingSecret "" .mongo.enabled)
  "redis-tls" .redis.tls.existingSecret
  "key-secret" .redis.keySecret.existingSecret
  "mongo-tls" .mongo.tls.existingSecret
  "xds-tls" (ternary .rules.xds.existingSecret "" (eq .rules.source "xds"))
  "tls" .tls.existingSecret
  "tokens" .auth.tokens.existingSecret
  "oidc" (ternary .auth.oidc.existingSecret "" (ne .auth.oidc.issuer ""))
  "receipts" .receipts.existingSecret
  "events" .events.existingSecret
| toJson }}
{{- end }}
{{- end -}}

{{- define "fluxgate.volumes" -}}
- name: config
  configMap: { name: {{ include "fluxgate.fullname" . }} }
{{- if has .Values.rules.source (list "configMap" "envoyFiles") }}
- name: rules
  configMap: { name: {{ include "fluxgate.rulesConfigMap" . | quote }} }
{{- end }}
- name: copies
  emptyDir: { sizeLimit: 256Mi }
{{- end -}}

{{- define "fluxgate.secretVolumes" -}}
{{- range $folder, $secret := . }}
{{- if $secret }}
- name: {{ $folder }}
  secret: { secretName: {{ $secret | quote }}, defaultMode: 0440 }
{{- end }}
{{- end }}
{{- end -}}

{{- define "fluxgate.volumeMounts" -}}
- name: config
  mountPath: /etc/fluxgate/config
  readOnly: true
{{- if has .Values.rules.source (list "configMap" "envoyFiles") }}
# A folder: the kubelet does not update a file that is mounted by subPath.
- name: rules
  mountPath: /etc/fluxgate/rules
  readOnly: true
{{- end }}
- name: copies
  mountPath: /var/lib/fluxgate
{{- end -}}

{{- define "fluxgate.secretMounts" -}}
{{- range $folder, $secret := . }}
{{- if $secret }}
- name: {{ $folder }}
  mountPath: /etc/fluxgate/secrets/{{ $folder }}
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}
