{{/* What the schema cannot see: whether values fit together. */}}
{{- define "upquery.checks" -}}
{{- with .Values -}}
{{- if not (or .upstream.url .upstream.secret.name) -}}
{{- fail "\n\nNo upstream database. Set upstream.secret.name to a Secret with its URL (key upstream.secret.urlKey, \"url\"),\nor upstream.url, and upstream.secret.name to a Secret with the password." -}}
{{- end -}}
{{- range $where := list .upstream .cdc -}}
{{- if and $where.url (urlParse $where.url).userinfo (contains ":" (urlParse $where.url).userinfo) -}}
{{- fail "\n\nA URL with a password in it would be readable in the ConfigMap. Put the password into a Secret: upstream.secret, cdc.secret." -}}
{{- end -}}
{{- end -}}
{{- if eq .cdc.source "kafka" -}}
{{- $_ := required "\n\ncdc.source is kafka: set kafka.bootstrapServers." .kafka.bootstrapServers -}}
{{- $_ := required "\n\ncdc.source is kafka: set kafka.topicPrefix, the connector's topic.prefix." .kafka.topicPrefix -}}
{{- end -}}
{{- if and (hasKey .settings "access_log") (not .accessLog.enabled) -}}
{{- fail "\n\nsettings.access_log is set, but accessLog.enabled is false." -}}
{{- end -}}
{{- if .kafka.connector.enabled -}}
{{- $_ := required "\n\nkafka.connector: set kafka.topicPrefix." .kafka.topicPrefix -}}
{{- range $key := list "cluster" "hostname" "user" "password" "tables" -}}
{{- if not (index $.Values.kafka.connector $key) -}}
{{- fail (printf "\n\nkafka.connector is enabled: set kafka.connector.%s." $key) -}}
{{- end -}}
{{- end -}}
{{- if eq .kafka.connector.database "postgresql" -}}
{{- $_ := required "\n\nkafka.connector is of PostgreSQL: set kafka.connector.databaseName." .kafka.connector.databaseName -}}
{{- else -}}
{{- $_ := required "\n\nkafka.connector is of MariaDB or MySQL, whose schema history is kept in Kafka: set kafka.bootstrapServers." .kafka.bootstrapServers -}}
{{- end -}}
{{- end -}}
{{- if and .serviceMonitor.enabled (not .auth.openMetrics) (not .serviceMonitor.tokenSecret.name) -}}
{{- fail "\n\nThe ServiceMonitor has no token for /metrics. Set auth.openMetrics, or serviceMonitor.tokenSecret.name." -}}
{{- end -}}
{{- range .extraEnv -}}
{{- if hasPrefix "UPQUERY_" .name -}}
{{- fail (printf "\n\nextraEnv has %s, which is a setting: it belongs into settings, and passwords into upstream.secret and cdc.secret." .name) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .accessLog.volume "hostPath" -}}
{{- fail "\n\naccessLog.volume is a hostPath, which restricted pods may not have." -}}
{{- end -}}
{{- with .resources.limits.memory -}}
{{- $least := add (include "upquery.mebibytes" $.Values.memory | int) 256 -}}
{{- if lt (include "upquery.mebibytes" . | int) (int $least) -}}
{{- fail (printf "\n\nresources.limits.memory is %s: with memory %s a pod needs at least %dMi, and safely %sMi." . $.Values.memory $least (include "upquery.memory.limit" $)) -}}
{{- end -}}
{{- end -}}
{{- if lt (int .drain.gracePeriodSeconds) (add (int .drain.sleepSeconds) 12) -}}
{{- fail "\n\ndrain.gracePeriodSeconds is too short: processes may take 12 seconds to stop after drain.sleepSeconds." -}}
{{- end -}}
{{- if eq (int .http.port) (int .admin.port) -}}
{{- fail "\n\nhttp.port and admin.port are the same." -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "\n\nautoscaling.minReplicas is more than autoscaling.maxReplicas." -}}
{{- end -}}
{{- if and .ingress.enabled (not .ingress.hosts) -}}
{{- fail "\n\nThe Ingress has no hosts: set ingress.hosts." -}}
{{- end -}}
{{- if and .networkPolicy.enabled .networkPolicy.egress.enabled (not .networkPolicy.egress.upstreamPorts) (not .upstream.url) -}}
{{- fail "\n\nnetworkPolicy.egress is enabled, and the database's URL is in a Secret: set networkPolicy.egress.upstreamPorts." -}}
{{- end -}}
{{- end -}}
{{- end -}}
