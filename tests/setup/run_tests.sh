#!/usr/bin/env bash
# Runs ctest on a build folder. Prints the skipped suites with the reasons, the failures, and ctest's summary.
#   run_tests.sh BUILD_DIR [CTEST_OPTION...]
set -uo pipefail
dir=${1:?usage: run_tests.sh BUILD_DIR [CTEST_OPTION...]}
shift
# For all programs that tests start. Only ThreadSanitizer reads it.
TSAN_OPTIONS="suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp ${TSAN_OPTIONS:-}"
export TSAN_OPTIONS
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Three tests per two processors: the suites on a real cluster, which run first, use half of the processor time.
jobs=$(((3 * $(nproc) + 1) / 2))
ctest --test-dir "$dir" --output-on-failure -j "$jobs" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
# Prints skipped suites whose names match $1 and not $3, with the reason $2.
skipped() { # PATTERN WHY [BUT]
  local names
  names=$(grep '\*\*\*Skipped' "$log" | sed -E 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+).*/\1/' | grep -E "$1" | grep -vE "${3:-^$}") || return 0
  printf '\nSkipped, because %s:\n' "$2"
  sed 's/^/  /' <<<"$names"
}
skipped '^provisioners_skeleton_' "this machine has no compiler of that language"
on_real_node='^(real_node|cluster_(agent|first_pod|install|isolation|node_faults|up_real_node))'
with_tools='^(chart_|monitoring_|cluster_(alerts|agent_alerts|first_pod)$)'
skipped "$with_tools" "helm or promtool is not built: make tools (Go ≥ 1.26)"
skipped '^(nvml_clients|limiter_clients)' "a package index of their language or Go itself is out of reach; the log has the reason"
skipped '^docs_site' "the Python package index is out of reach"
skipped '^docs_image' "buildah is missing or cannot run: it needs root"
skipped '^page_test' "chromium or npm is missing, or a package index is out of reach: apt-get install chromium npm"
skipped '^(cluster_|crd_real|kube_contract_real|reconcile_real)' "the real Kubernetes is built with Go ≥ 1.26 and none was found" "$on_real_node|$with_tools"
skipped "$on_real_node" "a real node needs root, cgroups of its own, namespaces, runc, a static busybox and Go ≥ 1.26" "$with_tools"
# Prints the errors of failed suites again, because the logs are long.
failures() {
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ { suite = /\*\*\*(Failed|Timeout|Exception|Not Run)/ ? $0 : ""; shown = 0; if (suite != "") print; next }
       /^[0-9]+% tests passed/ { exit }
       suite != "" && shown < 20 && /FAILED|Failure$|AssertionError|Error: |runtime error|Sanitizer:/ { print "    " substr($0, 1, 500); ++shown }' "$log"
}
[ "$status" = 0 ] || printf '\nWhat failed:\n%s\n\n' "$(failures)"
grep -E '^[0-9]+% tests passed' "$log"
exit "$status"
