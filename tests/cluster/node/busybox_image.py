"""A container image of one layer, made of a statically linked busybox: a tar that `ctr images import` takes."""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile

# What a container got, all at once for whoever reads its log; then it waits to be asked for more.
COMMAND = ["/bin/sh", "-c", "got=$(env | sort; find /dev -type c -o -type b | sort; cat /proc/self/mounts); echo \"$got\"; "
           "trap exit TERM; sleep infinity & wait"]


def write(path, busybox, names):
    """The image under all these names."""
    layer = _tar({"bin/busybox": pathlib.Path(busybox).read_bytes()},
                 {f"bin/{each}": "busybox" for each in _applets(busybox) if each != "busybox"}, ("bin", "etc", "tmp"))
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Cmd": COMMAND, "Env": ["PATH=/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]).encode()
    path.write_bytes(_tar({"layer.tar": layer, "config.json": config, "manifest.json": manifest}))


def _applets(busybox):
    return subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()


def _tar(files, links=None, folders=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name, kind, content=b"", target=""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.size, entry.linkname = kind, 0o755, len(content), target
            tar.addfile(entry, io.BytesIO(content))

        for name in folders:
            add(name, tarfile.DIRTYPE)
        for name, content in files.items():
            add(name, tarfile.REGTYPE, content)
        for name, target in (links or {}).items():
            add(name, tarfile.SYMTYPE, target=target)
    return buffer.getvalue()
