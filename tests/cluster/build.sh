#!/usr/bin/env bash
# Builds the parts of a real cluster for tests, in a cache outside the tree, and prints their folder (the last line of
# stdout).
#
#   build.sh [NAME...]   default: etcd kube-apiserver
#                        also: kubectl kube-scheduler kube-controller-manager kubelet kwok
#   build.sh containerd    containerd, its shim and ctr, in a separate folder
#   build.sh helm-3 | helm-4 | promtool   a tool, in a separate folder
#   build.sh --built NAME...   builds nothing: exit 77 if a part is missing
#   EGPU_KUBERNETES=1.36   an older Kubernetes instead of the newest: 1.36, or 1.34, the oldest that is supported (no kubectl)
#
# kwok-stages.yaml beside kwok has the rules of kwok's module for nodes and pods without kubelets.
# Parts that exist are not built again. Concurrent runs wait for each other. Progress is printed on stderr.
# Exit: 0 all parts exist, 77 Go is missing or too old (nothing built), 1 a build failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly go_floor=26 # of Go 1.x: the version in Kubernetes' go.mod

pinned() { # MODULE GO_MOD: the version that the go.mod pins
  awk -v module="$1" '{ sub(/^require /, "") } $1 == module && $2 ~ /^v[0-9]/ { print $2; exit }' "$2"
}
readonly modules="$here/kubernetes${EGPU_KUBERNETES:+-$EGPU_KUBERNETES}"
[[ -d $modules ]] || {
  printf 'cluster: no such EGPU_KUBERNETES: %s\n' "${EGPU_KUBERNETES:-}" >&2
  exit 1
}
kubernetes=$(pinned k8s.io/kubernetes "$modules/go.mod")
etcd=$(pinned go.etcd.io/etcd/server/v3 "$here/etcd/go.mod")
kwok=$(pinned sigs.k8s.io/kwok "$here/kwok/go.mod")
containerd=$(pinned github.com/containerd/containerd/v2 "$here/node/containerd/go.mod")
declare -A tool_modules=([helm-3]=helm.sh/helm/v3 [helm-4]=helm.sh/helm/v4 [promtool]=github.com/prometheus/prometheus)
declare -A tool_folders=([helm-3]=helm-3 [helm-4]=helm-4 [promtool]=prometheus)
readonly kubernetes etcd kwok containerd
only_built=
if [[ ${1:-} == --built ]]; then
  only_built=1
  shift
fi
readonly only_built
readonly root="${EGPU_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/elastic-gpu/cluster}"
bin="$root/$kubernetes-etcd-$etcd-kwok-$kwok/bin"
if [[ $* == containerd ]]; then
  set -- containerd containerd-shim-runc-v2 ctr
  bin="$root/containerd-$containerd/bin"
elif [[ $# == 1 && -n ${tool_modules[$1]:-} ]]; then
  bin="$root/$1-$(pinned "${tool_modules[$1]}" "$here/${tool_folders[$1]}/go.mod")/bin"
fi
readonly bin

say() { printf 'cluster: %s\n' "$*" >&2; }

go_is_new_enough() {
  local version major minor
  version=$(cd / && go env GOVERSION 2>/dev/null) || return 1
  IFS=. read -r major minor _ <<<"${version#go}"
  minor=${minor%%[!0-9]*}
  [[ $major == 1 && -n $minor ]] && ((minor >= go_floor))
}

# Prints progress, because linking takes a minute without output.
with_progress() { # WHAT COMMAND...
  local what=$1 started=$SECONDS
  shift
  "$@" &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    sleep 1
    if (((SECONDS - started) % 20 == 19)); then say "$what: $((SECONDS - started + 1)) s"; fi
  done
  if ! wait "$child"; then
    child=
    return 1
  fi
  child=
  say "$what: done after $((SECONDS - started)) s"
}
child=
trap '[[ -z $child ]] || kill "$child" 2>/dev/null || true' EXIT

# kwok has no effect without stages. These make nodes Ready, renew their leases and run pods at once.
write_stages() {
  local stages stage
  # `go list -m` prints no folder for a module that has not been downloaded.
  (cd "$here/kwok" && GOWORK=off go mod download sigs.k8s.io/kwok) || return 1
  stages=$(cd "$here/kwok" && GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage || return 1
  for stage in "$stages"/{node/fast,node/heartbeat-with-lease,pod/fast}/*.yaml; do
    [[ ${stage##*/} == kustomization.yaml ]] || { cat "$stage" && echo ---; } || return 1
  done >"$bin/.kwok-stages.new" && mv "$bin/.kwok-stages.new" "$bin/kwok-stages.yaml"
}

build() { # NAME
  local name=$1 module package flags="-s -w" tags= package_of_version
  case $name in
  etcd) module=$here/etcd package=go.etcd.io/etcd/server/v3 ;;
  containerd | containerd-shim-runc-v2 | ctr)
    module=$here/node/containerd package=github.com/containerd/containerd/v2/cmd/$name
    flags+=" -X github.com/containerd/containerd/v2/version.Version=$containerd"
    ;;
  helm-3 | helm-4)
    module=$here/${tool_folders[$name]} package=${tool_modules[$name]}/cmd/helm
    # The Kubernetes version that `helm template` assumes, as in Helm's releases. Helm 4 reads it from its modules.
    local client
    client=$(pinned k8s.io/client-go "$module/go.mod") client=${client#v0.}
    for package_of_version in chartutil lint/rules; do
      flags+=" -X helm.sh/helm/v3/pkg/$package_of_version.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package_of_version.k8sVersionMinor=${client%%.*}"
    done
    ;;
  # Without service discovery, which the tests do not use and which is most of the code.
  promtool) module=$here/${tool_folders[$name]} package=${tool_modules[$name]}/cmd/promtool tags=remove_all_sd ;;
  kwok)
    module=$here/kwok package=sigs.k8s.io/kwok/cmd/kwok
    write_stages || return 1
    ;;
  *)
    module=$modules package=k8s.io/kubernetes/cmd/$name
    local stamp=k8s.io/component-base/version minor=${kubernetes#v*.}
    flags+=" -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
    ;;
  esac
  # Renamed when complete, so that the cache never has incomplete files.
  (cd "$module" && with_progress "building $name" \
    env CGO_ENABLED=0 GOFLAGS="-buildvcs=false ${GOFLAGS:-}" GOWORK=off \
    go build -trimpath -tags "$tags" -ldflags "$flags" -o "$bin/.$name.new" "$package") &&
    mv "$bin/.$name.new" "$bin/$name"
}

main() {
  local names=("$@") missing=() name
  ((${#names[@]})) || names=(etcd kube-apiserver)
  for name in "${names[@]}"; do
    case $name in
    etcd | kube-apiserver | kubectl | kube-scheduler | kube-controller-manager | kubelet | kwok) ;;
    containerd | containerd-shim-runc-v2 | ctr) [[ $bin == "$root/containerd-"* ]] || {
      say "containerd must be the only argument"
      exit 1
    } ;;
    helm-3 | helm-4 | promtool) [[ $bin == "$root/$name-"* ]] || {
      say "$name must be the only argument"
      exit 1
    } ;;
    *)
      say "unknown part: $name"
      exit 1
      ;;
    esac
  done

  # Files in the cache are complete, so a run that finds all its parts does not wait for builds of other parts.
  for name in "${names[@]}"; do [[ -x $bin/$name ]] || missing+=("$name"); done
  if [[ ${#missing[@]} -gt 0 && -n $only_built ]]; then
    say "not built: ${missing[*]}"
    exit 77
  fi
  if ((${#missing[@]})); then
    mkdir -p "$bin"
    exec 9>"$root/lock"
    flock --nonblock 9 || {
      say "another build is running, waiting for it"
      flock 9
    }
    missing=()
    for name in "${names[@]}"; do [[ -x $bin/$name ]] || missing+=("$name"); done
  fi
  if ((${#missing[@]})); then
    if ! go_is_new_enough; then
      say "not built: Go >= 1.$go_floor is needed to build ${missing[*]}, found $(go env GOVERSION 2>/dev/null || echo none)"
      exit 77
    fi
    say "first run: building ${missing[*]} (Kubernetes $kubernetes, etcd $etcd, kwok $kwok, containerd $containerd); 5 to 15 minutes on two cores"
    for name in "${missing[@]}"; do
      build "$name" || {
        say "FAILED: $name did not build"
        exit 1
      }
    done
  fi
  printf '%s\n' "$bin"
}

main "$@"
