#!/bin/sh
# Fetches JCuda (jcuda/pom.xml) into a cache outside the tree, and runs its client in a limited container.
#   java_client.sh RUN_LIMITED SHARE
# Exit status 77 (skipped) if Java or Maven is missing, or Maven's repository is out of reach.
set -eu
run=$1 share=$2 here=$(cd "$(dirname "$0")/jcuda" && pwd)
for each in java mvn; do
  command -v "$each" >/dev/null || { echo "skipped: $each is missing"; exit 77; }
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/elastic-gpu
folder=$cache/gpu-clients-java
mkdir -p "$cache"
exec 9>"$folder.lock"
flock 9
if ! cmp -s "$here/pom.xml" "$folder/pom.xml"; then
  rm -rf "$folder"
  if ! why=$(mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/lib" 2>&1); then
    echo "skipped: Maven's repository is out of reach: $(printf '%s\n' "$why" | grep -m 1 ERROR)"
    exit 77
  fi
  cp "$here/pom.xml" "$folder/"
fi
# JCuda unpacks its native library there.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$run" "$share" java -Djava.io.tmpdir="$scratch" -cp "$folder/lib/*" "$here/Client.java" "$share"
