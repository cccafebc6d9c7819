{{/* The pods with engines: with a gateway, those of one shard, whose number is `Shard`. */}}
{{- define "upquery.statefulset" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ include "upquery.statefulset.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "upquery.labels" . | nindent 4 }}
    {{- include "upquery.shard.label" . | nindent 4 }}
spec:
  {{- if not .Values.autoscaling.enabled }}
  replicas: {{ .Values.replicas }}
  {{- end }}
  serviceName: {{ include "upquery.fullname" . }}-headless
  # Pods are independent of each other.
  podManagementPolicy: Parallel
  updateStrategy:
    type: RollingUpdate
  selector:
    matchLabels:
      {{- include "upquery.selector" . | nindent 6 }}
      {{- include "upquery.shard.label" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "upquery.selector" . | nindent 8 }}
        {{- include "upquery.shard.label" . | nindent 8 }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        # Settings and views are read at the start only; a changed file of tokens is read again.
        checksum/settings: {{ include "upquery.toml" . | sha256sum }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "upquery.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .Values.drain.gracePeriodSeconds }}
      topologySpreadConstraints:
        {{- include "upquery.spread" (dict "root" . "given" .Values.topologySpreadConstraints) | nindent 8 }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "upquery.affinity" . | fromYaml }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: upquery
          image: {{ include "upquery.image" . | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: [serve, --json, --config, /etc/upquery/config/upquery.toml]
          env:
            {{- include "upquery.env" . | nindent 12 }}
          {{- include "upquery.serving" . | nindent 10 }}
          resources:
            {{- include "upquery.resources" . | nindent 12 }}
          {{- include "upquery.container.security" . | nindent 10 }}
          volumeMounts:
            {{- include "upquery.mounts" . | nindent 12 }}
      volumes:
        {{- include "upquery.volumes" . | nindent 8 }}
  {{- if .Values.persistence.enabled }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: {{ .Values.persistence.whenDeleted }}
    whenScaled: Delete
  volumeClaimTemplates:
    # Immutable: upgrades must not change it, not even labels of the version.
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: state
        labels:
          {{- include "upquery.selector" . | nindent 10 }}
      spec:
        accessModes:
          {{- toYaml .Values.persistence.accessModes | nindent 10 }}
        {{- with .Values.persistence.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .Values.persistence.size }}
  {{- end }}
{{- end -}}
