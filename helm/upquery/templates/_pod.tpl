{{/* Parts of pods: security, environment, mounts, volumes. */}}

{{/* Common fields of all pods. */}}
{{- define "upquery.pod" -}}
serviceAccountName: {{ include "upquery.serviceAccount" . }}
automountServiceAccountToken: false
# A Service named upquery would add UPQUERY_PORT and the like to the environment, which are not settings.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "upquery.pod.security" . | nindent 2 }}
{{- end -}}

{{- define "upquery.pod.security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "upquery.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{/* Ports, probes and termination of a serving container. */}}
{{- define "upquery.serving" -}}
ports:
  - name: http
    containerPort: {{ .Values.http.port }}
  - name: admin
    containerPort: {{ .Values.admin.port }}
{{- range $name, $path := dict "startup" "/livez" "liveness" "/livez" "readiness" "/readyz" }}
{{ $name }}Probe:
  httpGet:
    path: {{ $path }}
    port: admin
  {{- toYaml (index $.Values.probes $name) | nindent 2 }}
{{- end }}
{{- if .Values.drain.sleepSeconds }}
lifecycle:
  preStop:
    # SIGTERM closes the listener at once: no new connections may arrive by then.
    sleep:
      seconds: {{ .Values.drain.sleepSeconds }}
{{- end }}
{{- end -}}

{{/* Label of a pod that is one shard. */}}
{{- define "upquery.shard.label" -}}
{{- with .Shard }}upquery/shard: {{ . | quote }}{{ end -}}
{{- end -}}

{{/* Anti-affinity: replicas of a shard run on different nodes if possible. */}}
{{- define "upquery.affinity" -}}
{{- $default := dict -}}
{{- if .Shard -}}
{{- $selector := printf "%s\n%s" (include "upquery.selector" .) (include "upquery.shard.label" .) | fromYaml -}}
{{- $apart := list -}}
{{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 -}}
{{- $term := dict "topologyKey" $key "labelSelector" (dict "matchLabels" $selector) -}}
{{- $apart = append $apart (dict "weight" $weight "podAffinityTerm" $term) -}}
{{- end -}}
{{- $default = dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $apart) -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.affinity) $default) -}}
{{- end -}}

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
{{- with .Shard }}
- name: UPQUERY_SHARD__NUMBER
  value: {{ . | quote }}
- name: UPQUERY_SHARD__OF
  valueFrom:
    configMapKeyRef:
      # A change of the number does not restart this pod, which continues with the keys that it has.
      name: {{ include "upquery.fullname" $ }}-shards
      key: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Secret's key as the file `password`: its mount and its volume. */}}
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

{{- define "upquery.tokens.mount" -}}
{{- if include "upquery.tokensSecret" . -}}
- name: tokens
  mountPath: /etc/upquery/tokens
  readOnly: true
{{- end }}
{{- end -}}

{{- define "upquery.tokens.volume" -}}
{{- with include "upquery.tokensSecret" . -}}
- name: tokens
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - key: {{ $.Values.auth.tokensKey }}
        path: tokens.toml
{{- end }}
{{- end -}}

{{/* Passwords and certificates of connections. */}}
{{- define "upquery.login.mounts" -}}
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
{{- end -}}

{{- define "upquery.login.volumes" -}}
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
{{- with include "upquery.tokens.mount" . }}
{{ . }}
{{- end }}
{{- include "upquery.login.mounts" . }}
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
{{- with include "upquery.tokens.volume" . }}
{{ . }}
{{- end }}
{{- include "upquery.login.volumes" . }}
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

{{/* Spread over nodes and zones, or `given` constraints. */}}
{{- define "upquery.spread" -}}
{{- $selector := include "upquery.selector" .root | fromYaml -}}
{{- $default := list -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- $default = append $default (dict "maxSkew" 1 "topologyKey" $key "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- end -}}
{{- $constraints := list -}}
{{- range default $default .given -}}
{{- $constraints = append $constraints (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
