{{- /* untested */ -}}
{{- define "nova-vp.ini" -}}
{{- range $section, $options := . }}
[{{ $section }}]
{{- range $name, $value := $options }}
{{- /* Helm reads whole numbers as floats. */}}
{{ $name }} = {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{ end }}
{{- end -}}

{{- define "nova-vp.labels" -}}
app.kubernetes.io/name: nova-vp
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end -}}

{{- /* Of what runs as nova-vp and needs no right at all. */ -}}
{{- define "nova-vp.noRights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "nova-vp.podSecurity" -}}
runAsNonRoot: true
runAsUser: 8779
runAsGroup: 8779
fsGroup: 8779
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* Jobs run before the rest, in the order of their weights, and what they read must be there before them. */ -}}
{{- define "nova-vp.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation
{{- end -}}
