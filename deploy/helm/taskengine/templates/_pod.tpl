{{- define "taskengine.pod" -}}
{{- $postgres := eq .Values.storage.driver "postgres" -}}
metadata:
  labels:
    {{- include "taskengine.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    taskengine/config: {{ include "taskengine.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # node.drain_timeout, the longest timeout.grace of the types, and 15 s to close the store.
  terminationGracePeriodSeconds: {{ include "taskengine.stopSeconds" . }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- if and $postgres .Values.database.migrate }}
  initContainers:
    - name: migrate
      image: {{ include "taskengine.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [migrate, apply, --config, /etc/taskengine/taskengine.yaml]
      {{- include "taskengine.container" . | trim | nindent 6 }}
  {{- end }}
  containers:
    - name: taskengine
      image: {{ include "taskengine.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, --config, /etc/taskengine/taskengine.yaml]
      ports:
        - name: api
          containerPort: 7420
        - name: admin
          containerPort: 7421
      livenessProbe:
        httpGet: {path: /livez, port: admin, scheme: {{ include "taskengine.adminScheme" . | upper }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: admin, scheme: {{ include "taskengine.adminScheme" . | upper }}}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      {{- include "taskengine.container" . | trim | nindent 6 }}
  volumes:
    - name: config
      configMap:
        name: {{ include "taskengine.name" . }}
    - name: tmp
      emptyDir: {}
    {{- with .Values.tokens }}
    {{- if .secret }}
    - name: tokens
      secret:
        secretName: {{ .secret }}
        items:
          - {key: {{ .key }}, path: tokens.json}
    {{- end }}
    {{- end }}
    {{- if $postgres }}
    - name: database
      secret:
        secretName: {{ .Values.database.secret }}
        items:
          - {key: {{ .Values.database.key }}, path: url}
    {{- end }}
    {{- with .Values.tls.secret }}
    - name: tls
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "taskengine.adminScheme" -}}
{{- if and .Values.tls.secret .Values.tls.admin }}https{{ else }}http{{ end -}}
{{- end }}

{{- /* The parts of a container that the node and the migration have in common. */ -}}
{{- define "taskengine.container" -}}
{{- $postgres := eq .Values.storage.driver "postgres" -}}
{{- if or $postgres .Values.env }}
env:
  {{- if $postgres }}
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  - name: TASKENGINE_ADVERTISE
    value: "[$(POD_IP)]:7420" # the brackets are for IPv6; the node removes those around IPv4
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - {name: config, mountPath: /etc/taskengine, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if not $postgres }}
  - {name: data, mountPath: /var/lib/taskengine}
  {{- end }}
  {{- if .Values.tokens.secret }}
  - {name: tokens, mountPath: /run/secrets/taskengine/tokens, readOnly: true}
  {{- end }}
  {{- if $postgres }}
  - {name: database, mountPath: /run/secrets/taskengine/database, readOnly: true}
  {{- end }}
  {{- if .Values.tls.secret }}
  - {name: tls, mountPath: /run/secrets/taskengine/tls, readOnly: true}
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
