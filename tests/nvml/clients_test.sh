#!/bin/sh
# Runs a test with third-party NVML clients installed.  clients_test.sh PYTHON REQUIREMENTS FOLDER TEST…
# FOLDER keeps them for the next run. Exit status 77 (skipped) if the package index is out of reach.
EGPU_NVML_CLIENTS=$3/bin exec sh "$(dirname "$0")/../setup/venv.sh" "$@"
