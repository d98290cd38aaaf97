#!/usr/bin/env bash
# Runs the two commands of the README without caches, in a new Debian 12 root by debootstrap with a clone of the
# committed tree. Caches, packages and the home folder of this machine are not available there.
#   fresh.sh [COMMAND...]   default: "make run" "make test"
# It uses from this machine: apt's sources, the trusted certificates, the address of the Go module proxy, and Go,
# read-only, if it is new enough (Debian 12's is too old). Each run creates the root $EGPU_FRESH_ROOT (default
# build/fresh) again.
# Needs root. Exit: 0 all commands ended with 0; 1 one did not, or the root could not be made.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly top=$PWD
readonly root=${EGPU_FRESH_ROOT:-$top/build/fresh}
readonly tree=/home/elastic-gpu
if (($#)); then commands=("$@"); else commands=("make run" "make test"); fi
readonly commands
readonly go_floor=26 # oldest minor version of Go 1, as in tests/cluster/build.sh

say() { printf 'fresh: %s\n' "$*"; }
fail() { say "error: $*" >&2; exit 1; }

# apt's first source for Debian 12, because this machine can reach it.
mirror() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "bookworm" && $3 == "main" { print $1; exit }'
}

make_root() {
  local from
  from=$(mirror)
  [[ -n $from ]] || fail "apt has no source for Debian 12 (bookworm); add one to /etc/apt/sources.list.d"
  rm -rf "$root"
  mkdir -p "$root"
  say "debootstrap into $root"
  debootstrap --variant=minbase --include=ca-certificates,git,make bookworm "$root" "$from" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log" >&2; fail "debootstrap failed"; }
  rm -f "$root.log" "$root/etc/apt/sources.list"
  cp -a /etc/apt/. "$root/etc/apt/"
  # Removes hooks of desktop packages, which are not installed there, and keeps the configuration of the sources.
  rm -f "$root"/etc/apt/apt.conf.d/{20packagekit,50appstream}
  mkdir -p "$root/usr/share/keyrings"
  cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
  cp -aL /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
  git clone -q --no-hardlinks "$top" "$root$tree"
}

go_root() { # the folder of a Go that is new enough, or nothing
  local version
  version=$(go env GOVERSION 2>/dev/null) || return 0
  version=${version#go1.}
  ((${version%%.*} >= go_floor)) && go env GOROOT
}

# Runs a command in its own namespaces, so that all mounts and processes end with it.
inside() { # COMMAND
  local environment=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  local go
  go=$(go_root)
  if [[ -n $go ]]; then
    environment+=(EGPU_REQUIRE_CLUSTER=1 "GOPROXY=$(go env GOPROXY)" GOTOOLCHAIN=local)
    mkdir -p "$root/usr/local/go"
  fi
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 tree=$2 go=$3 command=$4
    shift 4
    mount --make-rprivate /
    mount --bind "$root" "$root" # a plugin'"'"'s process makes the root private, which must be a mount
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    if [ -n "$go" ]; then mount --bind "$go" "$root/usr/local/go"; mount -o remount,bind,ro "$root/usr/local/go"; fi
    # The root of the namespace, as on a machine: processes that enter a container of the tests'"'"' node get this root.
    cd "$root"
    mkdir -p mnt/machine
    pivot_root . mnt/machine
    exec chroot . sh -c "umount -l /mnt/machine && exec \"\$@\"" sh env -i "$@" bash -c "cd $tree && $command"
  ' bash "$root" "$tree" "$go" "$1" "${environment[@]}" </dev/null
}

main() {
  [[ $(id -u) == 0 ]] || fail "needs root (debootstrap, namespaces)"
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  local took=() status=0 command
  make_root
  [[ -n $(go_root) ]] || say "no Go >= 1.$go_floor here: the tests that need a real Kubernetes are skipped"
  for command in "${commands[@]}"; do
    say "$command"
    local start=$SECONDS
    inside "$command" || status=1
    took+=("$command: $( ((status)) && echo FAILED || echo passed) after $((SECONDS - start)) s")
    ((status)) && break
  done
  printf 'fresh: %s\n' "${took[@]}"
  return "$status"
}

main
