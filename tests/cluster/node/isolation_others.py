"""Parts of isolation_test.py: limits that a program of another party sets (HAMi-core, qGPU), and GPUs of a pool (remote)."""

import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request

import installation
import real_node
from client import NODES, claims, pods, until
from ground import LIMITER
from isolation_ground import check_reports, make_class

POOL_SERVER = installation.ROOT / "provisioners" / "remote" / "pool_server.py"
OWNER = "isolation-test"
LEASE = 30  # seconds, the shortest; the agent renews a lease after a third
VENDOR = "/run/vendor"  # folder of the node
QGPU = {"mode": "qgpu", "memory": "Soft", "compute": "Soft", "faults": "Soft"}
REMOTE = {"mode": "remote", "memory": "None", "compute": "None", "faults": "Soft"}
QGPU_FILES = ("/dev/qgpu/{device}", "/dev/qgpu-ctl")
NVIDIA_MAJOR = 195


def check_hami_core(tenant):
    """HAMi-core's files and variables in a container; its library limits the container, see check_mode."""
    ground, report, node = tenant.ground, tenant.ground.report, tenant.ground.node
    environment, _ = ground.got("hami-core", "main")
    report.check("hami-core: its limits", [environment.get(f"CUDA_DEVICE_{each}") for each in ("MEMORY_LIMIT_0", "SM_LIMIT")] == ["4096m", "10"], environment)
    mounts = {each[1]: each[3][:2] for each in map(str.split, ground.printed("hami-core", "main")) if len(each) == 6 and each[1] in LIMITER}
    report.check("hami-core: its mounts", mounts == LIMITER, mounts)
    tenant.remove("hami-core")
    cache = node.namespaces.path(f"{real_node.STATE}/hami-core/cache")
    until("the cache of the device is removed", lambda: not list(cache.iterdir()))


def check_qgpu(tenant):
    """qGPU: a container does not start without the device files of its driver, and gets them, its device's name and no other files."""
    ground, report, node = tenant.ground, tenant.ground.report, tenant.ground.node
    tenant.share("qgpu", "qgpu", core=25, memory=6, prefix="elasticgpu.io")
    until("qgpu is bound", lambda: tenant.bound("qgpu").get("status") == "True")
    device = check_reports(tenant, "qgpu", "qgpu", QGPU)
    name = f"qgpu-{device['metadata']['uid']}"
    wanted = [each.format(device=name) for each in QGPU_FILES]
    report.check("qgpu: the device names its files", device["spec"]["qGPU"]["deviceName"] == name and device["spec"]["qGPU"]["paths"] == wanted, device["spec"])
    node.namespaces.run("sh", "-ec", f"mkdir /dev/qgpu; mknod -m 666 /dev/qgpu/other c {NVIDIA_MAJOR} 200; mknod -m 666 {wanted[1]} c {NVIDIA_MAJOR} 201")
    tenant.pod("qgpu", "qgpu")
    ground.refused("qgpu without its file", "qgpu", wanted[0])
    node.namespaces.run("mknod", "-m", "666", wanted[0], "c", NVIDIA_MAJOR, 202)
    ground.runs("qgpu")
    environment, _ = ground.got("qgpu", "main")
    told = [environment.get(f"ELASTICGPU_{each}") for each in ("QGPU_DEVICE", "ISOLATION", "CORE_0", "MEMORY_0")]
    report.check("qgpu: the container is told its device and amounts", told == [name, "qgpu", "250", str(6 << 30)], told)
    files = sorted(each for each in ground.printed("qgpu", "main") if each.startswith("/dev/qgpu"))
    report.check("qgpu: the container has the files of its device and no other", files == sorted(wanted), files)
    # No driver serves these files here. A file that the container's cgroup does not permit would be refused with another message.
    opened = ground.kubectl("exec", "qgpu", "--", "sh", "-c", f"cat {' '.join(wanted)} 2>&1; true")
    report.check("qgpu: it may open them", opened.count("No such device or address") == len(wanted), opened)
    tenant.remove("qgpu")


class PoolServer:
    """pool_server.py with one GPU, and a folder with its certificate. Plugins can read it if it exists when they start."""

    def __init__(self, processes):
        self.processes, self.url = processes, ""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="egpu-pool-"))
        self.certificate = self.folder / "cert.pem"

    def __enter__(self):
        self.folder.chmod(0o755)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=pool",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "key.pem", "-out", self.certificate], check=True, capture_output=True)
        self.certificate.chmod(0o644)
        self.processes.start("pool", [sys.executable, POOL_SERVER, "--gpus", 1, "--cert", self.certificate, "--key", self.folder / "key.pem"])
        until("the pool answers", lambda: self.processes.tail("pool", 1).startswith("https"))
        self.url = self.processes.tail("pool", 1)
        return self

    def __exit__(self, *_):
        self.processes.stop("pool")
        shutil.rmtree(self.folder)

    def leases(self):
        """Returns the number of renewals of each lease, by its key."""
        context = ssl.create_default_context(cafile=self.certificate)
        with urllib.request.urlopen(f"{self.url}/v1/leases?owner={OWNER}", context=context, timeout=10) as answer:
            return json.load(answer)["renewals"]


def check_remote(tenant, pool):
    """A GPU of a pool: the container gets its address and the client's libraries; the agent renews the lease, also a next agent; the deletion ends it."""
    ground, report, node, admin = tenant.ground, tenant.ground.report, tenant.ground.node, tenant.admin
    node.namespaces.run("sh", "-ec", f"mkdir -p {VENDOR}/lib; echo a library > {VENDOR}/lib/libclient.so")
    make_class(admin, "pool", "remote.provisioner.elasticgpu.io",
               {"pool": pool.url, "owner": OWNER, "caFile": str(pool.certificate), "leaseSeconds": str(LEASE), "endpointVariable": "VENDOR_SERVER",
                "mounts": f"{VENDOR}/lib:/usr/lib/vendor", "hostPaths": f"{VENDOR}/"})
    admin.patch(f"{NODES}/{node.name}", {"metadata": {"labels": {"elasticgpu.io/agent": "true"}}})  # as for a node without GPUs
    tenant.claim("remote", "pool", {"elasticgpu.io/gpu": 1})
    tenant.pod("remote", "remote")
    ground.runs("remote")
    device = check_reports(tenant, "remote", "remote", REMOTE)
    uid, endpoint = device["metadata"]["uid"], device["spec"]["remote"]["endpoint"]
    report.check("remote: the pool has its lease", list(pool.leases()) == [uid], pool.leases())
    environment, devices = ground.got("remote", "main")
    told = [environment.get(each) for each in ("ELASTICGPU_REMOTE_ENDPOINT", "VENDOR_SERVER", "ELASTICGPU_ISOLATION")]
    report.check("remote: the container is told the address and the mode", told == [endpoint, endpoint, "remote"], told)
    report.check("remote: it has no card of the node", not devices, devices)
    library = ground.kubectl("exec", "remote", "--", "sh", "-c", "cat /usr/lib/vendor/libclient.so; echo x > /usr/lib/vendor/libclient.so")
    report.check("remote: it has the client's libraries, read-only", library.startswith("a library\n") and "Read-only file system" in library, library)
    tenant.claim("remote-2", "pool", {"elasticgpu.io/gpu": 1})
    full = f"pool {pool.url} is full: all 1 GPUs are leased"
    until("a claim reports the full pool", lambda: full in tenant.bound("remote-2").get("message", ""))
    until("the agent renews the lease", lambda: pool.leases()[uid] > 0)
    node.kill("agent")
    node.restart("agent")
    renewed = pool.leases()[uid]
    until("the next agent renews the lease", lambda: pool.leases()[uid] > renewed)
    report.check("remote: the container runs", admin.get(f"{pods()}/remote")["status"]["phase"] == "Running")
    admin.delete(f"{claims()}/remote-2")
    tenant.remove("remote")
    until("the lease is released", lambda: not pool.leases())
