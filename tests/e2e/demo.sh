#!/usr/bin/env bash
# Runs standalone mode on simulated nodes: binds the sample claims, runs their pods and prints the allocation map.
#   demo.sh BIN_DIR [NODES_YAML]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:?usage: demo.sh BIN_DIR [NODES_YAML]}")
nodes=${2:-manifests/samples/nodes/mixed.yaml}
kubectl=${KUBECTL:-kubectl}
work=$(mktemp -d)
pid=
stop() {
  [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT

say() { printf '\n\033[1m▸ %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

say "Starting Elastic GPU standalone on $(basename "$nodes")"
"$bin/elastic-gpu-standalone" --nodes "$nodes" --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 \
  --write-kubeconfig "$work/kubeconfig" --write-ops-address "$work/ops" --log-level warn >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 300); do
  [ -s "$work/ops" ] && [ -s "$work/kubeconfig" ] && break
  kill -0 "$pid" 2>/dev/null || { cat "$work/log" >&2; echo "error: the controller ended" >&2; exit 1; }
  sleep 0.1
done
[ -s "$work/ops" ] || { cat "$work/log" >&2; echo "error: the controller did not become ready" >&2; exit 1; }
export KUBECONFIG=$work/kubeconfig
run "$kubectl" get nodes

say "A class and two claims: 10 % of a card and 4 GiB each"
run "$kubectl" apply -f manifests/samples/seed.yaml
run "$kubectl" wait --for=condition=Bound --timeout=60s elasticgpuclaims --all
run "$kubectl" get elasticgpuclaims,elasticgpuclasses

say "Two pods that name the claims in an annotation"
run "$kubectl" apply -f manifests/samples/seed-pods.yaml
run "$kubectl" wait --for=condition=Ready --timeout=60s pods --all
run "$kubectl" get pods -o wide

say "The devices of the first pod's container"
run "$kubectl" describe pod test-cuda-1 | sed -n '/^Annotations:/,/^Status:/p;/^Events:/,$p'

say "The allocation map"
run "$bin/kubectl-egpu" map -o bars

bound=$("$kubectl" get elasticgpuclaims -o jsonpath='{.items[*].status.phase}')
running=$("$kubectl" get pods -o jsonpath='{.items[*].status.phase}')
[ "$bound" = "Bound Bound" ] && [ "$running" = "Running Running" ] || {
  echo "error: claims are '$bound', pods are '$running'" >&2
  cat "$work/log" >&2
  exit 1
}
say "Both claims are Bound and both pods run. Stopping."
kill -TERM "$pid"
wait "$pid"
pid=

cat <<'NEXT'

Next:
  The same, typed by you, with a claim that does not fit, and why:  manifests/guide/tutorial.md
  On a node with a GPU:                                             manifests/guide/first-node.md
  vLLM, Ray, notebooks, training:                                   manifests/guide/workloads.md
  From HAMi, KAI, NVIDIA's device plugin or its DRA driver:         manifests/guide/other-systems.md
  A real Kubernetes here, with simulated GPU nodes:                 make cluster
NEXT
