{{/* Environment of a container: secrets by reference, and where the pod is. */}}
{{- define "neve.env" -}}
{{- $v := .root.Values }}
- {name: NEVE_CONFIG, value: /etc/neve/neve.yaml}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- if .spark }}
- name: NEVE_SPARK__CONF
  value: {{ include "neve.sparkConf" .root | quote }}
{{- end }}
{{- if eq .name "api" }}
- {name: NEVE_QUERY__SPARK_BYTES, value: "0"} # an API pod starts no Spark of its own
{{- end }}
{{- with $v.catalog.existingSecret }}
- {name: NEVE_CATALOG__PASSWORD, valueFrom: {secretKeyRef: {name: {{ . }}, key: password, optional: true}}}
- {name: NEVE_CATALOG__TOKEN, valueFrom: {secretKeyRef: {name: {{ . }}, key: token, optional: true}}}
- {name: NEVE_CATALOG__CREDENTIAL, valueFrom: {secretKeyRef: {name: {{ . }}, key: credential, optional: true}}}
{{- end }}
{{- with $v.state.existingSecret }}
- {name: NEVE_STATE__PASSWORD, valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}}
{{- end }}
{{- with $v.s3.existingSecret }}
- {name: NEVE_S3__ACCESS_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: accessKey}}}
- {name: NEVE_S3__SECRET_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: secretKey}}}
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "neve.mounts" -}}
- {name: config, mountPath: /etc/neve, readOnly: true}
- {name: temporary, mountPath: /tmp}
- {name: home, mountPath: /var/lib/neve}
{{- if .root.Values.tls.existingSecret }}
- {name: tls, mountPath: /etc/neve-tls, readOnly: true}
{{- end }}
{{- end -}}

{{/* Handler of a probe. The port for health checks has no TLS, and the kubelet has no client certificate. Takes root, port, path. */}}
{{- define "neve.probe" -}}
{{- $tls := .root.Values.tls -}}
{{- if or (not $tls.existingSecret) (eq (int .port) 9090) -}}
httpGet: {path: {{ .path }}, port: {{ int .port }}}
{{- else if and $tls.clientCa (eq (int .port) 4318) -}}
tcpSocket: {port: {{ int .port }}}
{{- else -}}
httpGet: {path: {{ .path }}, port: {{ int .port }}, scheme: HTTPS}
{{- end -}}
{{- end -}}

{{/* Pod of a role. Takes root, name, values, args, health (0: no probes), doors, spark,
     config, account, and optionally restart, initialize (create tables first) and keep (the home is a volume). */}}
{{- define "neve.pod" -}}
{{- $v := .root.Values -}}
metadata:
  labels:
    {{- include "neve.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
  annotations:
    checksum/config: {{ include "neve.configData" .root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ .account }}
  automountServiceAccountToken: {{ and .spark (eq $v.spark.mode "kubernetes") }}
  # Variables of services would begin with NEVE_ too, and unknown ones are rejected.
  enableServiceLinks: false
  {{- with .restart }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add $v.drainSeconds 15 }}
  securityContext:
    {{- include "neve.podSecurity" .root | nindent 4 }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .values.affinity }}
  affinity:
    {{- toYaml .values.affinity | nindent 4 }}
  {{- else }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "neve.selector" $.root | nindent 10 }}
          app.kubernetes.io/component: {{ $.name }}
    {{- end }}
  {{- end }}
  {{- if .initialize }}
  initContainers:
    - name: init
      image: {{ include "neve.image" .root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [init]
      workingDir: /var/lib/neve
      env:
        {{- include "neve.env" . | trim | nindent 8 }}
      securityContext:
        {{- include "neve.containerSecurity" .root | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        {{- include "neve.mounts" . | nindent 8 }}
  {{- end }}
  containers:
    - name: neve
      image: {{ include "neve.image" .root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: {{ toJson .args }}
      workingDir: /var/lib/neve
      env:
        {{- include "neve.env" . | trim | nindent 8 }}
      securityContext:
        {{- include "neve.containerSecurity" .root | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      {{- if .doors }}
      ports:
        {{- range $door, $port := .doors }}
        - {name: {{ $door }}, containerPort: {{ int $port }}, protocol: TCP}
        {{- end }}
      {{- end }}
      {{- if .health }}
      # Spark and a catalog that does not answer yet may take minutes at the start.
      {{- $live := include "neve.probe" (dict "root" .root "port" .health "path" "/livez") }}
      startupProbe: { {{- $live }}, periodSeconds: 5, failureThreshold: 60}
      livenessProbe: { {{- $live }}, periodSeconds: 10, failureThreshold: 6, timeoutSeconds: 5}
      readinessProbe: { {{- include "neve.probe" (dict "root" .root "port" .health "path" "/readyz") }}, periodSeconds: 5, timeoutSeconds: 5}
      # Endpoints are removed while the pod still answers.
      lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
      {{- end }}
      volumeMounts:
        {{- include "neve.mounts" . | nindent 8 }}
  volumes:
    - {name: config, configMap: {name: {{ .config }}}}
    {{- with $v.tls.existingSecret }}
    - {name: tls, secret: {secretName: {{ . }}, defaultMode: 288}} # 0440: the group of the pod reads it
    {{- end }}
    - {name: temporary, emptyDir: {sizeLimit: {{ $v.temporarySize }}}}
    {{- if not .keep }}
    - {name: home, emptyDir: {sizeLimit: {{ $v.temporarySize }}}}
    {{- end }}
{{- end -}}
