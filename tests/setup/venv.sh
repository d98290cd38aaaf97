#!/bin/sh
# Runs a command with packages of the Python package index.  venv.sh PYTHON REQUIREMENTS FOLDER COMMAND…
# FOLDER is a virtual environment with the packages of REQUIREMENTS, and is kept for the next run. In the command,
# EGPU_VENV is its folder of programs.
# Exit status 77 (skipped) if the package index is out of reach.
set -u
python=$1 wanted=$2 folder=$3
shift 3
if ! cmp -s "$wanted" "$folder/installed"; then
  rm -rf "$folder"
  "$python" -m venv "$folder" || { echo "cannot make a virtual environment; Debian has it in python3-venv" >&2; exit 1; }
  if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps -r "$wanted"; then
    first=$(sed -n 's/^\([A-Za-z][^=]*\)==.*/\1/p' "$wanted" | head -n 1)
    if "$folder/bin/pip" --quiet index versions "$first" >/dev/null 2>&1; then
      echo "the package index is reachable, but does not have the versions in $wanted" >&2
      exit 1
    fi
    echo "skipped: the package index is out of reach"
    exit 77
  fi
  cp "$wanted" "$folder/installed"
fi
EGPU_VENV=$folder/bin exec "$@"
