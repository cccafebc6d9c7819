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

{{/* Memory is requested as it is limited: what a pod holds cannot be taken back. */}}
{{- define "upquery.resources" -}}
{{- $memory := printf "%sMi" (include "upquery.memory.limit" .) -}}
{{- $limits := merge (deepCopy .Values.resources.limits) (dict "memory" $memory) -}}
{{- $requests := merge (deepCopy .Values.resources.requests) (dict "memory" $limits.memory) -}}
{{- toYaml (dict "limits" $limits "requests" $requests) -}}
{{- end -}}
