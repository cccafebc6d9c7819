{{/* Checks across values, which the schema cannot express. */}}
{{- define "upquery.checks" -}}
{{- with .Values -}}
{{- if not (or .upstream.url .upstream.secret.name) -}}
{{- fail "\n\nNo upstream database is configured. Set upstream.secret.name to a Secret with its URL (key upstream.secret.urlKey, \"url\"),\nor upstream.url, and upstream.secret.name to a Secret with the password." -}}
{{- end -}}
{{- range $where := list .upstream .cdc -}}
{{- if and $where.url (urlParse $where.url).userinfo (contains ":" (urlParse $where.url).userinfo) -}}
{{- fail "\n\nA password in the URL would be readable in the ConfigMap. Put it in a Secret: upstream.secret, cdc.secret." -}}
{{- end -}}
{{- /* Secret parameters of libpq; names may be %-encoded. */ -}}
{{- if regexMatch "(?i)[?&](((ssl)?password|oauth_client_secret|scram_(client|server)_key)=|[^=&]*%[^=&]*=)" $where.url -}}
{{- fail "\n\nA URL with a password among its parameters (password=, sslpassword= …; or one whose name is %-encoded) would be readable in the ConfigMap.\nPut the password, or the whole URL, in a Secret: upstream.secret, cdc.secret." -}}
{{- end -}}
{{- end -}}
{{- if eq .cdc.source "kafka" -}}
{{- $_ := required "\n\ncdc.source is kafka: set kafka.bootstrapServers." .kafka.bootstrapServers -}}
{{- $_ := required "\n\ncdc.source is kafka: set kafka.topicPrefix, the connector's topic.prefix." .kafka.topicPrefix -}}
{{- end -}}
{{- if and (hasKey .settings "access_log") (not .accessLog.enabled) -}}
{{- fail "\n\nsettings.access_log is set, but accessLog.enabled is false: enable it." -}}
{{- end -}}
{{- if .kafka.connector.enabled -}}
{{- $_ := required "\n\nkafka.connector: set kafka.topicPrefix." .kafka.topicPrefix -}}
{{- range $key := list "cluster" "hostname" "user" "password" "tables" -}}
{{- if not (index $.Values.kafka.connector $key) -}}
{{- fail (printf "\n\nkafka.connector is enabled: set kafka.connector.%s." $key) -}}
{{- end -}}
{{- end -}}
{{- if eq .kafka.connector.database "postgresql" -}}
{{- $_ := required "\n\nkafka.connector.database is postgresql: set kafka.connector.databaseName." .kafka.connector.databaseName -}}
{{- else -}}
{{- $_ := required "\n\nkafka.connector.database is MariaDB or MySQL, whose schema history is stored in Kafka: set kafka.bootstrapServers." .kafka.bootstrapServers -}}
{{- end -}}
{{- end -}}
{{- if and .serviceMonitor.enabled (not .auth.openMetrics) (not .serviceMonitor.tokenSecret.name) -}}
{{- fail "\n\nThe ServiceMonitor has no token for /metrics. Set auth.openMetrics, or serviceMonitor.tokenSecret.name." -}}
{{- end -}}
{{- range .extraEnv -}}
{{- if hasPrefix "UPQUERY_" (upper .name) -}}
{{- fail (printf "\n\nextraEnv contains the setting %s, which belongs in settings; passwords belong in upstream.secret and cdc.secret." .name) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .accessLog.volume "hostPath" -}}
{{- fail "\n\naccessLog.volume must not be a hostPath, which restricted pods may not mount." -}}
{{- end -}}
{{- with .resources.limits.memory -}}
{{- $least := add (include "upquery.mebibytes" $.Values.memory | int) 256 -}}
{{- if lt (include "upquery.mebibytes" . | int) (int $least) -}}
{{- fail (printf "\n\nresources.limits.memory is too small: %s. With memory %s a pod needs at least %dMi, and %sMi is safe." . $.Values.memory $least (include "upquery.memory.limit" $)) -}}
{{- end -}}
{{- end -}}
{{- if lt (int .drain.gracePeriodSeconds) (add (int .drain.sleepSeconds) 22) -}}
{{- fail "\n\ndrain.gracePeriodSeconds is too short: processes may take 22 seconds to stop after drain.sleepSeconds, 10 of them for a checkpoint." -}}
{{- end -}}
{{- if eq (int .http.port) (int .admin.port) -}}
{{- fail "\n\nhttp.port and admin.port must differ." -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "\n\nautoscaling.minReplicas must be at most autoscaling.maxReplicas." -}}
{{- end -}}
{{- include "upquery.checks.gateway" $ -}}
{{- include "upquery.checks.jobs" $ -}}
{{- if and .ingress.enabled (not .ingress.hosts) -}}
{{- fail "\n\nThe Ingress has no hosts: set ingress.hosts." -}}
{{- end -}}
{{- if and .networkPolicy.enabled .networkPolicy.egress.enabled (not .networkPolicy.egress.upstreamPorts) (not .upstream.url) -}}
{{- fail "\n\nnetworkPolicy.egress cannot derive the database's port from a URL in a Secret: set networkPolicy.egress.upstreamPorts." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "upquery.checks.gateway" -}}
{{- with .Values -}}
{{- if gt (int .gateway.shards) (int .shards) -}}
{{- fail (printf "\n\ngateway.shards is %d: it must be at most shards, %d." (int .gateway.shards) (int .shards)) -}}
{{- end -}}
{{- if include "upquery.gateway" $ -}}
{{- if .autoscaling.enabled -}}
{{- fail "\n\nautoscaling is not supported behind a gateway, which needs a fixed number of replicas of each shard: set replicas.\nUse gateway.autoscaling for the gateway's own pods." -}}
{{- end -}}
{{- if or (lt (int .replicas) 1) (gt (int .replicas) 16) -}}
{{- fail (printf "\n\nreplicas is %d: behind a gateway it must be from 1 to 16." (int .replicas)) -}}
{{- end -}}
{{- if not (include "upquery.adminToken" $) -}}
{{- fail "\n\nThe gateway needs a token for the pods' admin ports. Set auth.adminToken.secret to a Secret with an administrator's token\nwhose hash is in the file of auth.existingSecret." -}}
{{- end -}}
{{- if and .gateway.autoscaling.enabled (gt (int .gateway.autoscaling.minReplicas) (int .gateway.autoscaling.maxReplicas)) -}}
{{- fail "\n\ngateway.autoscaling.minReplicas must be at most gateway.autoscaling.maxReplicas." -}}
{{- end -}}
{{- with .gateway.resources.limits.memory -}}
{{- if lt (include "upquery.mebibytes" . | int) (include "upquery.memory.gateway" $ | int) -}}
{{- fail (printf "\n\ngateway.resources.limits.memory is too small: %s. With %d workers the gateway needs %sMi." . (int $.Values.gateway.workers) (include "upquery.memory.gateway" $)) -}}
{{- end -}}
{{- end -}}
{{- else if .gateway.autoscaling.enabled -}}
{{- fail "\n\ngateway.autoscaling is enabled, but there is no gateway: set shards, or gateway.enabled." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "upquery.checks.jobs" -}}
{{- with .Values -}}
{{- if and (or .audit.enabled .workload.enabled) (not (include "upquery.adminToken" $)) -}}
{{- fail "\n\naudit and workload need a token for the admin port. Set auth.adminToken.secret to a Secret with an administrator's token." -}}
{{- end -}}
{{- if and .audit.enabled (lt (int .replicas) 1) (not .autoscaling.enabled) -}}
{{- fail "\n\naudit is enabled, but replicas is 0: there is no pod to audit." -}}
{{- end -}}
{{- if .workload.enabled -}}
{{- if not (and .accessLog.enabled .accessLog.volume) -}}
{{- fail "\n\nworkload needs the access log: set accessLog.enabled, and accessLog.volume to one that several pods can mount." -}}
{{- end -}}
{{- if not .workload.volume -}}
{{- fail "\n\nworkload needs a volume for its output: set workload.volume." -}}
{{- end -}}
{{- if hasKey .workload.volume "hostPath" -}}
{{- fail "\n\nworkload.volume must not be a hostPath, which restricted pods may not mount." -}}
{{- end -}}
{{- if and (eq .workload.kind "SparkApplication") (not .workload.image.repository) -}}
{{- fail "\n\nworkload.kind is SparkApplication, which needs another image than the service: set workload.image to one with Spark's entry point and Upquery." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
