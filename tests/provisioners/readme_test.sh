#!/bin/sh
# Follows provisioners/README.md: builds its code block with the headers and a compiler, and runs egpu-sanity.
# usage: readme_test.sh SOURCE_DIR BIN_DIR CXX
set -eu
source=$1 bin=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/egpu/api/plugin"
cp "$source"/api/plugin/*.h "$source"/api/plugin/*.hpp "$work/egpu/api/plugin/"

block() {  # the first fenced block of a language
  awk -v fence="\`\`\`$1" '$0 == fence && !done {on = 1; next} on && /^```/ {exit} on' "$source/provisioners/README.md"
}
block cpp > "$work/hello.cpp"
block sh > "$work/build.sh"
lines=$(wc -l < "$work/hello.cpp")
echo "the README's plugin has $lines lines"
test "$lines" -ge 20 && test "$lines" -le 45

# Runs the commands of the README. Only "c++" is replaced with the compiler of this build.
sed -i "s|^c++ |$cxx |" "$work/build.sh"
cd "$work"
EGPU="$work/egpu" BIN="$bin" sh -eu build.sh | tee output
grep -q '^hello.example.com 1.0' output
grep -q ' passed, 0 failed$' output
