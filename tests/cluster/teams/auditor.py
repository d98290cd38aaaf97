"""Is what two teams have what they may have? Summed up anew from the API's objects alone, again and again while everything changes.

What one list shows is judged at once: cards with their entries, and quotas by these. What needs several lists is judged by claims that
are the same before and after the others were read. What may be so for a while, as it is being done, must not last."""

import collections
import http.client
import threading
import time

import rules
from client import GPUS, GROUP, NODES, Refused

UNREACHABLE = (OSError, http.client.HTTPException)
CLAIMS = f"{GROUP}/elasticgpuclaims"
QUOTAS = f"{GROUP}/elasticgpuquotas"


class Picture:
    """What there is, each kind read at once: claims, cards and devices, pods, and claims again."""

    def __init__(self, client, namespaces):
        def of(path):
            return [each for each in client.items(path) if each["metadata"].get("namespace") in namespaces]

        before = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in of(CLAIMS)}
        gpus = client.items(GPUS)
        self.cards = {each["metadata"]["name"]: each for each in gpus if "card" in each["spec"]}
        self.devices = {each["metadata"]["name"]: each for each in gpus if "card" not in each["spec"]}
        self.pods = of("/api/v1/pods")
        self.quotas = of(QUOTAS)
        self.nodes = {each["metadata"]["name"]: each for each in client.items(NODES)}
        self.claims = of(CLAIMS)
        self.by_name = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in self.claims}
        # These were as they are all the while.
        self.still = [each for each in self.claims if before.get(each["metadata"]["uid"]) == each["metadata"]["resourceVersion"]]

    def claims_of(self, pod):
        """The claims of a pod that are there, by the names in its status or its spec."""
        names = {each.get("resourceClaimName") for each in (*pod["spec"].get("resourceClaims", []), *pod["status"].get("resourceClaimStatuses", []))}
        found = (self.by_name.get((pod["metadata"]["namespace"], name)) for name in names)
        return [each for each in found if each]


class Auditor(threading.Thread):
    """Looks every few seconds, on a thread of its own. `found`: what was wrong, once each. patience: seconds that what is on its way
    may take, no leader for a lease's time and a gang's minute included."""

    def __init__(self, client, namespaces, patience=150, pause=1.0, may_be_away=False):
        super().__init__(name="auditor", daemon=True)
        self.client, self.namespaces, self.patience, self.pause = client, set(namespaces), patience, pause
        self.may_be_away = may_be_away
        self.over = threading.Event()
        self.found = {}  # what → when, in seconds since the start
        self.since = {}  # what must not last → since when it is so
        self.begun = time.monotonic()
        self.allowed = rules.Allowance()
        self.whole = {}  # (namespace, gang) → uids of its members when it was whole last
        self.looks = 0
        self.lasted = {}  # kind → how long the longest of it lasted, and what it was
        self.reasons = collections.Counter()  # what waiting claims said
        self.bound, self.ran, self.gangs = set(), set(), set()

    def run(self):
        while not self.over.wait(self.pause):
            try:
                self.look()
            except (Refused, *UNREACHABLE) as error:
                if not self.may_be_away:
                    self.say(f"the API server did not answer: {error!r}")

    def say(self, what):
        if what not in self.found:
            self.found[what] = time.monotonic() - self.begun
            print(f"{self.found[what]:6.0f} s  VIOLATION {what}", flush=True)

    def look(self):
        """One pass; the picture that it judged."""
        picture = Picture(self.client, self.namespaces)
        for rule in (rules.over_committed, rules.bound_to, self.allowed.exceeded, self.early):
            for what in rule(picture):
                self.say(what)
        self._remember(picture)
        self._lasting(dict(line for rule in (rules.leaks, self.in_part, self.silent, rules.though_there_is_room) for line in rule(picture)))
        self.looks += 1
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
        """now: what must not last, by a key that stays the same as long as it is the same."""
        at = time.monotonic()
        self.since = {key: self.since.get(key, at) for key in now}
        for key, what in now.items():
            lasted = at - self.since[key]
            self.lasted[key[0]] = max(self.lasted.get(key[0], (0, "")), (round(lasted), what))
            if lasted > self.patience:
                self.say(f"{what} (for {self.patience} s)")

    def early(self, picture):
        """A pod of a gang runs though not all of it was ever bound."""
        for key, members in rules.gangs(picture).items():
            if rules.is_whole(members) or key in self.whole:
                continue
            uids = {each["metadata"]["uid"] for each in members}
            for pod in picture.pods:
                mine = {each["metadata"]["uid"] for each in picture.claims_of(pod)}
                if mine & uids and pod["status"].get("phase") == "Running" and len(members) == rules.size_of(members[0]):
                    yield f"pod {pod['metadata']['name']} runs though its gang {key[1]} is not whole"

    def in_part(self, picture):
        """A gang has cards for some of its members. One that was whole may have lost a member since: that one waits, and says why."""
        for key, members in rules.gangs(picture).items():
            has = {each["metadata"]["uid"] for each in members if each.get("status", {}).get("phase") == "Bound"}
            if has and len(has) < rules.size_of(members[0]) and not has & self.whole.get(key, set()):
                yield ("in part", *key, frozenset(has)), f"gang {key[0]}/{key[1]} has {len(has)} of {rules.size_of(members[0])} members bound"

    def silent(self, picture):
        """A pod does not run, and nothing on it says what it waits for."""
        waiting = [each for each in picture.pods if each["status"].get("phase") == "Pending" and "deletionTimestamp" not in each["metadata"]]
        if not waiting:
            return
        told = collections.defaultdict(set)
        for each in self.client.items("/api/v1/events"):
            told[each["involvedObject"].get("uid")].add(each["reason"])
        for pod in waiting:
            meta = pod["metadata"]
            if not rules.says_why(pod, told[meta["uid"]]):
                claims = [(each["metadata"]["name"], rules.words(each)) for each in picture.claims_of(pod)]
                yield ("silent", meta["uid"]), f"pod {meta['namespace']}/{meta['name']} does not run and does not say why; its claims: {claims}"
