{{/* Names and labels. */}}

{{- define "upquery.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the release, short enough for suffixes: `-headless`, `-tokens`, a pod's number. */}}
{{- define "upquery.fullname" -}}
{{- $name := include "upquery.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of selectors, which never change. `Component` is the kind of pods: engine (the default), gateway, job. */}}
{{- define "upquery.selector" -}}
app.kubernetes.io/name: {{ include "upquery.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ default "engine" .Component }}
{{- end -}}

{{- define "upquery.labels" -}}
{{ include "upquery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Non-empty if there is a gateway. */}}
{{- define "upquery.gateway" -}}
{{- if or .Values.gateway.enabled (gt (int .Values.shards) 1) }}yes{{ end -}}
{{- end -}}

{{/* Number of shards that are read: all, unless some are about to be removed. */}}
{{- define "upquery.shards.read" -}}
{{- default .Values.shards .Values.gateway.shards | int -}}
{{- end -}}

{{/* Name of the StatefulSet: with a gateway there is one for each shard, `Shard` is its number as text. */}}
{{- define "upquery.statefulset.name" -}}
{{- include "upquery.fullname" . }}{{ with .Shard }}-{{ . }}{{ end -}}
{{- end -}}

{{/* Non-empty if a pod that stops leaves its replication slot to the one that replaces it, which must be sure to come. */}}
{{- define "upquery.leavesSlots" -}}
{{- $others := regexMatch "^(mysql|mariadb)" .Values.upstream.url -}}
{{- if and .Values.persistence.enabled (not .Values.autoscaling.enabled) (eq .Values.cdc.source "direct") (not $others) }}yes{{ end -}}
{{- end -}}

{{/* `Component` of the pods that serve requests: the gateway's, or the engines'. */}}
{{- define "upquery.front" -}}
{{- if include "upquery.gateway" . }}gateway{{ else }}engine{{ end -}}
{{- end -}}

{{/* The admin API of the whole service. */}}
{{- define "upquery.adminUrl" -}}
{{- printf "http://%s-admin:%d" (include "upquery.fullname" .) (int .Values.admin.servicePort) -}}
{{- end -}}

{{- define "upquery.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "upquery.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "upquery.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The Secret with an administrator's token; empty if there is none. */}}
{{- define "upquery.adminToken" -}}
{{- if .Values.auth.adminToken.secret -}}
{{- toJson .Values.auth.adminToken -}}
{{- else if and (not .Values.auth.existingSecret) (include "upquery.tokensSecret" .) -}}
{{- dict "secret" (include "upquery.tokensSecret" .) "key" "admin-token" | toJson -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the file of tokens; empty if there is none. */}}
{{- define "upquery.tokensSecret" -}}
{{- if .Values.auth.existingSecret -}}
{{- .Values.auth.existingSecret -}}
{{- else if not .Values.auth.jwt -}}
{{- printf "%s-tokens" (include "upquery.fullname" .) -}}
{{- end -}}
{{- end -}}
