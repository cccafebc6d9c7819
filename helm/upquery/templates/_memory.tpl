{{/* How much memory a pod has, in MiB. */}}

{{/* "512Mi" or "2Gi". */}}
{{- define "upquery.mebibytes" -}}
{{- if hasSuffix "Gi" . -}}
{{- mul (trimSuffix "Gi" . | int) 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int -}}
{{- end -}}
{{- end -}}

{{/* The most that the leaf store's volume may have: pages that were freed stay in it, so it may be larger than what is counted. */}}
{{- define "upquery.memory.volume" -}}
{{- add (div (mul (include "upquery.mebibytes" .Values.memory | int) 3) 2) 64 -}}
{{- end -}}

{{/* The container's limit: the budget and a quarter (docs/memory.md, "The margin"), the supervisor and the engine without anything
     in them, and for each worker its process, what it has in hand and its subscriptions. */}}
{{- define "upquery.memory.limit" -}}
{{- $budget := include "upquery.mebibytes" .Values.memory | int -}}
{{- $worker := add 160 (include "upquery.mebibytes" .Values.subscriptionMemory | int) -}}
{{- add (div (mul $budget 5) 4) 256 (mul (int .Values.workers) $worker) -}}
{{- end -}}

{{/* A gateway keeps nothing: the supervisor, and for each worker its process and what it has in hand. */}}
{{- define "upquery.memory.gateway" -}}
{{- add 128 (mul (int .Values.gateway.workers) 192) -}}
{{- end -}}

{{/* Java's heap, Java itself, and what the report's own process has of the log. */}}
{{- define "upquery.memory.workload" -}}
{{- add (div (mul (include "upquery.mebibytes" .Values.workload.heap | int) 5) 4) 1024 -}}
{{- end -}}

{{- define "upquery.resources" -}}
{{- include "upquery.resources.of" (dict "given" .Values.resources "mebibytes" (include "upquery.memory.limit" .)) -}}
{{- end -}}

{{/* Memory is requested as it is limited: what a pod holds cannot be taken back. */}}
{{- define "upquery.resources.of" -}}
{{- $limits := merge (deepCopy .given.limits) (dict "memory" (printf "%sMi" .mebibytes)) -}}
{{- $requests := merge (deepCopy .given.requests) (dict "memory" $limits.memory) -}}
{{- toYaml (dict "limits" $limits "requests" $requests) -}}
{{- end -}}
