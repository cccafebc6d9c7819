{{/* Parts of network policies. */}}

{{/* Ingress: lists of peers by port. A rule without peers would admit everybody; without a rule, nobody is admitted. */}}
{{- define "upquery.ingress" -}}
{{- if or .http .admin }}
ingress:
  {{- range $port := list "admin" "http" }}
  {{- with index $ $port }}
  - ports:
      - port: {{ $port }}
        protocol: TCP
    from:
      {{- toYaml . | nindent 6 }}
  {{- end }}
  {{- end }}
{{- else }}
ingress: []
{{- end }}
{{- end -}}

{{- define "upquery.egress.dns" -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end -}}

{{/* Egress to these pods, by the pods' own port numbers. */}}
{{- define "upquery.egress.pods" -}}
- ports:
    {{- range .ports }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
  to:
    {{- range .components }}
    - {{ include "upquery.peer" (merge (dict "Component" .) $.root) | nindent 6 | trim }}
    {{- end }}
{{- end -}}

{{/* Pods of this release, by `Component`. */}}
{{- define "upquery.peer" -}}
podSelector:
  matchLabels:
    {{- include "upquery.selector" . | nindent 4 }}
{{- end -}}

{{/* Pods of jobs, if any are enabled. */}}
{{- define "upquery.jobs.peers" -}}
{{- if or .Values.audit.enabled .Values.workload.enabled -}}
- {{ include "upquery.peer" (merge (dict "Component" "job") .) | nindent 2 | trim }}
{{- end -}}
{{- end -}}
