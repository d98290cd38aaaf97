#!/bin/sh
# Runs egpu-sanity on the plugin for remote GPUs, with the example pool server.
# remote_sanity.sh PYTHON SOURCE_DIR EGPU_SANITY PLUGIN
set -eu
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || :; rm -rf "$folder"' EXIT
chmod 755 "$folder"  # the plugin may have a user of its own
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=pool \
  -addext subjectAltName=IP:127.0.0.1 -keyout "$folder/key" -out "$folder/cert" 2>/dev/null
echo token > "$folder/token"
chmod 644 "$folder/cert" "$folder/token"
"$1" "$2/provisioners/remote/pool_server.py" --gpus 64 --cert "$folder/cert" --key "$folder/key" \
  --token-file "$folder/token" > "$folder/url" &
server=$!
until [ -s "$folder/url" ]; do sleep 0.1; done
"$3" --cycles 20 --param pool="$(cat "$folder/url")" --param owner=sanity --param caFile="$folder/cert" \
  --param tokenFile="$folder/token" "$4"
