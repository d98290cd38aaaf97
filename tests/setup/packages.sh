#!/usr/bin/env bash
# Installs the missing Debian packages of the given groups.
#   packages.sh build | demo | test | lint | fuzz | cache | fresh
# Needs root, or sudo, only if something is missing.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libcurl4-openssl-dev libssl-dev zlib1g-dev libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev
       libsimdjson-dev libcpp-httplib-dev libcli11-dev prometheus-cpp-dev libsqlite3-dev libre2-dev
       libseccomp-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
       python3) # generates the limiter's stand-ins
# python3-venv: third-party NVML clients (tests/nvml/clients_test.sh).
# libfaketime: changes the wall clock of one controller (tests/cluster/soak/faults.py).
# buildah: builds the container image (tests/docs/image_test.py).
# runc, busybox-static: run containers on the real node (tests/cluster/node/real_node.py).
test=(libgtest-dev libgmock-dev libbenchmark-dev python3-venv python3-yaml openssl nghttp2-proxy curl libfaketime runc busybox-static buildah)
lint=(clang-tidy-14 clang-format-14)
fuzz=(clang-14 libclang-rt-14-dev)
# Reuses objects of earlier builds on machines that build many clones.
cache=(ccache)
fresh=(debootstrap git)

want=("${build[@]}")
kubectl=
for group in "$@"; do
  case "$group" in
    build) ;;
    demo) kubectl=1 ;;
    test) want+=("${test[@]}"); kubectl=1 ;;
    lint) want+=("${lint[@]}") ;;
    fuzz) want+=("${fuzz[@]}") ;;
    cache) want+=("${cache[@]}") ;;
    fresh) want=("${fresh[@]}") ;;
    *) echo "packages.sh: unknown group '$group'; known: build demo test lint fuzz cache fresh" >&2; exit 2 ;;
  esac
done
# Any version of kubectl is sufficient; Debian's is 1.20.
[ -z "$kubectl" ] || command -v kubectl >/dev/null || want+=(kubernetes-client)

# On other systems, CMake and the tests report missing packages.
command -v dpkg-query >/dev/null || {
  echo "not a Debian system: continuing with the installed packages (required: the equivalents of ${want[*]})" >&2
  exit 0
}
missing=()
for p in "${want[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "error: these packages are missing and need root (or sudo) to install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# The lists can be old, or absent on a new machine, so update them before the installation.
"${as_root[@]}" apt-get update >"$log" 2>&1 || { cat "$log" >&2; echo "error: apt-get update failed" >&2; exit 1; }
install || { tail -n 20 "$log" >&2; echo "error: could not install: ${missing[*]}" >&2; exit 1; }
