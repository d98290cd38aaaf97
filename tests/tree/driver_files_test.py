"""Proves that the DaemonSet gives the agent access to every host file that provisioners/nvidia promises to containers.  driver_files_test.py SOURCE_DIR

The agent can see only files below /host: other files would be missing in containers without any message."""
import os
import re
import sys

import yaml

root = os.path.realpath(sys.argv[1])
bad = []
# Folders that every Kubernetes host has, and the kubelet's own. The pod must start without any other folder.
ALWAYS_THERE = {"/dev", "/etc", "/lib", "/usr", "/var/lib/kubelet/plugins_registry"}
# Folders of a driver root that do not count: on a host /bin is a link into /usr, or has no driver files.
NOT_OF_THE_HOST = {"/bin/"}


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def promised():
    """Yields host paths in the table "The driver's files" and in the sources, with the place that names them."""
    text = read("provisioners/nvidia/README.md")
    table = text[text.index("**The driver's files**"):]
    table = table[table.index("|"):table.index("\n\n", table.index("|"))]
    for row in table.splitlines()[2:]:
        for path in re.findall(r"`(/[^`<]*)", row.rsplit("|", 2)[0]):
            yield path, "provisioners/nvidia/README.md"
    for name in ("driver_files", "cdi_files"):
        source = f"provisioners/nvidia/container/{name}.cpp"
        for path in re.findall(r'"(/[a-z][^"<]*)"', read(source)):
            yield path, source


def covers(folder, path):
    path = "/host" + path.rstrip("/")
    return path == folder or path.startswith(folder + "/")


def shown(pod):
    """Yields folders below /host, each backed by the folder of that name on the host."""
    volumes = {v["name"]: v["hostPath"] for v in pod["volumes"]}
    for mount in pod["containers"][0]["volumeMounts"]:
        host = volumes[mount["name"]]
        if host["type"] not in ("Directory", "DirectoryOrCreate"):
            bad.append(f"volume {mount['name']}: {host['path']} is a {host['type']}; where it is missing the pod does not start")
        if host["type"] == "Directory" and host["path"] not in ALWAYS_THERE:
            bad.append(f"volume {mount['name']}: {host['path']} may be missing, and then the pod does not start")
        if mount["mountPath"].startswith("/host/"):
            if mount["mountPath"] != "/host" + host["path"]:
                bad.append(f"mount {mount['mountPath']}: the host's {host['path']} has another name there")
            yield mount["mountPath"]


def patched(pod, overlay):
    for patch in yaml.safe_load(read(overlay)).get("patches", []):
        for op in yaml.safe_load(patch["patch"]):
            *way, last = op["path"].removeprefix("/spec/template/spec/").split("/")
            at = pod
            for part in way:
                at = at[int(part)] if isinstance(at, list) else at[part]
            assert op["op"] == "add" and last == "-", op
            at.append(op["value"])
    return pod


def agent():
    return yaml.safe_load(read("manifests/deploy/agent.yaml"))["spec"]["template"]["spec"]


paths = sorted(each for each in set(promised()) if each[0] not in NOT_OF_THE_HOST)
folders = list(shown(agent()))
for path, where in paths:
    if not any(covers(folder, path) for folder in folders):
        bad.append(f"{where}: containers are promised {path}, which deploy/agent.yaml hides from the agent")

roots = []
for name in sorted(os.listdir(os.path.join(root, "manifests/overlays"))):
    pod = patched(agent(), f"manifests/overlays/{name}/kustomization.yaml")
    folders = list(shown(pod))
    for argument in pod["containers"][0]["args"]:
        if argument.startswith("--driver-root="):
            roots.append(argument.split("=")[1])
            if not any(covers(folder, roots[-1]) for folder in folders):
                bad.append(f"manifests/overlays/{name}: the driver root {roots[-1]} is hidden from the agent")

for each in bad:
    print(each)
print(f"{len(paths)} paths promised, {len(folders)} folders shown, driver roots {', '.join(roots)}: {len(bad)} wrong")
sys.exit(1 if bad or len(paths) < 10 or len(roots) < 2 else 0)
