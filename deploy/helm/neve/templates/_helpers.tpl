{{- define "neve.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that never change: selectors use them. */}}
{{- define "neve.selector" -}}
app.kubernetes.io/name: neve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "neve.labels" -}}
{{ include "neve.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "neve.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The profile "restricted" of Pod Security Admission. */}}
{{- define "neve.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "neve.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Parts and doors of each role. "health" is the port for probes and metrics, "spark" says that it may start Spark. */}}
{{- define "neve.roles" -}}
receiver: {parts: receiver, health: 4318, spark: false, kind: Deployment}
api: {parts: api, health: 8480, spark: false, kind: Deployment}
ingest: {parts: ingest, health: 9090, spark: true, kind: Deployment}
tend: {parts: "scheduler,compact,rollup,search,series,traces", health: 9090, spark: true, kind: Deployment}
tail: {parts: tail, health: 9090, spark: true, kind: Deployment}
rules: {parts: rules, health: 9090, spark: false, kind: Deployment}
sweeper: {parts: maintain, health: 9090, spark: true, kind: StatefulSet}
{{- end -}}

{{/* neve.yaml. Secrets come from the environment, and so does spark.conf, which has the address of the pod. */}}
{{- define "neve.config" -}}
{{- $v := .Values -}}
{{- $single := eq $v.mode "single" -}}
{{- $home := "/var/lib/neve" -}}
{{- $warehouse := default (printf "%s/lake/warehouse" $home) $v.lake.warehouse -}}
{{- $lake := dict "warehouse" $warehouse -}}
{{- if $v.lake.exchange -}}{{- $_ := set $lake "exchange" $v.lake.exchange -}}
{{- else if hasPrefix "s3://" $warehouse -}}{{- $_ := set $lake "exchange" (printf "%s-exchange" (trimSuffix "/" $warehouse)) -}}{{- end -}}
{{- $catalog := dict "kind" $v.catalog.kind -}}
{{- range $key := list "uri" "user" "warehouse" -}}
{{- with index $v.catalog $key -}}{{- $_ := set $catalog $key . -}}{{- end -}}
{{- end -}}
{{- $state := dict -}}
{{- with $v.state.url -}}{{- $_ := set $state "url" . -}}{{- end -}}
{{- with $v.state.user -}}{{- $_ := set $state "user" . -}}{{- end -}}
{{- $s3 := dict "region" $v.s3.region "path_style" $v.s3.pathStyle -}}
{{- with $v.s3.endpoint -}}{{- $_ := set $s3 "endpoint" . -}}{{- end -}}
{{- $spark := dict "driver_memory" $v.spark.driverMemory "log_file" "" -}}
{{- $mode := $v.spark.mode -}}
{{- if eq $mode "kubernetes" -}}{{- $_ := set $spark "master" "k8s://https://kubernetes.default.svc:443" -}}
{{- else if eq $mode "cluster" -}}{{- $_ := set $spark "master" $v.spark.master -}}
{{- else if eq $mode "connect" -}}{{- $_ := set $spark "connect" $v.spark.connect -}}{{- end -}}
{{- $query := dict "host" "0.0.0.0" "auth" "keys" -}}
{{- if and $v.ingress.enabled $v.ingress.host -}}
{{- $_ := set $query "origin" (printf "%s://%s" (ternary "https" "http" (ne $v.ingress.tlsSecret "")) $v.ingress.host) -}}
{{- end -}}
{{- $receiver := dict "host" "0.0.0.0" "auth" "keys" -}}
{{- if $v.tls.existingSecret -}}
{{- $pair := dict "certificate" "/etc/neve-tls/tls.crt" "key" "/etc/neve-tls/tls.key" -}}
{{- $_ := set $query "tls" $pair -}}
{{- $_ := set $receiver "tls" (ternary (merge (dict "client_ca" "/etc/neve-tls/ca.crt") $pair) $pair $v.tls.clientCa) -}}
{{- else if $v.tls.clientCa -}}{{- fail "tls.clientCa needs tls.existingSecret" -}}
{{- end -}}
{{- $config := dict "organization" $v.organization "lake" $lake "catalog" $catalog "state" $state "s3" $s3 "spark" $spark "query" $query -}}
{{- $_ := set $config "raw" (dict "location" (default (printf "%s/lake/raw" $home) $v.raw.location)) -}}
{{- $_ := set $config "receiver" $receiver -}}
{{- $_ := set $config "serve" (dict "host" "0.0.0.0" "drain_seconds" $v.drainSeconds) -}}
{{- $_ := set $config "ingest" (dict "checkpoints" (printf "%s/checkpoints" $home)) -}}
{{- $given := omit (deepCopy $v.config) "spark" -}}
{{- if hasKey $v.config "spark" -}}{{- $_ := set $given "spark" (omit $v.config.spark "conf") -}}{{- end -}}
{{- toYaml (mergeOverwrite $config $given) -}}
{{- end -}}

{{/* spark.conf as JSON. $(POD_IP) and $(POD_NAME) are filled in by the kubelet. */}}
{{- define "neve.sparkConf" -}}
{{- $v := .Values -}}
{{- $conf := dict -}}
{{- if eq $v.spark.mode "kubernetes" -}}
{{- $conf = dict
  "spark.driver.host" "$(POD_IP)"
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.port" "7078"
  "spark.driver.blockManager.port" "7079"
  "spark.kubernetes.driver.pod.name" "$(POD_NAME)"
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "neve.image" .)
  "spark.kubernetes.container.image.pullPolicy" $v.image.pullPolicy
  "spark.kubernetes.authenticate.executor.serviceAccountName" (printf "%s-executor" (include "neve.name" .))
  "spark.kubernetes.executor.podTemplateFile" "/etc/neve/executor.yaml"
  "spark.executor.instances" (toString $v.spark.executors)
  "spark.executor.cores" (toString $v.spark.executorCores)
  "spark.executor.memory" $v.spark.executorMemory
  "spark.executor.memoryOverhead" $v.spark.executorOverhead
  "spark.default.parallelism" (toString (mul $v.spark.executors $v.spark.executorCores))
  "spark.decommission.enabled" "true" -}}
{{- with $v.image.pullSecrets -}}{{- $_ := set $conf "spark.kubernetes.container.image.pullSecrets" (join "," .) -}}{{- end -}}
{{- end -}}
{{- $conf = merge (deepCopy $v.spark.conf) $conf -}}
{{- if hasKey $v.config "spark" -}}{{- $conf = merge (deepCopy (default dict $v.config.spark.conf)) $conf -}}{{- end -}}
{{- toJson $conf -}}
{{- end -}}
