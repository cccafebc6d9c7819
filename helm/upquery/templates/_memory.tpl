{{/* Memory of pods, in MiB. */}}

{{/* MiB of a quantity such as "512Mi" or "2Gi". */}}
{{- define "upquery.mebibytes" -}}
{{- if hasSuffix "Gi" . -}}
{{- mul (trimSuffix "Gi" . | int) 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int -}}
{{- end -}}
{{- end -}}

{{/* Limit of the leaf store's volume: freed pages stay in the file, so it may be larger than the memory counted. */}}
{{- define "upquery.memory.volume" -}}
{{- add (div (mul (include "upquery.mebibytes" .Values.memory | int) 3) 2) 64 -}}
{{- end -}}

{{/* The container's limit: the budget and a quarter (docs/memory.md, "The margin"), the empty supervisor and engine, and for
     each worker its process, its requests and its subscriptions. */}}
{{- define "upquery.memory.limit" -}}
{{- $budget := include "upquery.mebibytes" .Values.memory | int -}}
{{- $worker := add 160 (include "upquery.mebibytes" .Values.subscriptionMemory | int) -}}
{{- add (div (mul $budget 5) 4) 256 (mul (int .Values.workers) $worker) -}}
{{- end -}}

{{/* Memory of a gateway, which stores nothing: the supervisor, and for each worker its process and its requests. */}}
{{- define "upquery.memory.gateway" -}}
{{- add 128 (mul (int .Values.gateway.workers) 192) -}}
{{- end -}}

{{/* Java's heap, Java itself, and the part of the log in the report's own process. */}}
{{- define "upquery.memory.workload" -}}
{{- add (div (mul (include "upquery.mebibytes" .Values.workload.heap | int) 5) 4) 1024 -}}
{{- end -}}

{{- define "upquery.resources" -}}
{{- include "upquery.resources.of" (dict "given" .Values.resources "mebibytes" (include "upquery.memory.limit" .)) -}}
{{- end -}}

{{/* Requests equal limits: memory in use cannot be reclaimed. */}}
{{- define "upquery.resources.of" -}}
{{- $limits := merge (deepCopy .given.limits) (dict "memory" (printf "%sMi" .mebibytes)) -}}
{{- $requests := merge (deepCopy .given.requests) (dict "memory" $limits.memory) -}}
{{- toYaml (dict "limits" $limits "requests" $requests) -}}
{{- end -}}
