#!/usr/bin/env bash
# Runs ctest on a build folder and closes with ctest's own summary. Says which suites were skipped and why.
#   run_tests.sh BUILD_DIR [CTEST_OPTION...]
set -uo pipefail
dir=${1:?usage: run_tests.sh BUILD_DIR [CTEST_OPTION...]}
shift
# For every program that a test starts; without ThreadSanitizer nobody reads it.
TSAN_OPTIONS="suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp ${TSAN_OPTIONS:-}"
export TSAN_OPTIONS
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ctest --test-dir "$dir" --output-on-failure -j "$(nproc)" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
if grep -q '\*\*\*Skipped' "$log"; then
  echo
  echo "Skipped, because the real Kubernetes API server is built with Go ≥ 1.26 and none was found:"
  grep '\*\*\*Skipped' "$log" | sed -E 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+).*/  \1/'
fi
grep -E '^[0-9]+% tests passed' "$log"
exit "$status"
