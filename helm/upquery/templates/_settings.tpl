{{/* upquery.toml: `settings`, and what the chart sets itself. */}}

{{/* Paths in the container: the mounts of the StatefulSet. */}}
{{- define "upquery.toml" -}}
{{- $values := .Values -}}
{{- $tables := deepCopy $values.settings -}}
{{- $own := dict -}}
{{- $_ := set $own "upstream" (include "upquery.login" (dict "given" $values.upstream "folder" "upstream") | fromJson) -}}
{{- $cdc := include "upquery.login" (dict "given" $values.cdc "folder" "cdc") | fromJson -}}
{{- $_ := set $cdc "source" $values.cdc.source -}}
{{- if eq $values.cdc.source "kafka" -}}
{{- $_ := set $cdc "kafka" (include "upquery.kafka" . | fromJson) -}}
{{- end -}}
{{- $_ := set $own "cdc" $cdc -}}
{{- $_ := set $own "http" (dict "host" $values.http.host "port" $values.http.port "admin_port" $values.admin.port "workers" $values.workers) -}}
{{- $_ := set $own "engine" (dict "directory" "/run/upquery" "memory" (printf "%sMiB" (include "upquery.mebibytes" $values.memory))) -}}
{{- $_ := set $own "subscriptions" (dict "memory" (printf "%sMiB" (include "upquery.mebibytes" $values.subscriptionMemory))) -}}
{{- $state := dict "directory" "/var/lib/upquery" "persistent" (ne (include "upquery.leavesSlots" .) "") -}}
{{- /* A pod's emptyDir goes with it, and so would a checkpoint, which may be larger than the emptyDir's limit. */ -}}
{{- if not $values.persistence.enabled }}{{- $_ := set $state "checkpoint_s" 0 }}{{- end -}}
{{- $_ := set $own "state" (set $state "warm_timeout_s" $values.warmUp.timeoutSeconds) -}}
{{- $_ := set $own "auth" (include "upquery.auth" . | fromJson) -}}
{{- if $values.accessLog.enabled }}{{- $_ := set $own "access_log" (dict "path" "/var/log/upquery") }}{{- end -}}
{{- range $name, $keys := mergeOverwrite $tables $own -}}
[{{ $name }}]
{{- include "upquery.toml.table" (dict "name" $name "keys" $keys) }}

{{ end }}
{{- range $name, $view := $values.views -}}
[[views]]
name = {{ toRawJson $name }}
{{- include "upquery.toml.table" (dict "name" "views" "keys" $view) }}

{{ end -}}
{{- end -}}

{{- define "upquery.auth" -}}
{{- $auth := dict "open_metrics" .Values.auth.openMetrics -}}
{{- if include "upquery.tokensSecret" . }}{{- $_ := set $auth "tokens_file" "/etc/upquery/tokens/tokens.toml" }}{{- end -}}
{{- if .Values.auth.jwt }}{{- $_ := set $auth "jwt" .Values.auth.jwt }}{{- end -}}
{{- toJson $auth -}}
{{- end -}}

{{/* gateway.toml. Without `Shards`, only settings that are read at the start: changed numbers of shards and replicas are applied at once. */}}
{{- define "upquery.gateway.toml" -}}
{{- $values := .Values -}}
{{- $pod := printf "http://%s-{shard}-{replica}.%s-headless" (include "upquery.fullname" .) (include "upquery.fullname" .) -}}
{{- $gateway := dict
    "address" (printf "%s:%d" $pod (int $values.http.port))
    "admin_address" (printf "%s:%d" $pod (int $values.admin.port))
    "admin_token_file" "/etc/upquery/secrets/admin/token" -}}
{{- with .Shards }}{{- $_ := merge $gateway (dict "shards" (int .) "replicas" $values.replicas) }}{{- end -}}
{{- $own := dict "gateway" $gateway "auth" (include "upquery.auth" . | fromJson) -}}
{{- $_ := set $own "http" (dict "host" $values.http.host "port" $values.http.port "admin_port" $values.admin.port "workers" $values.gateway.workers) -}}
{{- /* Limits of requests and logging default to those of the pods. */ -}}
{{- $tables := merge (deepCopy $values.gateway.settings) (pick $values.settings "http" "log" | deepCopy) -}}
{{- range $name, $keys := mergeOverwrite $tables $own -}}
[{{ $name }}]
{{- include "upquery.toml.table" (dict "name" $name "keys" $keys) }}

{{ end }}
{{- end -}}

{{/* URL and password file of `upstream` or `cdc`; the URL of a Secret is in the environment. */}}
{{- define "upquery.login" -}}
{{- $login := dict -}}
{{- if .given.url -}}
{{- $_ := set $login "url" .given.url -}}
{{- if .given.secret.name -}}
{{- $_ := set $login "password_file" (printf "/etc/upquery/secrets/%s/password" .folder) -}}
{{- end -}}
{{- end -}}
{{- toJson $login -}}
{{- end -}}

{{- define "upquery.kafka" -}}
{{- $kafka := .Values.kafka -}}
{{- $keys := merge (dict "bootstrap_servers" $kafka.bootstrapServers "topic_prefix" $kafka.topicPrefix) $kafka.settings -}}
{{- if $kafka.saslSecret.name }}{{- $_ := set $keys "sasl_password_file" "/etc/upquery/secrets/kafka/password" }}{{- end -}}
{{- if $kafka.tls.secret -}}
{{- $_ := set $keys "ssl_cafile" "/etc/upquery/tls/kafka/ca.crt" -}}
{{- if $kafka.tls.clientCertificate -}}
{{- $_ := set $keys "ssl_certfile" "/etc/upquery/tls/kafka/tls.crt" -}}
{{- $_ := set $keys "ssl_keyfile" "/etc/upquery/tls/kafka/tls.key" -}}
{{- end -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}
