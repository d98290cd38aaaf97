{{/* Sets what controller and agent have in common.  dict "root" $ "values" .Values.agent "template" spec.template */}}
{{- define "elastic-gpu.pod" -}}
{{- $values := .values -}}
{{- $spec := .template.spec -}}
{{- $container := index $spec.containers 0 -}}
{{- $_ := set $container "image" (include "elastic-gpu.image" .root) -}}
{{- with .root.Values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- if .root.Values.image.pullSecrets -}}
{{- $secrets := list -}}
{{- range .root.Values.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- $_ := set $spec "imagePullSecrets" $secrets -}}
{{- end -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- $_ := set $container "args" (concat $container.args $values.extraArgs) -}}
{{- with $values.extraEnv }}{{ $_ := set $container "env" (concat ($container.env | default list) .) }}{{ end -}}
{{- with $values.extraVolumeMounts }}{{ $_ := set $container "volumeMounts" (concat ($container.volumeMounts | default list) .) }}{{ end -}}
{{- with $values.extraVolumes }}{{ $_ := set $spec "volumes" (concat ($spec.volumes | default list) .) }}{{ end -}}
{{- $_ := set $spec "priorityClassName" (ternary .root.Values.priorityClass.name $values.priorityClassName .root.Values.priorityClass.create) -}}
{{- if $values.hostNetwork }}{{ $_ := set $spec "hostNetwork" true }}{{ $_ := set $spec "dnsPolicy" "ClusterFirstWithHostNet" }}{{ end -}}
{{- if $values.nodeSelector }}{{ $_ := set $spec "nodeSelector" $values.nodeSelector }}{{ else }}{{ $_ := unset $spec "nodeSelector" }}{{ end -}}
{{- if $values.tolerations }}{{ $_ := set $spec "tolerations" $values.tolerations }}{{ else }}{{ $_ := unset $spec "tolerations" }}{{ end -}}
{{- with $values.affinity }}{{ $_ := set $spec "affinity" . }}{{ end -}}
{{- $_ := set .template.metadata "labels" (merge (dict) .template.metadata.labels $values.podLabels) -}}
{{- with $values.podAnnotations }}{{ $_ := set $.template.metadata "annotations" . }}{{ end -}}
{{- end -}}
