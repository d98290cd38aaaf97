#!/bin/sh
# Runs a command with packages of the Python package index that are too large for a folder of each build.
#   cached_venv.sh PYTHON REQUIREMENTS NAME COMMAND…     as tests/setup/venv.sh, with a folder NAME in a cache outside the tree
# Concurrent runs wait for each other.
set -eu
python=$1 wanted=$2 name=$3
shift 3
cache=${XDG_CACHE_HOME:-$HOME/.cache}/elastic-gpu
mkdir -p "$cache"
export PIP_NO_CACHE_DIR=1
exec flock "$cache/$name.lock" sh "$(dirname "$0")/../../setup/venv.sh" "$python" "$wanted" "$cache/$name" "$@"
