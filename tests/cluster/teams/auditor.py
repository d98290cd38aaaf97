"""Checks that two teams have only the permitted amounts, by recomputing them from API objects repeatedly while everything changes.

A single list is judged immediately: cards with their entries, and quotas by these. Checks over several lists consider only claims that did not change while the
lists were read. Temporary states, such as operations in progress, must not last."""

import collections
import http.client
import threading
import time

import admission_queue
import reasons
import rules
from client import CLASSES, GPUS, GROUP, NODES, Refused

UNREACHABLE = (OSError, http.client.HTTPException)
CLAIMS = f"{GROUP}/elasticgpuclaims"
RENEWED = 6  # seconds; a leader renews its lease every two seconds
QUOTAS = f"{GROUP}/elasticgpuquotas"


class Picture:
    """A snapshot of the objects, one list per kind: claims, cards and devices, pods, and claims again."""

    def __init__(self, client, namespaces):
        def of(path):
            return [each for each in client.items(path) if each["metadata"].get("namespace") in namespaces]

        before = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in of(CLAIMS)}
        gpus = client.items(GPUS)
        self.cards = {each["metadata"]["name"]: each for each in gpus if "card" in each["spec"]}
        self.devices = {each["metadata"]["name"]: each for each in gpus if "card" not in each["spec"]}
        self.pods = of("/api/v1/pods")
        self.quotas = of(QUOTAS)
        self.classes = {each["metadata"]["name"]: each for each in client.items(CLASSES)}
        self.nodes = {each["metadata"]["name"]: each for each in client.items(NODES)}
        self.claims = of(CLAIMS)
        self.by_name = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in self.claims}
        # Claims that did not change meanwhile.
        self.still = [each for each in self.claims if before.get(each["metadata"]["uid"]) == each["metadata"]["resourceVersion"]]

    def claims_of(self, pod):
        """Returns the existing claims of a pod, by the names in its status or its spec."""
        names = {each.get("resourceClaimName") for each in (*pod["spec"].get("resourceClaims", []), *pod["status"].get("resourceClaimStatuses", []))}
        found = (self.by_name.get((pod["metadata"]["namespace"], name)) for name in names)
        return [each for each in found if each]


class Auditor(threading.Thread):
    """Checks every few seconds, on a separate thread. `found`: each violation once. patience: number of consecutive checks in which a temporary state may
    persist, counting only checks while a leader exists: a slow machine slows these, too. lease: the path of the lease that names the leader; None: there
    is always a leader. may_be_away: the API server is also killed."""

    def __init__(self, client, namespaces, patience=100, pause=1.0, lease=None, may_be_away=False):
        super().__init__(name="auditor", daemon=True)
        self.client, self.namespaces, self.patience, self.pause = client, set(namespaces), patience, pause
        self.lease, self.may_be_away = lease, may_be_away
        self.renewed = 0.0  # time of the last observed renewal
        self.led = None  # holder and renewal of the lease at the last check
        self.over = threading.Event()
        self.found = {}  # violation → time in seconds since the start
        self.since = {}  # temporary state → number of checks that found it, and since when
        self.reported = set()  # states that lasted too long and were reported
        self.begun = time.monotonic()
        self.allowed = rules.Allowance()
        self.whole = {}  # (namespace, gang) → uids of its members when it was last complete
        self.checks = 0
        self.lasted = {}  # kind → the state that lasted for most checks: number, seconds, description
        self.reasons = collections.Counter()  # reasons of waiting claims
        self.bound, self.ran, self.gangs = set(), set(), set()

    def run(self):
        while not self.over.wait(self.pause):
            try:
                self.check()
            except (Refused, *UNREACHABLE) as error:
                if not self.may_be_away:
                    self.report(f"the API server did not answer: {error!r}")

    def report(self, what):
        if what not in self.found:
            self.found[what] = time.monotonic() - self.begun
            print(f"{self.found[what]:6.0f} s  VIOLATION {what}", flush=True)

    def check(self):
        """Performs one check. Returns the snapshot that it judged."""
        picture = Picture(self.client, self.namespaces)
        for rule in (rules.over_committed, rules.bound_to, self.allowed.exceeded, self.early, admission_queue.held):
            for what in rule(picture):
                self.report(what)
        self._remember(picture)
        self._lasting(dict(line for rule in (rules.leaks, self.in_part, self.silent, rules.despite_capacity, reasons.untrue) for line in rule(picture)))
        self.checks += 1
        return picture

    def _remember(self, picture):
        self.ran.update(each["metadata"]["uid"] for each in picture.pods if each["status"].get("phase") == "Running")
        for each in picture.claims:
            if each.get("status", {}).get("phase") == "Bound":
                self.bound.add(each["metadata"]["uid"])
                continue
            self.reasons.update({c["reason"] for c in each.get("status", {}).get("conditions", []) if c["status"] == "False"})
        for key, members in rules.gangs(picture).items():
            if rules.is_whole(members):
                self.whole[key] = {each["metadata"]["uid"] for each in members}
                self.gangs.add(key)

    def _lasting(self, now):
        """now: temporary states, by a key that identifies the same state over time."""
        counts, at = self._led(), time.monotonic()
        self.since = {key: (self.since.get(key, (0, at))[0] + counts, self.since.get(key, (0, at))[1]) for key in now}
        for key, what in now.items():
            checks, since = self.since[key]
            self.lasted[key[0]] = max(self.lasted.get(key[0], (0, 0, "")), (checks, round(at - since), what))
            if checks > self.patience and key not in self.reported:
                self.reported.add(key)
                self.report(f"{what} (for {checks} checks, {at - since:.0f} s)")

    def _led(self):
        """Returns true if the leader of the last check has renewed its lease since."""
        if self.lease is None:
            return True
        try:
            spec = self.client.get(self.lease)["spec"]
        except Refused:
            return False
        before, self.led = self.led, (spec.get("holderIdentity"), spec.get("renewTime"))
        if before is None or before[0] != self.led[0]:
            return False
        if before[1] != self.led[1]:
            self.renewed = time.monotonic()
        return time.monotonic() < self.renewed + RENEWED

    def early(self, picture):
        """Yields pods of a gang that run though the gang was never completely bound."""
        for key, members in rules.gangs(picture).items():
            if rules.is_whole(members) or key in self.whole:
                continue
            uids = {each["metadata"]["uid"] for each in members}
            lacking = [each["metadata"]["creationTimestamp"] for each in members if each.get("status", {}).get("phase") != "Bound"]
            for pod in picture.pods:
                mine = {each["metadata"]["uid"] for each in picture.claims_of(pod)}
                # Between two checks a gang may become complete and lose a member: the member's replacement starts after the other pods.
                if mine & uids and pod["status"].get("phase") == "Running" and len(members) == rules.size_of(members[0]) \
                        and min(lacking) < pod["status"].get("startTime", "later"):
                    yield f"pod {pod['metadata']['name']} runs though its gang {key[1]} is not whole"

    def in_part(self, picture):
        """Yields gangs that have cards for only some members. A gang that was complete may have lost a member since: the replacement waits, and reports why."""
        for key, members in rules.gangs(picture).items():
            has = {each["metadata"]["uid"] for each in members if each.get("status", {}).get("phase") == "Bound"}
            if has and len(has) < rules.size_of(members[0]) and not has & self.whole.get(key, set()):
                yield ("in part", *key, frozenset(has)), f"gang {key[0]}/{key[1]} has {len(has)} of {rules.size_of(members[0])} members bound"

    def silent(self, picture):
        """Yields pods that do not run and have no message that explains it."""
        waiting = [each for each in picture.pods if each["status"].get("phase") == "Pending" and "deletionTimestamp" not in each["metadata"]]
        if not waiting:
            return
        events = collections.defaultdict(set)
        for each in self.client.items("/api/v1/events"):
            events[each["involvedObject"].get("uid")].add(each["reason"])
        for pod in waiting:
            meta = pod["metadata"]
            if not rules.has_reason(pod, events[meta["uid"]]):
                claims = [(each["metadata"]["name"], rules.words(each)) for each in picture.claims_of(pod)]
                yield ("silent", meta["uid"]), f"pod {meta['namespace']}/{meta['name']} does not run and does not say why; its claims: {claims}"
