#!/bin/sh
# Runs egpu-sanity with the plugin of MIG instances on a card in MIG mode of the fake NVML.
# mig_sanity.sh SOURCE_DIR FAKE_NVML_FOLDER EGPU_SANITY PLUGIN
set -eu
root=$(mktemp -d /tmp/egpu-mig-sanity-XXXXXX)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root" # the plugin's process has a user of its own
cp "$1/tests/nvml/nodes/mig-sanity.yaml" "$root/node.yaml"
: > "$root/node.yaml.mig"
chmod 666 "$root/node.yaml.mig"
mkdir -p "$root/proc/driver/nvidia-caps"
minor=1
for gi in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
  for name in "gi$gi/access" "gi$gi/ci0/access"; do
    echo "gpu0/$name $minor"
    minor=$((minor + 1))
  done
done > "$root/proc/driver/nvidia-caps/mig-minors"
LD_LIBRARY_PATH="$2" ELASTICGPU_FAKE_NVML="$root/node.yaml" ELASTICGPU_SYSTEM_ROOT="$root" ASAN_OPTIONS=report_globals=0 \
  "$3" --cycles 20 --profile 1g.10gb "$4"
