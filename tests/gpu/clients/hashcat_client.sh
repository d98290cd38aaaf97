#!/bin/sh
# Checks that hashcat, in a limited container, shows the share as the memory of each card. It cannot fill a card, because the fake
# driver computes nothing.
#   hashcat_client.sh RUN_LIMITED SHARE
# EGPU_VENV is the folder of programs of an environment with NVRTC (cached_venv.sh). Exit status 77 (skipped) without hashcat.
set -eu
run=$1 share=$2
command -v hashcat >/dev/null || { echo "skipped: hashcat is missing"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for each in $(find "$EGPU_VENV/../lib" -name 'libnvrtc*.so*'); do ln -s "$(realpath "$each")" "$scratch/"; done
ln -s "$(realpath "$(find "$EGPU_VENV/../lib" -name 'libnvrtc.so.*' -print -quit)")" "$scratch/libnvrtc.so"
export HOME="$scratch" XDG_DATA_HOME="$scratch" XDG_CACHE_HOME="$scratch" NVRTC="$scratch"
shown=$("$run" "$share" sh -c 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$NVRTC exec hashcat -I' | sed -n 's/^ *Memory\.Total\.*: *//p' | sort | uniq -c)
expected="2 $((share >> 20)) MB"
[ "$(echo $shown)" = "$expected" ] || { echo "hashcat shows the memory '$shown' instead of '$expected'"; exit 1; }
echo "hashcat: share $((share >> 20)) MiB"
