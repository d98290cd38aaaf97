{{/* The objects of a copied file.  dict "root" $ "file" "crd/x.yaml" → {"items": [...]} as YAML */}}
{{- define "elastic-gpu.read" -}}
{{- $items := list -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) -}}
{{- if not $text }}{{ fail (printf "the chart lacks files/%s" .file) }}{{ end -}}
{{- range splitList "\n---\n" $text -}}
{{- $items = append $items (fromYaml .) -}}
{{- end -}}
{{- dict "items" $items | toYaml -}}
{{- end -}}

{{/* One object of the release.  dict "root" $ "object" {...} ("labels" {...}) ("annotations" {...}) */}}
{{- define "elastic-gpu.object" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := merge (dict) ($metadata.labels | default dict) (.labels | default dict) .root.Values.commonLabels -}}
{{- if $labels }}{{ $_ := set $metadata "labels" $labels }}{{ end -}}
{{- with .annotations }}{{ $_ := set $metadata "annotations" (merge (dict) . ($metadata.annotations | default dict)) }}{{ end -}}
---
{{ toYaml .object }}
{{ end -}}

{{/* All objects of a copied file, with the arguments of elastic-gpu.read and elastic-gpu.object */}}
{{- define "elastic-gpu.file" -}}
{{- $arguments := . -}}
{{- range (include "elastic-gpu.read" . | fromYaml).items -}}
{{- include "elastic-gpu.object" (merge (dict "object" .) $arguments) -}}
{{- end -}}
{{- end -}}

{{/* Whether the answers of a running API server are known: none lacks APIService, and helm's own list does */}}
{{- define "elastic-gpu.connected" -}}
{{- if .Capabilities.APIVersions.Has "apiregistration.k8s.io/v1" }}true{{ end -}}
{{- end -}}

{{/* Whether mutating policies are rendered */}}
{{- define "elastic-gpu.mutating" -}}
{{- if kindIs "bool" .Values.admission.mutating -}}
{{- if .Values.admission.mutating }}true{{ end -}}
{{- else if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- if or (not (include "elastic-gpu.connected" .)) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}true{{ end -}}
{{- end -}}
{{- end -}}

{{- define "elastic-gpu.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Fails if a kind of the Prometheus operator is enabled by a value and the API server lacks it.  dict "root" $ "kind" "PodMonitor" "value" "podMonitor.enabled" */}}
{{- define "elastic-gpu.needsPrometheusOperator" -}}
{{- if and (include "elastic-gpu.connected" .root) (not (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail (printf "%s: the API server has no %s (monitoring.coreos.com/v1): install the Prometheus operator first, or set %s to false" .value .kind .value) -}}
{{- end -}}
{{- end -}}
