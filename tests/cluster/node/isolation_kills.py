"""Part of isolation_test.py: pods with each limit start and end while the agent is killed right after each of its steps, and at random times."""

import collections
import concurrent.futures
import contextlib
import os
import pathlib
import struct
import time

import real_node
from client import claims, pods, until
from isolation_ground import DRIVER_ROOT, INSTANCES, MIG, MIG_PLACE, OUT_OF_MEMORY, PROMISED
from watch import CREATE, DELETE, MODIFY, MOVED_TO, Watch

MODES = {"limiter": PROMISED["limiter"], "mps": PROMISED["mps"], "mig": MIG}
BATCH = (*["limiter", "mps", "mig"] * 7,)  # a card has seven of the MIG instances
WITHOUT_MPS = 8  # number of batches of which one has no pods with MPS, and after which the daemon ends
KILLS, MAX_PAUSE = 2, 0.7  # at steps, besides one at a random time, while a batch starts and while it ends; seconds before the latter
PATIENCE, IDLE = 6, 90  # seconds until a step, then the agent is killed without it; until an unused daemon ends
AT_ONCE = 4  # programs
MANY = 200  # pods that suffice to see the expected states
CDI, LIMITER = "/run/cdi", f"{real_node.STATE}/limiter/devices"
RECORDS, DAEMONS = f"{real_node.STATE}/mig", f"{real_node.STATE}/mps-daemons"
LIMITER_FILES = {"libraries", "usage", "limits"}


class Step:
    """A change of the node's files by the agent or a plugin. count: number of these changes since the start of the watch."""

    def __init__(self, folder, kind, ending="", count=1):
        self.folder, self.kind, self.ending, self.count = folder, kind, ending, count
        self.tries = 0

    def is_last_of(self, seen):
        """Returns true if the step has come. seen: (folder, kind, name) of each change."""
        return sum(folder == self.folder and bool(kind & self.kind) and name.endswith(self.ending) for folder, kind, name in seen) >= self.count


STARTS = [Step(CDI, MOVED_TO, ".part"), Step(CDI, MOVED_TO, ".json"), Step(LIMITER, CREATE),
          *(Step(RECORDS, MOVED_TO, count=each) for each in (1, 2, 3)), *(Step(INSTANCES, MODIFY, count=each) for each in (1, 2))]
DAEMON_STARTS = [Step(DRIVER_ROOT, MOVED_TO, "driver.json"), *(Step(DAEMONS, MOVED_TO, count=each) for each in (1, 2, 3))]
ENDS = [Step(CDI, MOVED_TO, ".part"), Step(CDI, DELETE, ".part"), Step(LIMITER, DELETE), *(Step(INSTANCES, MODIFY, count=each) for each in (1, 2)), Step(RECORDS, DELETE)]
DAEMON_ENDS = [Step(DAEMONS, MOVED_TO), Step(DRIVER_ROOT, MOVED_TO, "driver.json"), Step(DAEMONS, DELETE)]


def cdi_states(node):
    files = set(node.cdi_files())
    for each in files:
        if each.endswith(".part"):
            yield "CDI file of a device that is prepared again" if each.removesuffix(".part") in files else "CDI file that runtimes do not read"


def limiter_states(node):
    for each in node.namespaces.path(LIMITER).glob("*"):
        if missing := LIMITER_FILES - {file.name for file in each.glob("*")}:
            yield f"files of the limiter without {', '.join(sorted(missing))}"


def fake_instances(node):
    """Returns the MIG instances of the fake NVML: start slot → whether it has a compute instance."""
    # FakeInstance in tests/nvml/mig_state.h.
    found = struct.iter_unpack("15I", node.namespaces.path(INSTANCES).read_bytes())
    return {start: any(compute) for exists, place, _, _, start, _, _, *compute in found if exists and place == MIG_PLACE}


def mig_states(node):
    instances, recorded = fake_instances(node), set()
    for record in node.namespaces.path(RECORDS).glob("[0-9a-f]*"):
        for line in record.read_text().splitlines():
            if not line.startswith("part "):
                continue
            _, start, gpu_instance, _, *uuid = line.split()
            recorded.add(int(start))
            exists, has_id, is_complete = int(start) in instances, gpu_instance != "-1", instances.get(int(start), False)
            if not exists:
                yield "record of an instance that is destroyed" if has_id else "record of an instance that does not exist yet"
            elif not has_id:
                yield "GPU instance whose id is not recorded"
            elif not is_complete:
                yield "GPU instance without a compute instance"
            elif not uuid:
                yield "compute instance whose uuid is not recorded"
    for _ in instances.keys() - recorded:
        yield "instance without a record"  # it would never be destroyed


def daemon_states(node):
    for record in node.namespaces.path(DAEMONS).glob("GPU-*"):
        values = dict(line.split("=", 1) for line in record.read_text().splitlines())
        if values["isEnding"] == "true":
            yield "MPS daemon that is ending"
        elif values["pid"] == "0":
            yield "MPS daemon whose PID is not recorded"


# States that last long enough for many kills to leave them. The others may not occur: the plugin's own tests stop it at each step.
EXPECTED_STATES = ("CDI file that runtimes do not read", "GPU instance without a compute instance")


def plugin_processes(node):
    """Returns the ids of the plugins' processes. They have mount namespaces of their own, but the node's process namespace."""
    found, wanted = [], os.fstat(node.namespaces.pids)
    for each in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process may end meanwhile
            if os.path.samestat((each / "ns/pid").stat(), wanted) and b"egpu-plugin-host" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


class Killer:
    """Kills the agent, starts it again, and counts the states in which the kills left the node."""

    def __init__(self, node, chance):
        self.node, self.chance = node, chance
        self.kills, self.at_steps, self.left = 0, 0, collections.Counter()

    def kill_at_step(self, steps):
        """Kills the agent right after one of these steps: that with the fewest tries; if it does not come, any; if none comes, without one."""
        chosen = min(steps, key=lambda each: each.tries)
        chosen.tries += 1
        self.at_steps += self._await(steps, chosen) is not None
        self._kill()

    def kill_at_any(self, steps, patience):
        """Kills the agent right after the first of these steps, and returns the step; None if none comes, and the agent is left alone."""
        if step := self._await(steps, None, patience):
            self.at_steps += 1
            self._kill()
        return step

    def kill_at_random(self):
        time.sleep(self.chance.uniform(0, MAX_PAUSE))
        self._kill()

    def _kill(self):
        self.node.kill("agent")
        until("the plugins' processes have ended with the agent", lambda: not plugin_processes(self.node))
        self.kills += 1
        for states in (cdi_states, limiter_states, mig_states, daemon_states):
            self.left.update(states(self.node))
        self.node.restart("agent")

    def _await(self, steps, chosen, patience=PATIENCE):
        """Returns the chosen step as soon as it has come; in the second half of the time, or without a choice, any of them; else None."""
        folders = {str(self.node.namespaces.path(each.folder)): each.folder for each in steps}
        seen, begin = [], time.monotonic()
        with Watch(*(each for each in folders if pathlib.Path(each).exists())) as watch:
            for path, kind, name in watch.changes(patience):
                seen.append((folders[path], kind, name))
                is_open = chosen is None or time.monotonic() > begin + patience / 2
                if step := next((each for each in (steps if is_open else [chosen]) if each.is_last_of(seen)), None):
                    return step
        return None


def check_limits(tenant, names):
    """Checks that each container has the limit that its claim reports."""

    def check(name, mode):
        status, cards = tenant.isolation(name), tenant.seen(name)["cuda"]
        limit = tenant.ground.device(name)["spec"]["cards"][0]["memory"]
        return status == MODES[mode] and [(each["filled"], each["refusal"]) for each in cards] == [(limit, OUT_OF_MEMORY)], (status, limit, cards)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for (name, mode), (holds, found) in zip(names.items(), pool.map(check, names, names.values())):
            if not holds:
                tenant.ground.report.check(f"{name} ({mode}): its container has its limit", False, found)


def run_batch(tenant, killer, names, starts):
    """Starts and ends pods. names: pod → mode; starts: steps of their start."""
    for name, mode in names.items():
        if mode == "mig":
            tenant.instance(name)
        else:
            tenant.share(name, mode, core=5, memory=2)
        tenant.pod(name, name)
    killer.kill_at_random()
    for _ in range(KILLS):
        killer.kill_at_step(starts)
    tenant.ground.runs(*names)
    check_limits(tenant, names)
    for name in names:
        tenant.admin.delete(f"{pods()}/{name}")
        tenant.admin.delete(f"{claims()}/{name}")
    killer.kill_at_random()
    for _ in range(KILLS):
        killer.kill_at_step(ENDS)
    until("the pods are gone", lambda: not any(each["metadata"]["name"].startswith("kill-") for each in tenant.admin.items(pods())))


def has_daemon(node):
    return bool(list(node.namespaces.path(DAEMONS).glob("GPU-*")))


def check_daemon_end(killer):
    """After the last claim with MPS, the agent is killed once at each step of the end of the daemon. After each kill, it ends only if it was unused for a while."""
    steps = list(DAEMON_ENDS)
    while steps and has_daemon(killer.node):
        if step := killer.kill_at_any(steps, IDLE):
            steps.remove(step)


def check_states(tenant, count, killer):
    """Prints and checks the states in which the kills left the node."""
    print(f"        {killer.kills} kills of the agent, {killer.at_steps} of them right after a step", flush=True)
    for state, times in killer.left.most_common():
        print(f"        {times:5}  {state}", flush=True)
    report = tenant.ground.report
    report.check("each instance had a record", not killer.left["instance without a record"], killer.left)
    missing = [each for each in EXPECTED_STATES if not killer.left[each]]
    report.check("the kills left each expected state", count < MANY or not missing, missing)


def check_kills(tenant, count, killer):
    """Pods with each limit start and end while the agent is killed. None of their containers runs without its limit."""
    first = number = 0
    while first < count:
        number += 1
        is_without = number % WITHOUT_MPS == 0
        batch = [each for each in BATCH if each != "mps" or not is_without][:count - first]
        has_started = has_daemon(tenant.ground.node)
        run_batch(tenant, killer, {f"kill-{first + each}": mode for each, mode in enumerate(batch)}, STARTS if has_started else DAEMON_STARTS)
        first += len(batch)
        if is_without:
            until("the unused MPS daemon ends", lambda: not has_daemon(tenant.ground.node))
        print(f"        {first} pods, {killer.kills} kills of the agent", flush=True)
