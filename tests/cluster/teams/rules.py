"""Invariants of cards, claims, quotas, gangs and pods, as sums over API objects."""

import collections
import time

GANG, SIZE = "elasticgpu.io/gang", "elasticgpu.io/gang-size"
GATE = "elasticgpu.io/claims"
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
SETTLED = 30  # seconds after which a lowered limit applies to all decisions
MARGIN = 4  # number of nodes above the need before a wait counts as unnecessary: some are reserved for other claims


def amount(value):
    """Converts a limit or request of memory to bytes. A whole number is GiB."""
    text = str(value)
    return int(text[:-2]) * UNITS[text[-2:]] if text[-2:] in UNITS else int(text) << 30


def entries(picture):
    for name, card in picture.cards.items():
        for uid, entry in (card["spec"].get("allocations") or {}).items():
            yield name, uid, entry


def over_committed(picture):
    for name, card in picture.cards.items():
        given = (card["spec"].get("allocations") or {}).values()
        for what in ("core", "memory"):
            total = sum(entry.get(what, 0) for entry in given)
            if total > card["spec"]["card"][what]:
                yield f"card {name} gives out {total} of {card['spec']['card'][what]} {what}"


def bound_to(picture):
    """A Bound claim has its device, the device has its entry on each of its cards, and no other claim has that device."""
    whose = {}
    for claim in picture.still:
        meta, status = claim["metadata"], claim.get("status", {})
        name = f"{meta['namespace']}/{meta['name']}"
        if status.get("phase") != "Bound" or "deletionTimestamp" in meta:
            continue
        device = picture.devices.get(status.get("elasticGPUName"))
        if device is None:
            yield f"claim {name} is bound to {status.get('elasticGPUName')}, which is not there"
            continue
        if whose.setdefault(device["metadata"]["name"], name) != name:
            yield f"claims {name} and {whose[device['metadata']['name']]} have one device"
        if device["spec"].get("claimRef", {}).get("uid") != meta["uid"] or device.get("status", {}).get("phase") != "Bound":
            yield f"claim {name} is bound to {device['metadata']['name']}, which is {device.get('status', {}).get('phase')} for {device['spec'].get('claimRef')}"
        for share in device["spec"]["cards"]:
            card = picture.cards.get(share["name"])
            entry = card and (card["spec"].get("allocations") or {}).get(device["metadata"]["uid"])
            if not entry or (entry.get("core", 0), entry.get("memory", 0)) != (share.get("chargedCore", 0), share.get("chargedMemory", 0)):
                yield f"claim {name} has {share} of card {share['name']}, whose ledger says {entry}"


def leaks(picture):
    """Entries without a device and devices without a claim: permitted for a while during release."""
    uids = {each["metadata"]["uid"] for each in picture.devices.values()}
    for card, uid, entry in entries(picture):
        if uid not in uids:
            yield ("entry", card, uid), f"card {card} has an entry of {entry.get('device')}, which is gone"
    owners = {each["metadata"]["uid"] for each in picture.claims}
    for name, device in picture.devices.items():
        if device["spec"].get("claimRef", {}).get("uid") not in owners:
            yield ("device", device["metadata"]["uid"]), f"device {name} is {device.get('status', {}).get('phase')} for a claim that is gone"
        elif "deletionTimestamp" in device["metadata"]:
            yield ("deleted", device["metadata"]["uid"]), f"device {name} is deleted and still there"
    used = {each["metadata"]["uid"] for pod in picture.pods if pod["status"].get("phase") in ("Pending", "Running")
            for each in picture.claims_of(pod)}
    for claim in picture.claims:
        if "deletionTimestamp" in claim["metadata"] and claim["metadata"]["uid"] not in used:
            yield ("deleted", claim["metadata"]["uid"]), f"claim {claim['metadata']['name']} is deleted and still there: {words(claim)}"


def promised(picture):
    """Yields entries, and shares of devices that have no entry yet: if a controller is killed between the two writes, the next controller completes them."""
    shares = {(card, uid): entry for card, uid, entry in entries(picture)}
    for device in picture.devices.values():
        meta, ref = device["metadata"], device["spec"].get("claimRef") or {}
        for share in device["spec"].get("cards", []):
            if "deletionTimestamp" not in meta and ref and (share["name"], meta["uid"]) not in shares:
                shares[share["name"], meta["uid"]] = {"claim": f"{ref['namespace']}/{ref['name']}", "core": share.get("chargedCore", 0),
                                                      "memory": share.get("chargedMemory", 0)}
    return [(card, uid, entry) for (card, uid), entry in shares.items()]


def charged(picture, quota, shares=None):
    """Returns the amounts that the ledgers, or these shares, charge to a quota, by its keys."""
    selected = quota["spec"].get("selector", {}).get("classes")
    used, devices = collections.Counter(), set()
    classes = {each["metadata"]["uid"]: each["spec"].get("egpuClassName") for each in picture.devices.values()}
    for _, uid, entry in entries(picture) if shares is None else shares:
        if not entry["claim"].startswith(quota["metadata"]["namespace"] + "/") or (selected and classes.get(uid) not in selected):
            continue
        used["gpu"] += 1
        used["gpu-core"] += entry.get("core", 0) / 10
        used["gpu-memory"] += entry.get("memory", 0)
        devices.add(uid)
    used["claims"] = len(devices)
    return used


def limits(quota):
    return {key: amount(value) if key == "gpu-memory" else int(value) for key, value in quota["spec"].get("hard", {}).items()}


class Allowance:
    """A lower limit revokes no claims. From then on, the usage must not exceed its value at that time."""

    def __init__(self):
        self.allowed = {}  # (namespace, quota, key) → (limit, since when, permitted usage)
        self.seen = collections.defaultdict(lambda: collections.deque(maxlen=30))  # → the latest values of (time, limit, used)

    def exceeded(self, picture):
        shares = promised(picture)
        for quota in picture.quotas:
            used = charged(picture, quota, shares)
            for key, limit in limits(quota).items():
                who = (quota["metadata"]["namespace"], quota["metadata"]["name"], key)
                was, since, may = self.allowed.get(who, (limit, 0, limit))
                if was != limit:
                    may, since = max(was, may, limit), time.monotonic()
                if time.monotonic() > since + SETTLED:
                    may = max(limit, min(may, used[key]))
                self.allowed[who] = (limit, since, may)
                self.seen[who].append((round(time.monotonic()), limit, used[key]))
                if used[key] > may:
                    yield (f"quota {who[0]}/{who[1]}: {used[key]} {key} given out, {limit} may be, and {may} were before it was lowered; "
                           f"time, limit, used: {list(self.seen[who])}")


def gangs(picture):
    """Returns (namespace, gang) → its members that are not being deleted."""
    found = collections.defaultdict(list)
    for claim in picture.claims:
        marks = claim["metadata"].get("annotations", {})
        if GANG in marks and "deletionTimestamp" not in claim["metadata"]:
            found[claim["metadata"]["namespace"], marks[GANG]].append(claim)
    return found


def size_of(member):
    return int(member["metadata"]["annotations"][SIZE])


def is_whole(members):
    return sum(each.get("status", {}).get("phase") == "Bound" for each in members) >= size_of(members[0])


def words(claim):
    return [f"{c['type']}: {c['reason']}: {c.get('message', '')[:200]}" for c in claim.get("status", {}).get("conditions", []) if c["status"] == "False"]


def has_reason(pod, events):
    """Returns true if the pod's conditions or events name the reason why it waits. The project's gate alone is not sufficient. For the gate of another
    controller, no reason is required."""
    if any(each["name"] != GATE for each in pod["spec"].get("schedulingGates", [])):
        return True
    if any(each["name"] == GATE for each in pod["spec"].get("schedulingGates", [])):
        return "WaitingForClaim" in events or "FailedResourceClaimCreation" in events
    if pod["spec"].get("nodeName"):
        return False  # a kubelet would start it
    return any(c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message") for c in pod["status"].get("conditions", []))


def free(picture):
    """Returns node → [(milli-cards, bytes) left on each card], for schedulable nodes."""
    left = {name: [] for name, node in picture.nodes.items() if not node.get("spec", {}).get("unschedulable") and not node.get("spec", {}).get("taints")}
    for card in picture.cards.values():
        has, given = card["spec"]["card"], (card["spec"].get("allocations") or {}).values()
        if has["nodeName"] in left:
            left[has["nodeName"]].append((has["core"] - sum(e.get("core", 0) for e in given), has["memory"] - sum(e.get("memory", 0) for e in given)))
    return left


def asked(claim):
    """Returns (cards, milli-cards, bytes of each card)."""
    requests = {key.split("/")[1]: value for key, value in claim["spec"]["resources"]["requests"].items()}
    if "gpu" in requests:
        return int(requests["gpu"]), 1000, 0
    return 1, int(requests.get("gpu-core", 0)) * 10, amount(requests.get("gpu-memory", 0))


def within_quotas(picture, claim, times):
    cards, core, memory = asked(claim)
    needs = {"gpu": cards, "gpu-core": cards * core / 10, "gpu-memory": cards * (memory or 80 << 30), "claims": 1}
    for quota in picture.quotas:
        if quota["metadata"]["namespace"] != claim["metadata"]["namespace"]:
            continue
        selected = quota["spec"].get("selector", {}).get("classes")
        if selected and claim["spec"].get("egpuClassName") not in selected:
            continue
        used = charged(picture, quota)
        if any(used[key] + needs[key] * times > limit for key, limit in limits(quota).items()):
            return False
    return True


def despite_capacity(picture):
    """Yields claims that wait for capacity or quota while both are amply available."""
    left = free(picture)
    for claim in picture.claims:
        reasons = {c["reason"] for c in claim.get("status", {}).get("conditions", []) if c["status"] == "False"}
        if "deletionTimestamp" in claim["metadata"] or not reasons & {"NoFit", "QuotaExceeded", "Preempting"}:
            continue
        cards, core, memory = asked(claim)
        gang = GANG in claim["metadata"].get("annotations", {})
        times = size_of(claim) if gang else 1
        suit = [name for name, each in left.items() if sum(c >= core and m >= memory for c, m in each) >= cards]
        if len(suit) >= times + MARGIN and within_quotas(picture, claim, times):
            yield ("room", claim["metadata"]["uid"]), f"claim {claim['metadata']['name']} waits though {len(suit)} nodes have room: {words(claim)}"
