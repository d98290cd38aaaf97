#!/bin/sh
# Runs a test with other parties' NVML clients installed.  clients_test.sh PYTHON REQUIREMENTS FOLDER TEST…
# FOLDER keeps them for the next run. Exit status 77 (skipped) if the package index is out of reach.
set -u
python=$1 wanted=$2 folder=$3
shift 3
if ! cmp -s "$wanted" "$folder/installed"; then
  rm -rf "$folder"
  "$python" -m venv "$folder" || { echo "cannot make a virtual environment; Debian has it in python3-venv" >&2; exit 1; }
  if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps -r "$wanted"; then
    if "$folder/bin/pip" --quiet index versions nvidia-ml-py >/dev/null 2>&1; then
      echo "the package index is reachable, but does not give the versions of $wanted" >&2
      exit 1
    fi
    echo "skipped: the package index is out of reach"
    exit 77
  fi
  cp "$wanted" "$folder/installed"
fi
EGPU_NVML_CLIENTS=$folder/bin exec "$@"
