#!/bin/sh
# Builds a skeleton outside the tree, as a vendor would, and tests whether it satisfies the contract. Uses no registry.
# usage: skeleton_test.sh c|rust|go SOURCE_DIR BIN_DIR CC CYCLES
# Exit status 77 if the language's compiler is missing.
set -eu
language=$1 source=$2 bin=$3 cc=$4 cycles=$5
case "$language" in
  c) ;;
  rust) command -v rustc >/dev/null || { echo "skipped: there is no rustc on this machine"; exit 77; } ;;
  go) command -v go >/dev/null || { echo "skipped: there is no go on this machine"; exit 77; } ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/egpu/api" "$work/skeleton"
cp -r "$source/api/plugin" "$work/egpu/api/plugin"
cp "$source/provisioners/skeletons/$language/"* "$work/skeleton/"
cd "$work/skeleton"
EGPU=$work/egpu
case "$language" in
  c) "$cc" -std=c11 -Wall -Wextra -Werror -pedantic -shared -fPIC -fvisibility=hidden -I "$EGPU" -o libskeleton.so skeleton.c -pthread ;;
  rust) rustc --edition 2021 --crate-type cdylib -D warnings -O -o libskeleton.so skeleton.rs ;;
  go) CC=$cc CGO_ENABLED=1 CGO_CFLAGS="-I$EGPU" GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOCACHE="${GOCACHE:-$work/cache}" GOPATH=$work/go \
    go build -buildmode=c-shared -o libskeleton.so . ;;
esac
"$bin/egpu-sanity" --cycles "$cycles" --param greeting=hi libskeleton.so | tee output
grep -q "^$language-skeleton.example.com 1.0" output
grep -q ' passed, 0 failed$' output
