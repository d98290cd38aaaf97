#!/usr/bin/env bash
# Runs the kubectl commands of users against the embedded API server, with each given kubectl, and checks their exit
# status and output. No simulation runs, so objects are not changed by others.
#   kubectl_surface.sh --serve APISERVER_SERVE [KUBECTL…]      starts the server itself
#   kubectl_surface.sh --kubeconfig FILE [KUBECTL…]            uses a running server
# Without KUBECTL, uses the one on PATH; with --cache DIR before it, also Debian's kubectl, which is unpacked in DIR.
# Prints a line per failure, and at the end "N passed, N failed".
set -uo pipefail

samples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/../../manifests/samples
mode=${1:?usage: kubectl_surface.sh --serve BINARY | --kubeconfig FILE [KUBECTL…]}
what=${2:?what is missing after $mode}
shift 2
cache=
if [ "${1:-}" = --cache ]; then
  cache=${2:?what is missing after --cache}
  shift 2
fi
kubectls=("$@")
if [ ${#kubectls[@]} -eq 0 ]; then
  kubectls=("$(command -v kubectl)")
  # Debian's old kubectl is only unpacked, because its package conflicts with an installed newer one.
  old=$cache/debian-kubectl/usr/bin/kubectl
  if [ -n "$cache" ] && [ ! -x "$old" ]; then
    mkdir -p "$cache/debian-kubectl"
    (cd "$cache/debian-kubectl" && apt-get download -q kubernetes-client && dpkg -x kubernetes-client_*.deb .) >/dev/null 2>&1
  fi
  [ -n "$cache" ] && if [ -x "$old" ] && ! cmp -s "$old" "${kubectls[0]}"; then kubectls+=("$old"); fi
fi

work=$(mktemp -d)
server=
cleanup() {
  exec 9>&- 2>/dev/null
  [ -n "$server" ] && wait "$server" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
export HOME=$work KUBE_EDITOR= EDITOR= no_proxy='*' NO_PROXY='*'

case "$mode" in
  --serve)
    # The server ends when its standard input is closed.
    mkfifo "$work/input"
    "$what" 127.0.0.1:0 <"$work/input" >"$work/url" 2>"$work/serve.log" &
    server=$!
    exec 9>"$work/input"
    for _ in $(seq 100); do [ -s "$work/url" ] && break; sleep 0.1; done
    [ -s "$work/url" ] || { echo "the server did not start:"; cat "$work/serve.log"; exit 1; }
    export KUBECONFIG=$work/config
    cat >"$KUBECONFIG" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: s, cluster: {server: "$(head -n1 "$work/url")"}}]
users: [{name: s, user: {}}]
contexts: [{name: s, context: {cluster: s, user: s}}]
current-context: s
CONFIG
    ;;
  --kubeconfig) export KUBECONFIG=$what ;;
  *) echo "unknown: $mode" >&2; exit 2 ;;
esac

passed=0
failed=0
K=
minor=0
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  printf 'FAILED (%s) line %s: %s\n' "$label" "${BASH_LINENO[1]}" "$1"
  sed 's/^/    /' "$work/out" | head -n 20
}
# k ARGS… < input: runs kubectl; its output (both streams) in $work/out, its status in $status.
k() {
  timeout 60 "$K" --request-timeout=50s "$@" >"$work/out" 2>&1
  status=$?
}
# good ARGS…: must succeed.   bad ARGS…: must fail.
good() { k "$@"; if [ $status -eq 0 ]; then pass; else fail "kubectl $*: exit $status"; fi; }
bad() { k "$@"; if [ $status -ne 0 ] && [ $status -ne 124 ]; then pass; else fail "kubectl $*: exit $status, should be refused"; fi; }
# says REGEX…: the last output has a match of each.   quiet REGEX: it has none.
says() { local r; for r in "$@"; do if grep -Eq -- "$r" "$work/out"; then pass; else fail "no match of: $r"; fi; done; }
quiet() { if grep -Eq -- "$1" "$work/out"; then fail "unexpected match of: $1"; else pass; fi; }
# is TEXT: the last output equals TEXT.
is() { if [ "$(cat "$work/out")" = "$1" ]; then pass; else fail "is not: $1"; fi; }

class='apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share}
provisioner: gpushare.provisioner.elasticgpu.io'
claim='apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: one, namespace: surface}
spec:
  egpuClassName: share
  resources: {requests: {elasticgpu.io/gpu-core: 10, elasticgpu.io/gpu-memory: 4Gi}}'
pod='apiVersion: v1
kind: Pod
metadata: {name: cuda, namespace: surface, labels: {app: cuda}}
spec:
  containers:
  - {name: main, image: "nvidia/cuda:10.0-base", env: [{name: A, value: "1"}]}
  - {name: side, image: busybox}'

# Kinds that clusters serve and this server does not: kubectl shows the reason.
unserved() {
  local why='is for trying out and does not serve'
  for kind in deployments crd secrets configmaps services; do bad get "$kind"; says "$why $kind|$why customresourcedefinitions" 'it serves namespaces'; done
  bad get secret s; says "$why secrets"
  bad create deployment d --image=i; says "$why deployments.apps"
  bad create secret generic s --from-literal=a=b; says "$why secrets"
  bad apply -f - <<<'{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}'
  says "$why deployments.apps"
  bad delete deployment d; says "$why deployments.apps"
  good get all --all-namespaces
  bad get nonsense; says "doesn't have a resource type"
}

# Web pages must not have access to the server.
pages() {
  local url; url=$(sed -n 's/.*server: "\([^"]*\)".*/\1/p' "$KUBECONFIG")
  case "$url" in http://127.*) ;; *) return ;; esac
  local to=$url/api/v1/namespaces/default/pods
  http() { curl -s -o "$work/out" -w '%{http_code}' "$@" >"$work/code"; }
  answers() { if [ "$(cat "$work/code")" = "$1" ]; then pass; else fail "HTTP $(cat "$work/code"), not $1"; fi; }
  http "$to"; answers 200
  http -H "Host: localhost:${url##*:}" "$to"; answers 200
  http -H 'Host: evil.example' "$to"; answers 403; says 'Host'
  http -H 'Origin: http://evil.example' "$to"; answers 403; says 'Origin'
  http -H "Origin: $url" "$to"; answers 200
  http -d '{"metadata":{"name":"p"}}' "$to"; answers 415; says 'application/json'
  http -H 'Content-Type: text/plain' -d '{"metadata":{"name":"p"}}' "$to"; answers 415
  http -H 'Content-Type:' -H 'Sec-Fetch-Site: cross-site' -d '{"metadata":{"name":"p"}}' "$to"; answers 415
  http -X DELETE "$to/none"; answers 404
}

discovery() {
  good version; says 'Server Version'
  good api-resources --cached=false
  says '^elasticgpus +egpu +elasticgpu.io/v1alpha1 +false +ElasticGPU$' '^elasticgpuclaims +egpuc ' '^elasticgpuclasses +egpuclass ' '^elasticgpuquotas +egpuquota +elasticgpu.io/v1alpha1 +true' \
    '^pods +po +v1 +true' '^nodes +no +v1 +false' '^leases .*coordination.k8s.io/v1' '^resourceclaims .*resource.k8s.io/v1 +true'
  good api-resources --api-group=elasticgpu.io -o name; says '^elasticgpuclaims.elasticgpu.io$'
  good api-resources --namespaced=false -o wide; says 'delete.*get.*list.*watch'; quiet '^pods'
  good api-versions; says '^elasticgpu.io/v1alpha$' '^elasticgpu.io/v1alpha1$' '^v1$'
  quiet '^pods/' '^deployments'
  unserved
  good get --raw /healthz; is ok
  good get --raw /openapi/v2
  good get --raw /openapi/v3; says 'apis/elasticgpu.io/v1alpha'
}

explain() {
  good explain elasticgpuclaim; says 'ElasticGPUClaim requests a GPU' 'spec.*<Object>' 'metadata.*<Object'
  good explain elasticgpuclaim.spec.egpuClassName; says 'The ElasticGPUClass that serves the claim'
  good explain egpuc.spec.resources; says 'requests' 'Amounts by key'
  good explain elasticgpuclass.provisioner; says '<string>'
  good explain elasticgpu.spec.card --api-version=elasticgpu.io/v1alpha; says 'uuid' 'smCount'
  good explain elasticgpu --recursive; says 'allocations' 'claimRef' 'finalizers'
  good explain pod.spec.containers.image; says 'The image that it runs'
  good explain pod --recursive; says 'schedulingGates' 'resourceClaims'
  good explain node.status.capacity; says 'Amounts by resource name'
  good explain resourceclaim.status.reservedFor; says 'Consumers that may use the devices'
  for kind in namespace event lease deviceclass; do good explain "$kind"; says 'DESCRIPTION'; done
  bad explain elasticgpuclaim.spec.nonsense; says 'does not exist'
}

create_and_get() {
  good create namespace surface; says 'namespace/surface created'
  bad create namespace surface; says 'AlreadyExists' 'namespaces "surface" already exists'
  good apply -f - <<<"$class"; says 'elasticgpuclass.elasticgpu.io/share created'
  good apply -f - <<<"$class"; says 'share unchanged'
  good get egpuclass share -o 'jsonpath={.reclaimPolicy} {.egpuBindingMode}'; is 'Delete Immediate'
  good create -f - <<<"$claim"; says 'elasticgpuclaim.elasticgpu.io/one created'
  bad create -f - <<<"$claim"; says 'AlreadyExists'
  good apply -f - <<<"$pod"; says 'pod/cuda created'
  good get egpuc -n surface; says '^NAME +STATUS +NODE +CORE +MEMORY +CLASS +REASON +AGE' '^one '; quiet 'MESSAGE'
  good get egpuc -n surface -o wide; says 'MEMORY +USED +ISOLATION +MEMORY-LIMIT +MANAGED-MEMORY +COMPUTE-LIMIT +CLASS' 'ELASTICGPU +MESSAGE'
  good get egpu; says 'No resources found'
  good get egpuc -A; says '^NAMESPACE +NAME' '^surface +one '
  good get egpuc,egpuclass -n surface; says '^elasticgpuclaim.elasticgpu.io/one ' '^elasticgpuclass.elasticgpu.io/share '
  good get elasticgpuclaims.v1alpha1.elasticgpu.io one -n surface -o yaml; says '^apiVersion: elasticgpu.io/v1alpha1$'
  good get elasticgpuclaims.v1alpha.elasticgpu.io one -n surface -o yaml; says '^apiVersion: elasticgpu.io/v1alpha$' 'gpu-memory: 4Gi' 'uid: '
  good get egpuc one -n surface -o json; says '"kind": "ElasticGPUClaim"' '"resourceVersion": "[0-9]+"'
  good get egpuc one -n surface -o 'jsonpath={.spec.resources.requests.elasticgpu\.io/gpu-core}'; is 10
  good get egpuc one -n surface -o 'custom-columns=N:.metadata.name,C:.spec.egpuClassName' --no-headers; says '^one +share$'
  good get egpuc -n surface -o name; is 'elasticgpuclaim.elasticgpu.io/one'
  good get egpu -o yaml; says 'items: \[\]'
  bad get egpuc missing -n surface; says 'NotFound' 'elasticgpuclaims.elasticgpu.io "missing" not found'
  good get pod cuda -n surface; says '^NAME +READY +STATUS +RESTARTS +AGE' '^cuda +0/2 +Pending +0 '
  good get pod cuda -n surface -o wide; says 'NODE +NOMINATED NODE' '<none>'
  good get pods -n surface -l app=cuda --no-headers; says '^cuda '
  good get pods -n surface -l 'app notin (cuda)'; says 'No resources found'
  good get pods -n surface --field-selector status.phase=Pending -o name; is pod/cuda
  good get pods -n surface --field-selector spec.nodeName=none -o name; is ''
  bad get pods -n surface --field-selector spec.nonsense=1; says 'field'
  good get ns --show-labels; says 'kubernetes.io/metadata.name=surface'
  good get pods -n surface --sort-by=.metadata.name; says '^cuda '
  good get all -n surface; says '^(pod/)?cuda '
  good describe egpuc one -n surface; says '^Name: +one$' 'Egpu Class Name: +share' '^Events: +<none>'
  good describe pod cuda -n surface; says '^Name: +cuda' 'Image: +nvidia/cuda:10.0-base' 'QoS Class: +BestEffort'
  good describe egpuclass share; says 'Provisioner: +gpushare'
  good describe ns surface; says 'Status: +Active'
}

change() {
  good label egpuc one -n surface tier=gold; says 'labeled'
  bad label egpuc one -n surface tier=iron; says 'already has a value|overwrite'
  good label egpuc one -n surface tier=iron --overwrite
  good get egpuc -n surface -L tier -l tier=iron; says 'TIER' 'iron'
  good label egpuc one -n surface tier-
  bad label egpuc one -n surface 'a=-bad-'; says 'label'
  good annotate egpuc one -n surface note='any text'; says 'annotated'
  good get egpuc one -n surface -o 'jsonpath={.metadata.annotations.note}'; is 'any text'

  good patch egpuc one -n surface --type=merge -p '{"metadata":{"labels":{"m":"1"}}}'; says 'patched'
  good patch egpuc one -n surface --type=merge -p '{"metadata":{"labels":{"m":"1"}}}'; says 'patched \(no change\)|patched'
  good patch egpuc one -n surface --type=json -p '[{"op":"test","path":"/metadata/labels/m","value":"1"},{"op":"replace","path":"/metadata/labels/m","value":"2"}]'
  good get egpuc one -n surface -o 'jsonpath={.metadata.labels.m}'; is 2
  bad patch egpuc one -n surface --type=json -p '[{"op":"test","path":"/metadata/labels/m","value":"1"}]'; says 'test failed|rejected our request'
  bad patch egpuc one -n surface --type=json -p '[{"op":"remove","path":"/spec/nothing"}]'
  bad patch egpuc one -n surface --type=strategic -p '{}'; says 'UnsupportedMediaType|not supported'
  bad patch egpuc one -n surface --type=merge -p '{"metadata":{"resourceVersion":"1","labels":{"m":"3"}}}'; says 'Conflict'
  bad patch egpuc one -n surface --type=merge -p '{"spec":{"egpuClassName":"other"}}'; says 'immutable'
  good patch pod cuda -n surface -p '{"spec":{"containers":[{"name":"side","image":"busybox:1"}]}}'
  good get pod cuda -n surface -o 'jsonpath={.spec.containers[*].image}'; is 'nvidia/cuda:10.0-base busybox:1'
  bad patch pod cuda -n surface -p '{"spec":{"containers":[{"name":"third","image":"x"}]}}'; says 'Forbidden|forbidden|may not change'

  good apply -f - <<<"${pod/busybox/busybox:2}"; says 'pod/cuda configured'
  good get pod cuda -n surface -o 'jsonpath={.spec.containers[1].image} {.spec.containers[0].env[0].value}'; is 'busybox:2 1'
  good apply -f - <<<"${claim/name: one, /name: one, labels: \{added: yes-it-is\}, }"; says 'configured'
  good get egpuc one -n surface -o 'jsonpath={.metadata.labels.added}{.metadata.labels.m}'; is 'yes-it-is2'
  good apply -f - <<<"$claim"
  good get egpuc one -n surface -o 'jsonpath={.metadata.labels.added}'; is ''

  printf '#!/bin/sh\nsed -i "s/^  name: one$/  labels: {edited: \\"1\\", m: \\"2\\"}\\n  name: one/; /^  labels:$/d; /^    m: /d" "$1"\n' >"$work/editor"
  chmod +x "$work/editor"
  KUBE_EDITOR=$work/editor good edit egpuc one -n surface; says 'edited'
  good get egpuc one -n surface -o 'jsonpath={.metadata.labels.edited}'; is 1
  KUBE_EDITOR=true good edit egpuc one -n surface; says 'Edit cancelled|no changes made'

  good get egpuc one -n surface -o yaml
  sed 's/^    edited: .*/    replaced: "1"/' "$work/out" >"$work/one.yaml"
  good replace -f "$work/one.yaml"; says 'replaced'
  bad replace -f "$work/one.yaml"; says 'Conflict|has been modified'
  good get egpuc one -n surface -o 'jsonpath={.metadata.labels.replaced}'; is 1
  good replace --force -f - <<<"$claim"; says 'replaced'
  good set image pod/cuda -n surface side=busybox:3; says 'image updated'
}

refuse() {
  local base='apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClaim
metadata: {name: bad, namespace: surface}
spec:'
  bad apply -f - <<<"$base {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 10}}, sprec: 1}"; says 'unknown field.*sprec'
  bad apply -f - <<<"$base {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: ten}}}"; says 'spec.resources.requests'
  bad apply -f - <<<"$base {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: -1}}}"; says 'spec.resources.requests'
  bad apply -f - <<<"$base {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-colour: 1}}}"; says 'spec.resources.requests' 'unknown key|gpu-core'
  bad apply -f - <<<"$base {egpuClassName: share, elasticGPUClassName: other, resources: {requests: {elasticgpu.io/gpu-core: 1}}}"; says 'must agree'
  bad apply -f - <<<"$base {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-memory: 999999999999999999999999Gi}}}"; says 'spec.resources.requests'
  bad apply -f - <<<"$base [1]"; says 'spec|invalid type'
  bad apply -f - <<<"${class/share/Bad_Name}"; says 'metadata.name'
  bad apply -f - <<<"${class}
reclaimPolicy: Keep"; says 'reclaimPolicy.*(Unsupported|supported values)'
  other=${pod/name: cuda/name: other}
  bad apply -f - <<<"${other/busybox/busybox, imag: x}"; says 'unknown field.*imag'
  bad apply -f - <<<'apiVersion: v1
kind: Pod
metadata: {name: empty, namespace: surface}
spec: {containers: []}'; says 'spec.containers'
  bad apply -f - <<<"${claim/namespace: surface/namespace: nowhere}"; says 'namespaces "nowhere" not found'
  bad apply -f - <<<"${claim/v1alpha/v9}"; says 'no matches for kind'
  bad apply -f - <<<'{"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim"'
  { printf '%s\n' "$base"; printf '  egpuClassName: "'; head -c 1000000 /dev/zero | tr '\0' x; printf '"\n'; } >"$work/junk.yaml"
  bad apply -f "$work/junk.yaml"; says 'egpuClassName|larger than|too large'
  bad get egpuc bad -n surface; says 'NotFound'
  if [ "$minor" -ge 22 ]; then bad apply --server-side -f - <<<"$claim"; says 'server-side apply|UnsupportedMediaType'; fi
}

watch_and_wait() {
  : >"$work/watched"
  timeout 120 "$K" get egpuc -n surface -w >"$work/watched" 2>&1 &
  local watcher=$!
  until_seen '^one ' "$work/watched"
  good label egpuc one -n surface watched=yes
  good patch egpuc one -n surface --type=merge -p '{"metadata":{"annotations":{"seen":"1"}}}'
  for _ in $(seq 300); do [ "$(grep -c '^one ' "$work/watched")" -ge 3 ] && break; sleep 0.1; done
  kill "$watcher" 2>/dev/null; wait "$watcher" 2>/dev/null
  cp "$work/watched" "$work/out"
  if [ "$(grep -c '^NAME' "$work/out")" = 1 ]; then pass; else fail 'the header is not printed once'; fi
  if [ "$(grep -c '^one ' "$work/out")" -ge 3 ]; then pass; else fail 'not every change was watched'; fi

  bad wait --for=condition=Bound egpuc/one -n surface --timeout=1s; says 'timed out'
  # The status subresource, as a controller would write it.
  raw_status='{"status":{"phase":"Bound","elasticGPUName":"egpu-x","nodeName":"n1","conditions":[{"type":"Bound","status":"True","reason":"Ok","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'
  if [ "$minor" -ge 24 ]; then
    good patch egpuc one -n surface --subresource=status --type=merge -p "$raw_status"
    good wait --for=condition=Bound egpuc/one -n surface --timeout=20s; says 'condition met'
    good get egpuc one -n surface --no-headers; says '^one +Bound +n1 '
    good patch egpuc one -n surface --type=merge -p '{"status":{"phase":"Lost"}}'
    good get egpuc one -n surface -o 'jsonpath={.status.phase}'; is Bound
  fi
}
until_seen() { for _ in $(seq 300); do grep -Eq "$1" "$2" && return 0; sleep 0.1; done; return 1; }

remove() {
  good patch egpuc one -n surface --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'
  good delete egpuc one -n surface --wait=false; says 'deleted'
  good get egpuc one -n surface -o 'jsonpath={.metadata.deletionTimestamp}'; says '^20'
  bad patch egpuc one -n surface --type=merge -p '{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}'; says 'finalizer'
  good patch egpuc one -n surface --type=merge -p '{"metadata":{"finalizers":null}}'
  # kubectl 1.20 fails if the object is already gone.
  if [ "$minor" -ge 23 ]; then good wait --for=delete egpuc/one -n surface --timeout=20s; fi
  bad get egpuc one -n surface; says 'NotFound'
  good delete pod cuda -n surface --grace-period=0 --force
  good delete egpuc missing -n surface --ignore-not-found
  bad delete egpuc missing -n surface; says 'NotFound'
  good create -f - <<<"$claim"
  good create -f - <<<"${claim/name: one/name: two}"
  good delete egpuc --all -n surface; says '"one" deleted' '"two" deleted'
  good delete egpuclass share
  good apply -f "$samples/seed.yaml" -n surface; says 'gpushare-egpuc-1 created' 'gpushare-egpuc-2 created'
  good delete -f "$samples/seed.yaml" -n surface
  good delete namespace surface --timeout=30s; says 'deleted'
  bad get namespace surface; says 'NotFound'
}

for K in "${kubectls[@]}"; do
  [ -x "$K" ] || { echo "no kubectl at '$K'"; exit 1; }
  minor=$("$K" version --client -o json 2>/dev/null | sed -n 's/.*"minor": "\([0-9]*\).*/\1/p' | head -n1)
  label="kubectl 1.$minor"
  before=$failed
  echo "$label ($K)"
  discovery
  pages
  explain
  create_and_get
  change
  refuse
  watch_and_wait
  remove
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
