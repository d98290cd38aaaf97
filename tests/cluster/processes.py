"""Processes of a cluster: starts them, records them by id and start time, and ends exactly these."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import time

RECORD = "processes.json"
TICKS = os.sysconf("SC_CLK_TCK")  # per second
# Seconds from SIGTERM to SIGKILL: the controller drains for up to 20 and may then need 10 to release its lease.
PATIENCE = 40


def start_time(pid):
    """Returns a process's start time in ticks, which distinguishes it from a later process with the same id."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False


def used(pid):
    """(seconds of CPU so far, MiB resident) of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def die_with_parent():
    """Runs in the child: a killed test must not leave servers behind (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Processes:
    """Named processes of one folder: NAME.log each, and processes.json, by which another script can end them.

    stays: they outlive this process. Otherwise they die with it, however it ends. Not thread-safe."""

    def __init__(self, folder, stays=False):
        self.folder = pathlib.Path(folder)
        self.stays = stays
        self.commands = {}  # name -> (command, environment, inside), also of ended processes: restart() needs it
        self.children = {}  # name -> Popen, in the order of their start

    def start(self, name, command, environment=None, inside=None):
        """Starts a process; its log is appended to. inside: the Namespaces that it runs in."""
        self.commands[name] = (command, environment, inside)
        popen = inside.popen if inside else subprocess.Popen
        with open(self.folder / f"{name}.log", "ab") as log:
            child = popen([str(each) for each in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                          env={**os.environ, **(environment or {})}, start_new_session=self.stays,
                          preexec_fn=None if self.stays else die_with_parent)
        self.children[name] = child
        self._record()
        return child

    def restart(self, name):
        """Starts a process again, with its command, after stop() or kill()."""
        return self.start(name, *self.commands[name])

    def stop(self, name):
        """Sends SIGTERM, and SIGKILL if that takes too long. Returns the exit status, or None if it does not run."""
        child = self.children.pop(name, None)
        if child is None:
            return None
        child.terminate()
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._record()
        return child.returncode

    def kill(self, name):
        """Sends SIGKILL, so that the process cannot clean up."""
        child = self.children.pop(name)
        child.kill()
        child.wait()
        self._record()

    def pause(self, name):
        self.children[name].send_signal(signal.SIGSTOP)

    def resume(self, name):
        self.children[name].send_signal(signal.SIGCONT)

    def stop_all(self):
        for name in reversed(list(self.children)):
            self.stop(name)

    def ended(self):
        """Returns the name of a process that ended by itself, or None."""
        return next((name for name, child in self.children.items() if child.poll() is not None), None)

    def tail(self, name, lines=15):
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _record(self):
        now = [{"name": name, "pid": child.pid, "started": start_time(child.pid)} for name, child in self.children.items()]
        beside = self.folder / f".{RECORD}.new"
        beside.write_text(json.dumps(now, indent=1) + "\n")
        beside.rename(self.folder / RECORD)


def running(folder):
    """The names of the recorded processes that still run."""
    try:
        record = json.loads((pathlib.Path(folder) / RECORD).read_text())
    except FileNotFoundError:
        return []
    return [each["name"] for each in record if start_time(each["pid"]) == each["started"] and not is_zombie(each["pid"])]


def stop_recorded(folder):
    """Ends the processes that another script recorded, but no later process with one of their ids. Returns the names
    of those that ran."""
    record = pathlib.Path(folder) / RECORD
    stopped = running(folder)
    if not record.exists():
        return stopped
    for each in reversed(json.loads(record.read_text())):
        pid, started = each["pid"], each["started"]
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if start_time(pid) != started or is_zombie(pid):
                break
            os.kill(pid, sent)
            deadline = time.monotonic() + PATIENCE
            while start_time(pid) == started and not is_zombie(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
    record.unlink()
    return stopped
