"""Container images of one layer, each a tar that `ctr images import` takes: a statically linked busybox, and the installed files of Elastic GPU."""

import hashlib
import io
import json
import pathlib
import re
import subprocess
import tarfile

# Prints the container's environment, devices and mounts at once; then waits for further commands.
COMMAND = ["/bin/sh", "-c", "got=$(env | sort; find /dev -type c -o -type b | sort; cat /proc/self/mounts); echo \"$got\"; "
           "trap exit TERM; sleep infinity & wait"]
OURS = "opt/elastic-gpu"


def busybox(path, program, names):
    """Writes the image under all these names."""
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    _write(path, {"Cmd": COMMAND, "Env": ["PATH=/bin"]}, names, {"bin/busybox": program},
           {f"bin/{each}": "busybox" for each in applets if each != "busybox"}, ("bin", "etc", "tmp"))


def product(path, build_dir, names):
    """Writes the image that the Containerfile makes of a build: the project's programs, the plugins for real cards, and the libraries that they need."""
    stage = path.with_suffix(".stage")
    subprocess.run(["cmake", "--install", build_dir, "--strip", "--prefix", stage / OURS], check=True, stdout=subprocess.DEVNULL)
    programs = [OURS + "/bin/" + each for each in ("elastic-gpu-controller", "elastic-gpu-agent", "egpu-plugin-host")]
    plugins = [f"{OURS}/lib/provisioners/lib{each}.so" for each in ("gpushare", "physical")]
    files = {each: stage / each for each in (*programs, *plugins)}
    for each in list(files.values()):
        output = subprocess.run(["ldd", each], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", output):
            files[f"usr/lib{library.split('/lib', 1)[1]}"] = library  # Debian's /lib is a link to /usr/lib
    files |= {f"{OURS}/lib/limiter/{each.name}": each for each in (stage / OURS / "lib/limiter").glob("*.so.1")}
    _write(path, {"Entrypoint": ["/" + programs[0]], "Cmd": ["run"], "User": "65532:65532", "ExposedPorts": {}}, names, files,
           {"lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run"}, ("etc", "run", "tmp", "usr/lib", "usr/lib64", "var/lib"))


def _write(path, config, names, files, links, folders):
    layer = _tar({name: pathlib.Path(each).read_bytes() for name, each in files.items()}, links, folders)
    described = json.dumps({"architecture": "amd64", "os": "linux", "config": config,
                            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]).encode()
    path.write_bytes(_tar({"layer.tar": layer, "config.json": described, "manifest.json": manifest}))


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
