#!/bin/sh
# Builds the Rust client of cudarc/ in a cache outside the tree, and runs it in a limited container.
#   rust_client.sh RUN_LIMITED SHARE
# Exit status 77 (skipped) if cargo is missing or too old, or crates.io is out of reach.
set -eu
run=$1 share=$2
command -v cargo >/dev/null || { echo "skipped: cargo is missing"; exit 77; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/elastic-gpu
mkdir -p "$cache"
exec 9>"$cache/gpu-clients-rust.lock"
flock 9
export CARGO_TARGET_DIR="$cache/gpu-clients-rust"
cd "$(dirname "$0")/cudarc"
if ! why=$(cargo fetch --quiet --locked 2>&1); then
  echo "skipped: crates.io is out of reach, or cargo is too old: $(printf '%s\n' "$why" | tail -n 1)"
  exit 77
fi
cargo build --quiet --release --locked --offline
exec "$run" "$share" "$CARGO_TARGET_DIR/release/cudarc-client" "$share"
