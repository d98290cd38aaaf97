#!/usr/bin/env bash
# Style and static checks; any finding fails.
#   lint.sh          clang-format, tree tests, commit subjects, clang-tidy on all sources that the dev build compiles
#   lint.sh --fast   the same, with clang-tidy only on sources that changed since LINT_SINCE, at most LINT_MAX of them
# LINT_SINCE is a commit. The default is the last one that is a day older than HEAD, so that the latest changes are
# checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
fast=${1:-}
max=${LINT_MAX:-40}
# The first commit after which all commits satisfy the rule of subjects.
subjects_since=0b523c7b0757f8dc7558c1e93a71b2867f1f6e85

git ls-files '*.h' '*.hpp' '*.c' '*.cpp' | xargs clang-format-14 --dry-run --Werror
for test in words includes functions one_unit state_machine pod_claims language shape; do
  python3 "tests/tree/${test}_test.py" . >/tmp/lint-tree.$$ || { cat /tmp/lint-tree.$$; rm -f /tmp/lint-tree.$$; echo "lint: tests/tree/${test}_test.py failed" >&2; exit 1; }
done
rm -f /tmp/lint-tree.$$
if git cat-file -e "$subjects_since^{commit}" 2>/dev/null; then
  git log --format=%s "$subjects_since..HEAD" | python3 tests/setup/commit_subjects.py
else
  echo "lint: commit subjects are not checked: this clone is too shallow" >&2
fi

cmake -S . -B build/lint -G Ninja -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER= >/dev/null
# Only sources: generated files have no style.
sources() { git ls-files 'api/*.cpp' 'controller/*.cpp' 'provisioners/*.cpp'; }
if [ "$fast" = --fast ]; then
  since=${LINT_SINCE:-$(git rev-list -1 --before="$(($(git show -s --format=%ct HEAD) - 86400))" HEAD)}
  changed=$([ -z "$since" ] || git diff --name-only --diff-filter=d "$since" HEAD -- 'api/*.cpp' 'controller/*.cpp' 'provisioners/*.cpp')
  if [ -z "$since" ]; then
    echo "lint: no commit is a day older than HEAD in this clone: clang-tidy selects from all sources" >&2
    changed=$(git ls-files 'api/*.cpp' 'controller/*.cpp' 'provisioners/*.cpp')
  fi
  count=$(printf '%s' "$changed" | grep -c . || true)
  [ "$count" -le "$max" ] || echo "lint: clang-tidy checks $max of $count changed sources; make lint checks all" >&2
  # Selects sources from the whole list, so that all folders are covered.
  sources() { [ -z "$changed" ] || printf '%s\n' "$changed" | awk -v n="$count" -v max="$max" 'int(NR * max / n) > int((NR - 1) * max / n) || n <= max'; }
fi
# g++ compiles, with a warning option that clang does not know. -Wthread-safety checks the annotations of controller/base/mutex.h.
# One process per processor; each needs half a GiB.
sources | xargs -r -P "$(nproc)" -n 1 sh -c 'clang-tidy-14 --quiet -p build/lint --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wthread-safety "$0" 2>/dev/null || { echo "clang-tidy: $0" >&2; exit 255; }'
echo "lint: clean"
