{{/* An autoscaler by CPU. `given`: its values; `kind` and `name`: the scaled object. */}}
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
