#!/usr/bin/env bash
# Collects the files of the container image: the programs and plugins of an installation, the libraries that they load,
# the certificates of public authorities, and tar, which `kubectl cp` runs. The image has no shell and no package
# manager.
#   image_root.sh INSTALLED FOLDER
# INSTALLED is the prefix of `cmake --install`; FOLDER must not exist. The libraries are those of this machine, which
# must run Debian. Their packages are listed in var/lib/dpkg/status.d for vulnerability scanners; their licences are in
# usr/share/doc.
set -euo pipefail

(($# == 2)) || { echo "usage: image_root.sh INSTALLED FOLDER" >&2; exit 2; }
installed=$(realpath "$1")
root=$2
[[ ! -e $root ]] || { echo "error: $root exists" >&2; exit 1; }
product=$root/opt/elastic-gpu
programs=(elastic-gpu-controller elastic-gpu-agent egpu-plugin-host)
plugins=(libgpushare.so libmig.so libphysical.so libqgpu.so libremote.so libremote.yaml) # not the mock, which simulates cards

mkdir -p "$root"/{etc/ssl/certs,run,tmp,usr/bin,usr/lib/ssl,usr/lib64,usr/share/doc,var/lib/dpkg/status.d} "$product"/{bin,lib/provisioners,lib/limiter,lib/driver-limits}
chmod 1777 "$root/tmp"
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ln -s /run "$root/var/run"
for each in "${programs[@]}"; do cp "$installed/bin/$each" "$product/bin/"; done
for each in "${plugins[@]}"; do cp "$installed/lib/provisioners/$each" "$product/lib/provisioners/"; done
# The limiter's libraries, which gpushare mounts into containers. They exist only on x86-64.
for each in "$installed"/lib/limiter/*.so.1; do [[ ! -e $each ]] || cp "$each" "$product/lib/limiter/"; done
# The program that the agent installs on the host for memory limits.
cp "$installed/lib/driver-limits/driver-limits" "$product/lib/driver-limits/"
cp /usr/bin/tar "$root/usr/bin/"

mapfile -t libraries < <(ldd "$product"/bin/* "$product"/lib/provisioners/*.so "$root/usr/bin/tar" | grep -oE '/[^ ]+ \(0x' | sed 's/ (0x//' | sort -u)
for each in "${libraries[@]}"; do
  target=$root/usr${each#/usr}
  mkdir -p "$(dirname "$target")"
  cp -L "$each" "$target"
done
# dpkg finds a library by its path in the package, which can begin with /lib or /usr/lib.
owned=$(dpkg-query -S "${libraries[@]/#//usr}" "${libraries[@]#/usr}" "${libraries[@]}" 2>/dev/null || true)
for each in "${libraries[@]}"; do
  [[ $owned == *": ${each#/usr}"* || $owned == *": /usr${each#/usr}"* ]] || { echo "error: $each does not belong to a Debian package" >&2; exit 1; }
done

cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
ln -s /etc/ssl/certs "$root/usr/lib/ssl/certs"
ln -s /etc/ssl/certs/ca-certificates.crt "$root/usr/lib/ssl/cert.pem"
printf 'root:x:0:0::/:\nnonroot:x:65532:65532::/:\n' >"$root/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
cp -L /etc/os-release "$root/etc/os-release"
while read -r package; do
  dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
  mkdir -p "$root/usr/share/doc/$package"
  cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
done < <(printf '%s\n' tar: ca-certificates: "$owned" | sed 's/:.*//' | sort -u)
