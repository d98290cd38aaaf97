#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for the given number of seconds, two at a time.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers
mkdir -p build/fuzz/findings
ls build/fuzz/bin/fuzz_* | xargs -P "$(nproc)" -I{} sh -c '
  name=$(basename {}); corpus=build/fuzz/corpus-$name; mkdir -p $corpus
  if {} -max_total_time='"$seconds"' -timeout=20 -rss_limit_mb=4096 -artifact_prefix=build/fuzz/findings/$name- \
      $corpus tests/fuzz/corpus/${name#fuzz_} >build/fuzz/$name.log 2>&1
  then echo "$name: $(grep -E "^Done|^#.*DONE" build/fuzz/$name.log | tail -n 1)"
  else echo "$name: CRASHED, see build/fuzz/$name.log"; exit 1; fi'
