#!/usr/bin/env bash
# HAMi 3052: a namespace's quota of GPU memory is passed over as soon as the pod has an init container that asks for no GPU: two
# containers of 16000 MB each are accepted under a quota of 24000 MB. Here: such a pod waits, and its claims say which quota holds
# them up, how much is missing and which claims hold it; cards with room are not blamed.
PORT=${FIELD_PORT:-22540}
set -uo pipefail
BIN=${1:?usage: $0 BIN_DIR}
W=$(mktemp -d "${TMPDIR:-/tmp}/egpu-field-XXXXXX") || exit 2
export KUBECONFIG=$W/kc HOME=$W no_proxy='*' NO_PROXY='*' EGPU_SERVER=http://127.0.0.1:$((PORT+1))
SRV= FAILED=0 N=0
up() {  # starts the server; $W/nodes.yaml must be there; state in $W/data
  "$BIN/elastic-gpu-controller" standalone --nodes "$W/nodes.yaml" --data "$W/data" --write-kubeconfig "$KUBECONFIG" \
    --listen "127.0.0.1:$PORT" --ops-listen "127.0.0.1:$((PORT+1))" --probes-listen "127.0.0.1:$((PORT+2))" 2>>"$W/log" &
  SRV=$!
  for _ in $(seq 300); do curl -sf "localhost:$((PORT+1))/readyz" >/dev/null 2>&1 && return 0
    kill -0 "$SRV" 2>/dev/null || { echo "server ended:"; tail -5 "$W/log"; exit 2; }; sleep 0.2; done
  echo "server not ready"; exit 2
}
down() { [ -n "$SRV" ] && kill "$SRV" 2>/dev/null && wait "$SRV" 2>/dev/null; SRV=; }
crash() { kill -9 "$SRV" 2>/dev/null; wait "$SRV" 2>/dev/null; SRV=; }
trap 'down; [ -n "${KEEP:-}" ] || rm -rf "$W"' EXIT
K() { kubectl --request-timeout=30s "$@"; }
say() { printf '%s\n' "-- $*"; }
ok() { N=$((N+1)); printf 'ok    %s\n' "$1"; }
bad() { N=$((N+1)); FAILED=$((FAILED+1)); printf 'FAIL  %s\n      %s\n' "$1" "${2:-}"; }
# is WHAT WANT GOT | has WHAT PART TEXT | hasnt …
is() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "want [$2], got [$3]"; fi; }
has() { case "$3" in *"$2"*) ok "$1";; *) bad "$1" "[$2] is not in [$3]";; esac; }
hasnt() { case "$3" in *"$2"*) bad "$1" "[$2] is in [$3]";; *) ok "$1";; esac; }
# until SECONDS WANT COMMAND…: waits until the command's output is WANT (a glob); prints the last output
until_() { local s=$1 want=$2 out; shift 2; local end=$((SECONDS+s))
  while :; do out=$("$@" 2>&1); case "$out" in $want) printf '%s' "$out"; return 0;; esac
    [ $SECONDS -ge $end ] && { printf '%s' "$out"; return 1; }; sleep 0.3; done; }
gets() { local what=$1; shift; local out; out=$(until_ "$@"); case "$out" in $2) ok "$what";; *) bad "$what" "want [$2], got [$out]";; esac; }
claim() { K get egpuc "$1" ${3:+-n "$3"} -o "jsonpath=$2" 2>&1; }         # claim NAME JSONPATH [NS]
pod() { K get pod "$1" ${3:+-n "$3"} -o "jsonpath=$2" 2>&1; }
# Σ of what all cards' ledgers say, in milli-cards, and the worst card
ledger() { K get egpu -l elasticgpu.io/role=card -o json | python3 -c '
import json,sys
t=0;worst=0;n=0
for c in json.load(sys.stdin)["items"]:
    a=c["spec"].get("allocations") or {}
    s=sum(e.get("core",0) for e in a.values()); m=sum(e.get("memory",0) for e in a.values())
    t+=s; n+=len(a); worst=max(worst, s/c["spec"]["card"]["core"], m/c["spec"]["card"]["memory"])
print("core=%d entries=%d worst=%.3f"%(t,n,worst))'; }
finish() { printf '%d checks, %d failed\n' "$N" "$FAILED"; [ "$FAILED" -eq 0 ]; exit; }
CLASSES='
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share}
provisioner: gpushare.provisioner.elasticgpu.io
---
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share-wait}
provisioner: gpushare.provisioner.elasticgpu.io
egpuBindingMode: WaitForFirstConsumer
'
# mkclaim NAME CLASS CORE MEMORY
mkclaim() { printf -- '---\napiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata: {name: %s}\nspec:\n  egpuClassName: %s\n  resources: {requests: {elasticgpu.io/gpu-core: %s, elasticgpu.io/gpu-memory: %s}}\n' "$@"; }
# mkpod NAME CLAIM [EXTRA YAML under spec]
mkpod() { printf -- '---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {egpuc.elasticgpu.io/gpu: %s}}\nspec:\n  containers: [{name: main, image: cuda}]\n%s\n' "$1" "$2" "${3:-}"; }
# ---- the test
cat > "$W/nodes.yaml" <<'Y'
nodes:
- {name: n, cpu: 64, memory: 256Gi, gpus: [{model: X40, count: 1, memory: 40Gi, sms: 80, tflops: 100}]}
Y
up; echo "$CLASSES" | K apply -f - >/dev/null
quota() { printf 'apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUQuota\nmetadata: {name: mem, namespace: %s}\nspec: {hard: {gpu-memory: 24Gi}}\n' "$1"; }
template() { printf 'apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaimTemplate\nmetadata: {name: part, namespace: %s}\nspec: {spec: {egpuClassName: %s, resources: {requests: {elasticgpu.io/gpu-core: 40, elasticgpu.io/gpu-memory: 16Gi}}}}\n' "$1" "$2"; }
# two containers, a claim of its own each; $2 = further lines of the spec
two() { printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: two, namespace: %s, annotations: {egpuct.elasticgpu.io/a: part, egpuct.elasticgpu.io/b: part}}\nspec:\n  containers: [{name: a, image: cuda}, {name: b, image: cuda}]\n%s\n' "$1" "${2:-}"; }
used() { K get egpuquota mem -n "$1" -o 'jsonpath={.status.used.gpu-memory}'; }
for class in share share-wait; do
  for kind in without init init-before sidecar; do
    ns=$class-$kind; K create namespace "$ns" >/dev/null; quota "$ns" | K apply -f - >/dev/null; template "$ns" "$class" | K apply -f - >/dev/null
    case $kind in
      without) extra=;; init) extra='  initContainers: [{name: fetch, image: busybox}]';;
      init-before) extra='  initContainers: [{name: one, image: busybox}, {name: two, image: busybox, resources: {requests: {cpu: 1}}}]';;
      sidecar) extra='  initContainers: [{name: log, image: busybox, restartPolicy: Always}]';;
    esac
    two "$ns" "$extra" | K apply -f - >/dev/null; sleep 2.5
    is "$ns: the pod of 32Gi does not run under 24Gi" 'Pending elasticgpu.io/claims' "$(pod two '{.status.phase} {.spec.schedulingGates[*].name}' "$ns")"
    has "$ns: why" QuotaExceeded "$(K get egpuc -n "$ns" -o 'jsonpath={.items[*].status.reason}')"
    hasnt "$ns: nothing is said about cards without room: the card is empty but for 16Gi of 40Gi" 'have no room' "$(K get egpuc -n "$ns" -o 'jsonpath={.items[*].status.message}')"
    has "$ns: the quota, what is used and what is missing" 'quota mem allows gpu-memory 24Gi' "$(K get egpuc -n "$ns" -o 'jsonpath={.items[*].status.message}')"
    has "$ns: what is missing" '8Gi too little for another 16Gi' "$(K get egpuc -n "$ns" -o 'jsonpath={.items[*].status.message}')"
    say "$ns: $(K get egpuc -n "$ns" -o 'jsonpath={range .items[*]}{.status.phase} {.status.reason} {.status.message}; {end}') used=$(used "$ns")"
    K delete pod two -n "$ns" >/dev/null
    gets "$ns: all given back" 20 'core=0 entries=0 worst=0.000' ledger
  done
done
say 'VARIANT: a gang of two over the quota, Immediate'
for i in 1 2; do printf -- '---\napiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata: {name: gang%s, annotations: {elasticgpu.io/gang: g, elasticgpu.io/gang-size: "2"}}\nspec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu-core: 10, elasticgpu.io/gpu-memory: 16Gi}}}\n' $i; done | K apply -n share-init -f - >/dev/null; sleep 3
say "$(K get egpuc -n share-init -o 'jsonpath={range .items[*]}{.status.phase} {.status.reason} {.status.message}; {end}')"
has 'a gang over its quota: which, and what is missing' 'quota mem allows gpu-memory 24Gi, 0 is used and 16Gi would be by claims that are decided with it: 8Gi too little for another 16Gi' "$(K get egpuc -n share-init -o 'jsonpath={.items[*].status.message}')"
hasnt 'a gang over its quota: nothing about cards without room' 'have no room' "$(K get egpuc -n share-init -o 'jsonpath={.items[*].status.message}')"; K delete egpuc -n share-init --all >/dev/null
say 'VARIANT: one claim of a first consumer over what is left of the quota'
{ mkclaim one share-wait 10 16Gi; mkclaim more share-wait 10 16Gi; mkpod one one; } | K apply -n share-without -f - >/dev/null; gets 'runs' 20 Running pod one '{.status.phase}' share-without; mkpod more more | K apply -n share-without -f - >/dev/null; sleep 3
say "$(claim more '{.status.reason} {.status.message}' share-without)"
has 'one claim: which quota' 'quota mem allows gpu-memory 24Gi, 16Gi is used: 8Gi too little for another 16Gi' "$(claim more '{.status.message}' share-without)"
has 'one claim: which claim holds it, and whose release would do' 'held by share-without/one 16Gi: without share-without/one it would be within its quotas' "$(claim more '{.status.message}' share-without)"
hasnt 'one claim: nothing about cards without room' 'have no room' "$(claim more '{.status.message}' share-without)"; K delete pod,egpuc -n share-without --all >/dev/null; gets 'given back' 20 'core=0 entries=0 worst=0.000' ledger
say 'one container asks and the init container does not: within the quota'
ns=share-wait-init; printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: one, annotations: {egpuct.elasticgpu.io/a: part}}\nspec: {initContainers: [{name: fetch, image: busybox}], containers: [{name: a, image: cuda}, {name: web, image: nginx}]}\n' | K apply -n $ns -f - >/dev/null
gets 'runs' 20 Running pod one '{.status.phase}' $ns
gets 'counted once' 10 16Gi used $ns
anns=$(pod one '{.metadata.annotations}' $ns)
has 'container a has the card' 'prepared.elasticgpu.io/a' "$anns"; hasnt 'the init container has not' 'prepared.elasticgpu.io/fetch' "$anns"; hasnt 'nor the other one' 'prepared.elasticgpu.io/web' "$anns"
K delete pod one -n $ns >/dev/null; gets 'used goes back to nothing' 10 '0' used $ns
say 'amounts on a pod: init container and container have the same claim, counted once'
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: amounts, annotations: {egpu.elasticgpu.io/class: share, egpu.elasticgpu.io/gpu-memory: 16Gi}}\nspec: {initContainers: [{name: fetch, image: busybox}], containers: [{name: a, image: cuda}]}\n' | K apply -n $ns -f - >/dev/null
gets 'runs' 20 Running pod amounts '{.status.phase}' $ns
gets 'counted once' 10 16Gi used $ns
finish
