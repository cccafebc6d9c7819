{{/* Names and labels. */}}

{{- define "upquery.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for what is put behind it: `-headless`, `-tokens`, a pod's number. */}}
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

{{/* What never changes: selectors are made of it. The component leaves room for other kinds of pods. */}}
{{- define "upquery.selector" -}}
app.kubernetes.io/name: {{ include "upquery.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: engine
{{- end -}}

{{- define "upquery.labels" -}}
{{ include "upquery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
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

{{/* The Secret with the file of tokens; nothing if there is none. */}}
{{- define "upquery.tokensSecret" -}}
{{- if .Values.auth.existingSecret -}}
{{- .Values.auth.existingSecret -}}
{{- else if not .Values.auth.jwt -}}
{{- printf "%s-tokens" (include "upquery.fullname" .) -}}
{{- end -}}
{{- end -}}
