{{/* TOML. Numbers of values are floating point in Helm: whole ones are written without a fraction or an exponent. */}}

{{- define "upquery.toml.value" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ toJson . }}{{ end -}}
{{- else if kindIs "string" . -}}
{{- /* A text that needs no escapes is written on several lines. */ -}}
{{- if and (contains "\n" .) (not (contains "'''" .)) (regexMatch "^[\\t\\n -~\\x{a1}-\\x{2027}\\x{202a}-\\x{d7ff}]*$" .) -}}
'''
{{ trimSuffix "\n" . }}
'''
{{- else -}}
{{- /* Strings of JSON are strings of TOML, except DEL; YAML would read the others as line breaks, or as a byte order mark. */ -}}
{{- toRawJson . | replace "\u007f" "\\u007f" | replace "\u0085" "\\u0085" | replace "\ufeff" "\\ufeff" -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
[{{ range $at, $item := . }}{{ if $at }}, {{ end }}{{ include "upquery.toml.value" $item }}{{ end }}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The keys of a table, then the tables in it. `name` is its name, `keys` its contents. */}}
{{- define "upquery.toml.table" -}}
{{- $name := .name -}}
{{- range $key, $value := .keys }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $key }} = {{ include "upquery.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .keys }}
{{- if kindIs "map" $value }}

[{{ $name }}.{{ $key }}]
{{- include "upquery.toml.table" (dict "name" (printf "%s.%s" $name $key) "keys" $value) }}
{{- end }}
{{- end }}
{{- end -}}
