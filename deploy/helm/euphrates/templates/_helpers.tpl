{{- define "euphrates.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "euphrates.labels" -}}
app.kubernetes.io/name: euphrates
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "euphrates.selector" -}}
app.kubernetes.io/name: euphrates
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "euphrates.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "euphrates.secret" -}}
{{ .Values.token.existingSecret | default (printf "%s-token" (include "euphrates.name" .)) }}
{{- end -}}

{{- define "euphrates.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "euphrates.container" -}}
image: {{ include "euphrates.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .Values.environmentSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- end -}}

{{- define "euphrates.mounts" -}}
- {name: token, mountPath: /token, readOnly: true}
- {name: home, mountPath: /home/euphrates}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "euphrates.volumes" -}}
- name: token
  secret: {secretName: {{ include "euphrates.secret" . }}, defaultMode: 0440}
- {name: home, emptyDir: {}}
- {name: tmp, emptyDir: {}}
{{- if .Values.data.existingClaim }}
- name: data
  persistentVolumeClaim: {claimName: {{ .Values.data.existingClaim }}}
{{- else }}
- {name: data, emptyDir: {}}
{{- end }}
{{- end -}}
