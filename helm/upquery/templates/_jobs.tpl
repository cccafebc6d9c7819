{{/* Jobs, which run in pods of their own: `Component` is job. */}}

{{/* Address of the service, and a token for it. `url` is its admin API. */}}
{{- define "upquery.job.env" -}}
- name: HOME
  value: /tmp
- name: UPQUERY_ADMIN_URL
  value: {{ .url | quote }}
{{- with include "upquery.adminToken" .root | fromJson }}
- name: UPQUERY_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- end -}}

{{/* Fields of a CronJob, from `given` values. */}}
{{- define "upquery.cron" -}}
schedule: {{ .schedule | quote }}
{{- with .timeZone }}
timeZone: {{ . | quote }}
{{- end }}
concurrencyPolicy: Forbid
startingDeadlineSeconds: 3600
successfulJobsHistoryLimit: 1
failedJobsHistoryLimit: 3
{{- end -}}

{{/* The image of models: workload.image, or the service's. */}}
{{- define "upquery.workload.image" -}}
{{- $given := .Values.workload.image -}}
{{- include "upquery.image" (dict "Chart" .Chart "Values" (dict "image" (ternary $given .Values.image (ne $given.repository "")))) -}}
{{- end -}}

{{/* The arguments of `upquery`. */}}
{{- define "upquery.workload.arguments" -}}
- workload
- report
- --json
- --log
- /var/log/upquery
- --out
- /var/lib/upquery/workload
- --service
- {{ include "upquery.adminUrl" . }}
{{- with .Values.workload.arguments }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "upquery.workload.mounts" -}}
- name: access-log
  mountPath: /var/log/upquery
  readOnly: true
- name: report
  mountPath: /var/lib/upquery/workload
{{- end -}}

{{- define "upquery.workload.volumes" -}}
- name: access-log
  {{- toYaml .Values.accessLog.volume | nindent 2 }}
- name: report
  {{- toYaml .Values.workload.volume | nindent 2 }}
{{- end -}}

{{/* A Job's specification: Spark in one pod. */}}
{{- define "upquery.workload.job" -}}
backoffLimit: 1
ttlSecondsAfterFinished: 604800
template:
  metadata:
    labels:
      {{- include "upquery.selector" . | nindent 6 }}
  spec:
    {{- include "upquery.pod" . | nindent 4 }}
    restartPolicy: Never
    {{- with .Values.nodeSelector }}
    nodeSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - name: workload
        image: {{ include "upquery.workload.image" . | quote }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        args:
          {{- include "upquery.workload.arguments" . | nindent 10 }}
          - --memory
          - {{ include "upquery.mebibytes" .Values.workload.heap }}m
        env:
          {{- include "upquery.job.env" (dict "root" . "url" (include "upquery.adminUrl" .)) | nindent 10 }}
        resources:
          {{- include "upquery.resources.of" (dict "given" .Values.workload.resources "mebibytes" (include "upquery.memory.workload" .)) | nindent 10 }}
        {{- include "upquery.container.security" . | nindent 8 }}
        volumeMounts:
          {{- include "upquery.workload.mounts" . | nindent 10 }}
          - name: tmp
            mountPath: /tmp
    volumes:
      {{- include "upquery.workload.volumes" . | nindent 6 }}
      # Spark's temporary files.
      - name: tmp
        emptyDir:
          sizeLimit: {{ .Values.workload.scratchSize }}
{{- end -}}
