{{/* Pods in number as their processors are used. `given` are the values, `kind` and `name` what is scaled. */}}
{{- define "upquery.autoscaler" -}}
scaleTargetRef:
  apiVersion: apps/v1
  kind: {{ .kind }}
  name: {{ .name }}
minReplicas: {{ .given.minReplicas }}
maxReplicas: {{ .given.maxReplicas }}
metrics:
  - type: Resource
    resource:
      name: cpu
      target:
        type: Utilization
        averageUtilization: {{ .given.targetCPUUtilizationPercentage }}
behavior:
  scaleDown:
    stabilizationWindowSeconds: {{ .given.scaleDownSeconds }}
    policies:
      - type: Pods
        value: 1
        periodSeconds: 60
{{- end -}}
