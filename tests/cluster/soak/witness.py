"""An independent witness: reads every version of the project's objects from etcd itself, in the order of writing, and judges each. It bypasses API server
caches and survives restarts, so that it sees every intermediate state."""

import base64
import http.client
import json
import threading
import time
import urllib.parse

from alternations import Alternations

PREFIX = "/registry/elasticgpu.io/"


class Judge:
    """The rules, as a function of one change at a time. Not thread-safe."""

    def __init__(self):
        self.cards, self.devices, self.claims = {}, {}, {}
        self.largest = {}  # card → (core, memory), its maximum capacity until now
        self.bound_ever, self.gone_after_bound = set(), 0
        self.changes = 0
        self.violations = []
        self.alternations = Alternations()

    def take(self, kind, key, now):
        """kind: name of the resource; key: key of the object; now: its new version, None if it was deleted."""
        self.changes += 1
        self.alternations.take(kind, key, now)
        self.violations += self.alternations.violations
        self.alternations.violations.clear()
        if kind == "elasticgpuclaims":
            self._claim(key, now)
        elif kind == "elasticgpus":
            old = self.cards.get(key) or self.devices.get(key)
            if "card" in (now or old)["spec"]:
                self._card(key, now)
            else:
                self._device(key, now)

    def report(self, text):
        self.violations.append(text)

    @staticmethod
    def _entries(card):
        return card["spec"].get("allocations") or {}

    def _card(self, name, now):
        old = self.cards.pop(name, None)
        if now is None:
            return
        self.cards[name] = now
        has, largest = now["spec"]["card"], self.largest.get(name, (0, 0))
        self.largest[name] = (max(largest[0], has.get("core", 0)), max(largest[1], has.get("memory", 0)))
        before = self._entries(old) if old else {}
        for amount in ("core", "memory"):
            total = sum(each.get(amount, 0) for each in self._entries(now).values())
            # A card whose capacity decreased can stay over-committed, but gets no more allocations.
            grew = any(each.get(amount, 0) > before.get(uid, {}).get(amount, 0) for uid, each in self._entries(now).items())
            if total > has.get(amount, 0) and (grew or not old):
                self.report(f"card {name}: {total} of {has.get(amount, 0)} {amount} given out")

    def _device(self, name, now):
        old = self.devices.pop(name, None)
        if now is not None:
            self.devices[name] = now
        was_bound, is_bound = self._is_bound(old), self._is_bound(now)
        same = old and now and old["metadata"]["uid"] == now["metadata"]["uid"]
        if same and old["spec"].get("cards") != now["spec"].get("cards"):
            self.report(f"device {name} moved from {old['spec'].get('cards')} to {now['spec'].get('cards')}")
        owner, owned = self._owner(old), self._owner(now)
        if same and owner and owned and owner != owned:
            self.report(f"device {name} was swapped from claim {owner} to {owned}")
        if is_bound and not (same and was_bound):
            self._committed(name, now)
        if was_bound and not (same and is_bound):
            for key, claim in self.claims.items():
                if (claim["metadata"]["uid"] == owner and self._bound_to(claim) == name
                        and "deletionTimestamp" not in claim["metadata"]):
                    self.report(f"device {name} was taken from claim {key}, which is Bound to it")

    def _committed(self, name, device):
        owner = self._owner(device)
        others = [other for other, each in self.devices.items() if other != name and self._is_bound(each) and self._owner(each) == owner]
        if owner and others:
            self.report(f"claim {owner} has two bound devices: {name} and {others}")
        for share in device["spec"].get("cards", []):
            card = self.cards.get(share["name"])
            if card is None:
                continue  # the card was removed despite its finalizer
            entry = self._entries(card).get(device["metadata"]["uid"])
            if entry is None or entry.get("core", 0) != share.get("chargedCore", 0) or entry.get("memory", 0) != share.get("chargedMemory", 0):
                self.report(f"device {name} became Bound with {entry} on card {share['name']}, charged {share}")
            for index, amount in enumerate(("chargedCore", "chargedMemory")):
                total = sum(each.get(amount, 0) for other in self.devices.values() if self._is_bound(other)
                            for each in other["spec"].get("cards", []) if each["name"] == share["name"])
                if total > self.largest[share["name"]][index]:
                    self.report(f"card {share['name']}: bound devices have {total} {amount} of at most {self.largest[share['name']][index]}")

    def _claim(self, key, now):
        old = self.claims.pop(key, None)
        if old and old["metadata"]["uid"] in self.bound_ever and (now is None or now["metadata"]["uid"] != old["metadata"]["uid"]):
            self.gone_after_bound += 1
        if now is None:
            return
        self.claims[key] = now
        device = self._bound_to(now)
        if not device:
            return
        uid = now["metadata"]["uid"]
        self.bound_ever.add(uid)
        before = self._bound_to(old) if old and old["metadata"]["uid"] == uid else None
        if before == device:
            return
        if before:
            self.report(f"claim {key} was Bound to {before} and is to {device}")
        there = self.devices.get(device)
        if self._owner(there) != uid or not self._is_bound(there):
            self.report(f"claim {key} became Bound to {device}, which is {self._state(there)}")

    @staticmethod
    def _is_bound(device):
        return bool(device) and device.get("status", {}).get("phase") == "Bound"

    @staticmethod
    def _owner(device):
        return (device or {}).get("spec", {}).get("claimRef", {}).get("uid")

    @staticmethod
    def _bound_to(claim):
        status = claim.get("status", {})
        return status.get("elasticGPUName") if status.get("phase") == "Bound" else None

    def _state(self, device):
        return f"{device.get('status', {}).get('phase')} and of claim {self._owner(device)}" if device else "not there"


class Witness:
    """Watches etcd from its first version on, on a separate thread; waits while etcd is down. judge: an object with take(), `changes` and `violations`.
    Thread-safe."""

    def __init__(self, etcd_url, judge=None):
        self.address = urllib.parse.urlsplit(etcd_url).netloc
        self.judge = judge or Judge()
        self.revision = 0  # of the last change judged
        self.lost = ""  # why some versions are no longer available
        self.mutex = threading.Lock()
        self.ending = False
        threading.Thread(target=self._follow, name="witness", daemon=True).start()

    def end(self):
        self.ending = True

    def up_to_date(self):
        """Returns true if everything that was written before the call is judged."""
        with self.mutex:
            judged = self.revision
        last = self._post("/v3/kv/range", {"key": self._text(PREFIX), "range_end": self._text(PREFIX[:-1] + "0"), "limit": 1,
                                           "sort_order": "DESCEND", "sort_target": "MOD", "keys_only": True}).get("kvs", [])
        return not last or judged >= int(last[0]["mod_revision"])

    def found(self):
        with self.mutex:
            return list(self.judge.violations) + ([self.lost] if self.lost else [])

    def figures(self):
        """Returns the number of judged versions, of bound claims, and of claims that were bound and deleted."""
        with self.mutex:
            return self.judge.changes, len(self.judge.bound_ever), self.judge.gone_after_bound

    @staticmethod
    def _text(key):
        return base64.b64encode(key.encode()).decode()

    def _post(self, path, body, timeout=30):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            connection.request("POST", path, json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _follow(self):
        while not self.ending and not self.lost:
            connection = http.client.HTTPConnection(self.address, timeout=600)
            try:
                connection.request("POST", "/v3/watch", json.dumps({"create_request": {
                    "key": self._text(PREFIX), "range_end": self._text(PREFIX[:-1] + "0"), "start_revision": self.revision + 1}}))
                answer = connection.getresponse()
                while line := answer.readline():
                    self._take(json.loads(line).get("result", {}))
            except (OSError, http.client.HTTPException, ValueError):
                pass  # etcd was killed; after the reconnect, missed versions are delivered first
            finally:
                connection.close()
            time.sleep(0.1)

    def _take(self, result):
        with self.mutex:
            if result.get("canceled"):
                self.lost = f"the witness missed versions: {result}"
            for event in result.get("events", []):
                pair = event["kv"]
                kind, _, key = base64.b64decode(pair["key"]).decode()[len(PREFIX):].partition("/")
                gone = event.get("type") == "DELETE"
                self.judge.take(kind, key, None if gone else json.loads(base64.b64decode(pair["value"])))
                self.revision = max(self.revision, int(pair["mod_revision"]))
