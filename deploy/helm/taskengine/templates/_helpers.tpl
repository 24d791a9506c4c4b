{{- define "taskengine.name" -}}
{{- if contains "taskengine" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-taskengine" (.Release.Name | trunc 39 | trimSuffix "-") }}{{ end -}}
{{- end }}

{{- define "taskengine.selector" -}}
app.kubernetes.io/name: taskengine
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "taskengine.labels" -}}
{{ include "taskengine.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "taskengine.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The seconds of a duration of taskengine.yaml, such as 1m30s, rounded up. */ -}}
{{- define "taskengine.seconds" -}}
{{- $units := dict "ns" 1e-9 "us" 1e-6 "ms" 1e-3 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 "w" 604800.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" (toString .) -1 -}}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- ceil $sum | int -}}
{{- end }}

{{- /* How long a node may take to stop: it waits for its tasks, then for the cancelled ones, and closes its parts. */ -}}
{{- define "taskengine.stopSeconds" -}}
{{- $grace := 10 -}}
{{- range .Values.config.types -}}
{{- $grace = max $grace (include "taskengine.seconds" (((. | default dict).timeout | default dict).grace | default "0s") | int) -}}
{{- end -}}
{{- add (include "taskengine.seconds" ((.Values.config.node | default dict).drain_timeout | default "30s")) $grace 15 -}}
{{- end }}

{{- /* The file taskengine.yaml. */ -}}
{{- define "taskengine.config" -}}
{{- $storage := dict "driver" .Values.storage.driver -}}
{{- $api := dict "listen" ":7420" -}}
{{- $admin := dict "listen" ":7421" -}}
{{- $own := dict "storage" $storage "api" $api "admin" $admin -}}
{{- if eq .Values.storage.driver "postgres" -}}
{{- $_ := set $storage "url" "${file:/run/secrets/taskengine/database/url}" -}}
{{- $_ := set $own "task_log" (dict "keep" "store") -}}
{{- $_ := set $api "advertise" "${TASKENGINE_ADVERTISE}" -}}
{{- else -}}
{{- $_ := set $storage "path" "/var/lib/taskengine/data" -}}
{{- end -}}
{{- if .Values.tokens.secret -}}
{{- $_ := set $api "tokens" "/run/secrets/taskengine/tokens/tokens.json" -}}
{{- end -}}
{{- if .Values.tls.secret -}}
{{- $tls := "/run/secrets/taskengine/tls/" -}}
{{- $pair := dict "cert" (print $tls "tls.crt") "key" (print $tls "tls.key") -}}
{{- $_ := set $api "tls" (deepCopy $pair) -}}
{{- $peer := dict "ca" (ternary (print $tls "ca.crt") "system" (or .Values.tls.ca .Values.tls.clientCA)) "server_name" (.Values.tls.serverName | default (printf "%s.%s.svc" (include "taskengine.name" .) .Release.Namespace)) -}}
{{- if .Values.tls.clientCA -}}
{{- $_ := set $api.tls "client_ca" (print $tls "ca.crt") -}}
{{- $peer = merge $peer $pair -}}
{{- end -}}
{{- if eq .Values.storage.driver "postgres" -}}
{{- $_ := set $api "peer_tls" $peer -}}
{{- end -}}
{{- if .Values.tls.admin -}}
{{- $_ := set $admin "tls" (deepCopy $pair) -}}
{{- end -}}
{{- end -}}
{{- if .Values.keda.enabled -}}
{{- $_ := set $admin "scaler" true -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end }}
