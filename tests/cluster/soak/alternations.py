"""Finds objects whose status alternates: it is written to the same contents repeatedly although none of its inputs changed. Two steps of a controller that
undo each other write as fast as the server answers, so the versions follow each other closely."""

import collections
import hashlib
import json

MAX_RETURNS = 4  # of one object to the same contents
SOON = 50  # contents count as returned only within this many versions of all objects
LONGEST = 600  # characters of contents in a report
TIMES = ("time", "lastTransitionTime")


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def inputs(now):
    """Returns the inputs of the status, as text."""
    meta = now["metadata"]
    return json.dumps([meta.get("uid"), now.get("spec"), meta.get("labels"), meta.get("annotations"), meta.get("deletionTimestamp")], sort_keys=True)


class Alternations:
    """Judges versions one by one, in the order in which they were written. Not thread-safe."""

    def __init__(self):
        self.changes = 0
        self.violations = []
        self.inputs = {}  # object → its inputs
        self.seen = collections.defaultdict(dict)  # object → hash of contents → (number of times, last version)
        self.last = {}  # object → its contents

    def take(self, kind, key, now):
        """kind: name of the resource; key: key of the object; now: its new version, None if it was deleted."""
        self.changes += 1
        who = (kind, key)
        if now is None or self.inputs.get(who) != inputs(now):
            for memory in (self.inputs, self.seen, self.last):
                memory.pop(who, None)
        if now is None:
            return
        self.inputs[who] = inputs(now)
        status = {name: each for name, each in now.get("status", {}).items() if name != "usage"}
        contents = json.dumps(without_times(status), sort_keys=True)
        before, self.last[who] = self.last.get(who), contents
        if before == contents:
            return
        mark = hashlib.sha256(contents.encode()).digest()
        times, version = self.seen[who].get(mark, (0, -SOON))
        times = times + 1 if self.changes - version <= SOON else 0
        self.seen[who][mark] = (times, self.changes)
        if times > MAX_RETURNS:
            self.violations.append(f"{kind} {key} was written to the same contents {times + 1} times though its spec did not change: "
                                   f"{contents[:LONGEST]}; in between: {(before or '')[:LONGEST]}")
