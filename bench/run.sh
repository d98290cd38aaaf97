#!/usr/bin/env bash
# Runs all benchmarks and prints their tables; writes bench/openb.svg.  run.sh BIN_DIR [filter]
# With a filter, runs only the matching benchmarks, without the traces, the real API server and the crowds of claims.
# Fails if a figure of a crowd misses its target by more than 20 %.
set -euo pipefail
bin=${1:?usage: run.sh BIN_DIR [filter]}
for b in decide_bench topology_bench watch_bench memory_bench bind_bench prepare_bench client_bench; do
  printf '\n== %s\n' "$b"
  "$bin/$b" --benchmark_counters_tabular=true ${2:+--benchmark_filter="$2"}
done
if [ $# -lt 2 ]; then
  printf '\n== extender_bench\n'
  "$bin/extender_bench"
  printf '\n== quota_bench\n'
  "$bin/quota_bench"
  printf '\n== gang_bench\n'
  "$bin/gang_bench"
  printf '\n== moves_bench\n'
  "$bin/moves_bench"
  if [ -x "$bin/limiter_bench" ]; then
    printf '\n== limiter_bench\n'
    "$bin/limiter_bench"
  fi
  printf '\n== kubectl egpu\n'
  python3 "$(dirname "$0")/kubectl_verbs.py" "$bin"
  printf '\n== openb\n'
  python3 "$(dirname "$0")/openb_table.py" "$bin" --picture "$(dirname "$0")/openb.svg"
  python3 "$(dirname "$0")/churn_table.py" "$bin"
  printf '\n== against a real API server\n'
  python3 "$(dirname "$0")/real_server.py" "$bin" || { status=$?; [ "$status" -eq 77 ] || exit "$status"; }
  python3 "$(dirname "$0")/deployment.py" "$bin" || { status=$?; [ "$status" -eq 77 ] || exit "$status"; }
  printf '\n== crowds of claims against their targets\n'
  missed=0
  python3 "$(dirname "$0")/scale/run.py" "$bin" || missed=$?
  printf '\n== crowds of claims on a real cluster against their targets\n'
  python3 "$(dirname "$0")/scale/run.py" "$bin" --real || { status=$?; [ "$status" -eq 77 ] || missed=$status; }
  exit "$missed"
fi
