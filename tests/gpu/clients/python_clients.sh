#!/bin/sh
# Runs each client of python_clients.py in a limited container.  python_clients.sh RUN_LIMITED SHARE CLIENT…
# EGPU_VENV is the folder of programs of the environment (cached_venv.sh, tests/setup/venv.sh).
set -eu
run=$1 share=$2
shift 2
for client in "$@"; do
  NVRTC_PATH=$(find "$EGPU_VENV/../lib" -name 'libnvrtc.so.*' -print -quit)
  export NVRTC_PATH # where tinygrad finds NVRTC
  "$run" "$share" "$EGPU_VENV/python3" "$(dirname "$0")/python_clients.py" "$client" "$share"
done
