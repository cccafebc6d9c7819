{{/* Parts of the pod: environment, mounts, volumes. */}}

{{- define "upquery.env" -}}
- name: HOME
  value: /tmp
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- range $section, $given := dict "UPSTREAM" .Values.upstream "CDC" .Values.cdc }}
{{- if and $given.secret.name (not $given.url) }}
- name: UPQUERY_{{ $section }}__URL
  valueFrom:
    secretKeyRef:
      name: {{ $given.secret.name }}
      key: {{ $given.secret.urlKey }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Secret's key as the file `password`: where it is mounted, and its volume. */}}
{{- define "upquery.passwords" -}}
{{- $found := dict -}}
{{- range $folder, $given := dict "upstream" .Values.upstream "cdc" .Values.cdc -}}
{{- if and $given.secret.name $given.url }}{{- $_ := set $found $folder $given.secret }}{{- end -}}
{{- end -}}
{{- if and (eq .Values.cdc.source "kafka") .Values.kafka.saslSecret.name }}{{- $_ := set $found "kafka" .Values.kafka.saslSecret }}{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "upquery.certificates" -}}
{{- $found := dict -}}
{{- if .Values.upstream.tlsSecret }}{{- $_ := set $found "upstream" .Values.upstream.tlsSecret }}{{- end -}}
{{- if and (eq .Values.cdc.source "kafka") .Values.kafka.tls.secret }}{{- $_ := set $found "kafka" .Values.kafka.tls.secret }}{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "upquery.mounts" -}}
- name: config
  mountPath: /etc/upquery/config
  readOnly: true
- name: run
  mountPath: /run/upquery
- name: state
  mountPath: /var/lib/upquery
- name: tmp
  mountPath: /tmp
{{- if include "upquery.tokensSecret" . }}
- name: tokens
  mountPath: /etc/upquery/tokens
  readOnly: true
{{- end }}
{{- range $folder, $_ := include "upquery.passwords" . | fromJson }}
- name: password-{{ $folder }}
  mountPath: /etc/upquery/secrets/{{ $folder }}
  readOnly: true
{{- end }}
{{- range $folder, $_ := include "upquery.certificates" . | fromJson }}
- name: tls-{{ $folder }}
  mountPath: /etc/upquery/tls/{{ $folder }}
  readOnly: true
{{- end }}
{{- if .Values.accessLog.enabled }}
- name: access-log
  mountPath: /var/log/upquery
  subPathExpr: $(POD_NAME)
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "upquery.volumes" -}}
- name: config
  configMap:
    name: {{ include "upquery.fullname" . }}
- name: run
  emptyDir:
    medium: Memory
    sizeLimit: {{ include "upquery.memory.volume" . }}Mi
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if not .Values.persistence.enabled }}
- name: state
  emptyDir:
    sizeLimit: 256Mi
{{- end }}
{{- with include "upquery.tokensSecret" . }}
- name: tokens
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - key: {{ $.Values.auth.tokensKey }}
        path: tokens.toml
{{- end }}
{{- range $folder, $secret := include "upquery.passwords" . | fromJson }}
- name: password-{{ $folder }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items:
      - key: {{ $secret.passwordKey }}
        path: password
{{- end }}
{{- range $folder, $secret := include "upquery.certificates" . | fromJson }}
- name: tls-{{ $folder }}
  secret:
    secretName: {{ $secret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.accessLog.enabled }}
- name: access-log
  {{- if .Values.accessLog.volume }}
  {{- toYaml .Values.accessLog.volume | nindent 2 }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.accessLog.sizeLimit }}
  {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "upquery.spread" -}}
{{- $selector := include "upquery.selector" . | fromYaml -}}
{{- $default := list -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- $default = append $default (dict "maxSkew" 1 "topologyKey" $key "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- end -}}
{{- $constraints := list -}}
{{- range default $default .Values.topologySpreadConstraints -}}
{{- $constraints = append $constraints (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
