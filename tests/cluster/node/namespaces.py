#!/usr/bin/env python3
"""An isolated environment for one real node: a mount and a PID namespace with the node's folders, and separate cgroups.

namespaces.py hold FOLDER   create them, write FOLDER/ready (the snapshotter that works there), hold them until terminated

All of it ends with that process, however it ends: its first child is the namespace's process 1, so all processes in it are killed with it, and with the last of
them every mount is removed. Only after SIGKILL its empty cgroups remain; the next start removes them.
Exit status 77, with the reason as the last line: this machine does not permit it.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

# flake8: noqa: E402  (the cluster's modules are in the parent folder)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pki import Failure
from processes import die_with_parent, is_zombie, start_time

SKIPPED = 77
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
PREFIX = "egpu-real-"  # of cgroup names; followed by the holder's process id and start time
CONTROLLERS = ("cpu", "memory", "pids")  # without these no kubelet starts
# Values that a kubelet would otherwise set. The kubelet finds these, and the machine keeps its own.
TUNABLES = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
            "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}
# Folder of the node → its path for the node's processes. The paths are those of any node, short enough for sockets.
FOLDERS = {"run": "/run", "log": "/var/log", "kubelet": "/var/lib/kubelet"}
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Namespaces:
    """Starts processes in the namespaces of a holder. Not thread-safe."""

    def __init__(self, holder):
        self.mounts = os.open(f"/proc/{holder}/ns/mnt", os.O_RDONLY)
        self.root = os.open(f"/proc/{holder}/root", os.O_PATH)
        self.pids = os.open(f"/proc/{holder}/ns/pid_for_children", os.O_RDONLY)

    def popen(self, command, preexec_fn=None, **options):
        """Returns a subprocess.Popen; its pid is valid in this process's namespace."""

        def enter():
            checked(LIBC.setns(self.mounts, CLONE_NEWNS))
            os.fchdir(self.root)  # differs from the namespace's root if this script runs in a chroot
            os.chroot(".")
            if preexec_fn:
                preexec_fn()

        own = os.open("/proc/self/ns/pid", os.O_RDONLY)
        try:
            checked(LIBC.setns(self.pids, CLONE_NEWPID))  # for future children
            try:
                return subprocess.Popen(command, preexec_fn=enter, **options)
            finally:
                checked(LIBC.setns(own, CLONE_NEWPID))
        finally:
            os.close(own)

    def run(self, *command):
        """Returns the command's output. Raises Failure with the output if the command fails."""
        with self.popen([str(each) for each in command], die_with_parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True) as child:
            output = child.communicate()[0]
        if child.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))}: {output.strip()}")
        return output

    def path(self, inside):
        """Returns the path of a node's file for this process, also on a mount that only the node has. Valid until close()."""
        return pathlib.Path(f"/proc/self/fd/{self.root}") / inside.lstrip("/")

    def processes(self):
        """Returns the ids of all processes in the mount namespace."""
        found, wanted = [], os.fstat(self.mounts)
        for each in pathlib.Path("/proc").glob("[0-9]*/ns/mnt"):
            with contextlib.suppress(OSError):  # the process may end meanwhile
                if os.path.samestat(each.stat(), wanted):
                    found.append(int(each.parts[2]))
        return found

    def close(self):
        for each in (self.mounts, self.root, self.pids):
            os.close(each)


def cgroup_name(holder):
    return f"{PREFIX}{holder}-{start_time(holder)}"


def hierarchies():
    """Returns (mount point, type, its controllers) of each cgroup hierarchy: one of cgroup2, or several of v1."""
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split()
        if kind in ("cgroup", "cgroup2"):
            found.append((pathlib.Path(before.split()[4]), kind, set(options.split(","))))
    return found


def make_cgroups(name):
    """Creates a cgroup in each hierarchy, with every controller that its parent can delegate."""
    has = set()
    for mount_point, kind, options in hierarchies():
        own = mount_point / name
        own.mkdir()
        if kind == "cgroup":
            has |= options
            continue
        for each in (mount_point, own):
            for controller in (each / "cgroup.controllers").read_text().split():
                with contextlib.suppress(OSError):  # missing required controllers are reported below
                    (each / "cgroup.subtree_control").write_text(f"+{controller}")
        has |= set((own / "cgroup.subtree_control").read_text().split())
    if missing := set(CONTROLLERS) - has:
        raise OSError(f"cgroups without the controllers {', '.join(sorted(missing))}")


def remove_cgroups(folders, patience=10):
    """Removes the cgroups and their descendants. patience: seconds; the last process of a cgroup may still be exiting."""
    deadline = time.monotonic() + patience
    for each in (below for folder in folders for below, _, _ in os.walk(folder, topdown=False)):
        while True:
            try:
                os.rmdir(each)
            except OSError:
                if os.path.isdir(each) and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
            break


def remove_stale_cgroups():
    for mount_point, _, _ in hierarchies():
        for each in mount_point.glob(f"{PREFIX}*-*"):
            pid, started = each.name.removeprefix(PREFIX).split("-")
            if start_time(pid) != int(started) or is_zombie(pid):
                remove_cgroups([each], patience=0)


def mount(*arguments):
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())


def overlay_works(folder):
    """Returns true if an overlay's upper folder may be there, which is not the case on another overlay."""
    for each in ("upper", "work", "merged"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    try:
        mount("-t", "overlay", "overlay", "-o", f"lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work", folder / "merged")
    except OSError:
        return False
    subprocess.run(["umount", folder / "merged"], check=True)
    return True


def add_to(place, beside):
    """Makes later additions to the place, such as mount points or devices, invisible to the machine. The place's mounts remain."""
    beside.mkdir(exist_ok=True)  # it exists at the second start, as after a reboot
    mount("-t", "tmpfs", "tmpfs", beside)
    for each in ("upper", "work", "was"):
        (beside / each).mkdir()
    mount("--rbind", place, beside / "was")
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={beside}/was,upperdir={beside}/upper,workdir={beside}/work", place)
    was = [pathlib.Path(each.split()[1]) for each in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    for each in dict.fromkeys(each for each in was if each.parent == beside / "was"):
        mount("--rbind", each, f"{place}/{each.name}")
    subprocess.run(["umount", "--lazy", beside / "was"], check=True)


def mount_all(folder):
    """Runs in the namespaces: mounts /proc, and the node's folders over the machine's."""
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    add_to("/dev", folder / "dev")
    add_to("/var/lib", folder / "var-lib")
    os.makedirs(FOLDERS["kubelet"], exist_ok=True)
    for name, place in FOLDERS.items():
        (folder / name).mkdir(exist_ok=True)
        mount("--bind", folder / name, place)
    for name, value in TUNABLES.items():
        tunable = folder / name.replace("/", ".")
        tunable.write_text(f"{value}\n")
        mount("--bind", tunable, f"/proc/sys/{name}")
    mount("--make-rshared", "/")  # within these namespaces, as a kubelet expects


def be_process_one(folder):
    """Never returns. Reaps all orphans by ignoring SIGCHLD."""
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        mount_all(folder)
        snapshotter = "overlayfs" if overlay_works(folder / "probe") else "native"
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        (folder / "ready.new").write_text(snapshotter)
        (folder / "ready.new").rename(folder / "ready")
    except OSError as error:
        print(error, flush=True)
        os._exit(SKIPPED)
    while True:
        signal.pause()


def hold(folder):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    name = cgroup_name(os.getpid())
    cgroups = [mount_point / name for mount_point, _, _ in hierarchies()]  # /proc will soon belong to the other namespace
    child = None
    try:
        remove_stale_cgroups()
        make_cgroups(name)
        checked(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID))
        child = os.fork()
        if child == 0:
            be_process_one(folder)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        child = None
        return status
    except OSError as error:
        print(error, flush=True)
        return SKIPPED
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        remove_cgroups(cgroups)


if __name__ == "__main__":
    if sys.argv[1:2] != ["hold"] or len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(hold(pathlib.Path(sys.argv[2])))
