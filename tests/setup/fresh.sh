#!/usr/bin/env bash
# Runs the README's two commands where nothing is cached: a Debian 12 root of its own, made by debootstrap, with the committed
# tree cloned into it. What only this machine's caches, packages or home folder provide is missing there.
#   fresh.sh [COMMAND...]   default: "make run" "make test"
# Taken from this machine: apt's sources and the certificates it trusts, the Go module proxy's address, and Go itself, read-only, if
# it is new enough (Debian 12's is too old). The root stands in $EGPU_FRESH_ROOT (default build/fresh) and is made anew each time.
# Needs root. Exit: 0 all commands ended with 0; 1 one did not, or the root could not be made.
set -euo pipefail

cd "$(dirname "$0")/../.."
readonly top=$PWD
readonly root=${EGPU_FRESH_ROOT:-$top/build/fresh}
readonly tree=/home/elastic-gpu
if (($#)); then commands=("$@"); else commands=("make run" "make test"); fi
readonly commands
readonly go_floor=26 # of Go 1.x, as tests/cluster/build.sh

say() { printf 'fresh: %s\n' "$*"; }
fail() { say "error: $*" >&2; exit 1; }

# apt's own first source for Debian 12, so that what this machine can reach is what is used.
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
  # Hooks of desktop packages that are not there; what says how to reach the sources stays.
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

# In namespaces of its own, so that every mount and every process ends with the command.
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
    mount --bind "$root" "$root" # a machine'"'"'s root is a mount, which a plugin'"'"'s process makes private for itself
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    if [ -n "$go" ]; then mount --bind "$go" "$root/usr/local/go"; mount -o remount,bind,ro "$root/usr/local/go"; fi
    # The namespace'"'"'s own root, as on a machine: what enters a container of the tests'"'"' node comes to the root of its namespace.
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
  [[ -n $(go_root) ]] || say "no Go >= 1.$go_floor here: the suites that need a real Kubernetes will say that they are skipped"
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
