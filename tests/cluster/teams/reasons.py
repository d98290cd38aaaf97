"""Checks that the reasons of waiting claims are true, by recomputing them from the ledgers, quotas, pods and gates in the API."""

import re

import rules
from client import claims

# If a gang does not fit, one member reports the reason, and the other members name this member.
SPOKESMAN = re.compile(r"see claim (\S+) for what gang")
# A claim that waits for other claims or a template of its pod names these.
SIBLINGS = re.compile(r"^waits for (.*) of pod \S+: all claims of a pod go to one node$")
QUEUED = 3  # pods of the queue that wait during the check


def bound_condition(claim):
    return next((each for each in claim.get("status", {}).get("conditions", []) if each["type"] == "Bound"), {})


def users(picture, claim):
    """Returns the pods that name the claim, or for which it is stamped."""
    return [pod for pod in picture.pods if "deletionTimestamp" not in pod["metadata"] and any(
        each["metadata"]["uid"] == claim["metadata"]["uid"] for each in picture.claims_of(pod))]


def times(claim):
    return rules.size_of(claim) if rules.GANG in claim["metadata"].get("annotations", {}) else 1


def gates(picture, claim):
    names = {each["name"] for pod in users(picture, claim) for each in pod["spec"].get("schedulingGates", [])} - {rules.GATE}
    if not names:
        return "no pod of it has a gate of another controller"
    return None if any(name in bound_condition(claim)["message"] for name in names) else f"none of the gates {sorted(names)} is named"


def provisioning(picture, claim):
    uid = claim["metadata"]["uid"]
    there = any(each["spec"].get("claimRef", {}).get("uid") == uid for each in picture.devices.values())
    return None if there else "it has no device"


def bound_siblings(picture, claim, named):
    """named: "claim a, claim b" or "template t"."""
    names = {each.split()[-1] for each in named.split(", ")}
    bound = sorted(each["metadata"]["name"] for each in picture.claims if each["metadata"]["namespace"] == claim["metadata"]["namespace"]
                   and each["metadata"]["name"] in names and bound_condition(each).get("status") == "True")
    return f"it names {bound}, which are bound" if bound else None


def consumer(picture, claim):
    """WaitingForConsumer is true if no pod uses the claim, or if the scheduler has yet to place the pod on the node of its allocation."""
    if provisioning(picture, claim) is None:
        return None
    siblings = SIBLINGS.match(bound_condition(claim).get("message", ""))
    if siblings:
        return bound_siblings(picture, claim, siblings.group(1))
    ready = [pod["metadata"]["name"] for pod in users(picture, claim)
             if {each["name"] for each in pod["spec"].get("schedulingGates", [])} <= {rules.GATE} and pod["status"].get("phase") == "Pending"]
    stamped = bool(claim["metadata"].get("ownerReferences"))
    if not stamped and picture.classes.get(claim["spec"].get("egpuClassName"), {}).get("egpuBindingMode") != "WaitForFirstConsumer":
        return "its class does not wait for a consumer"
    return f"its pods {ready} are consumers" if ready else None


def gang(picture, claim):
    if rules.GANG not in claim["metadata"].get("annotations", {}):
        return "it is of no gang"
    members = rules.gangs(picture)[claim["metadata"]["namespace"], claim["metadata"]["annotations"][rules.GANG]]
    if len(members) < rules.size_of(claim):
        return None
    spokesman = SPOKESMAN.search(bound_condition(claim).get("message", ""))
    if not spokesman:
        return f"all {len(members)} members are here"
    named = next((each for each in members if each["metadata"]["name"] == spokesman.group(1)), None)
    if named is None or bound_condition(named).get("status") == "True":
        return f"claim {spokesman.group(1)} is no member that waits"
    points = SPOKESMAN.search(bound_condition(named).get("message", ""))
    return f"claim {spokesman.group(1)} names another one, too" if points else None


def no_fit(picture, claim):
    """NoFit is true if no node fits, except for some nodes reserved for other claims, and within the pods' selectors."""
    cards, core, memory = rules.asked(claim)
    selectors = [pod["spec"].get("nodeSelector", {}) for pod in users(picture, claim)] or [{}]
    suit = [name for name, left in rules.free(picture).items() if sum(c >= core and m >= memory for c, m in left) >= cards and any(
        selector.items() <= picture.nodes[name]["metadata"].get("labels", {}).items() for selector in selectors)]
    return f"nodes {suit} have room" if len(suit) >= times(claim) + rules.MARGIN else None


def priority(claim):
    return claim.get("status", {}).get("priority", 0)


def quota(picture, claim):
    """QuotaExceeded is true if the claim and the claims before it exceed a quota, or if it alone exceeds the limit per claim."""
    cards, _, _ = rules.asked(claim)
    for each in picture.quotas:
        if each["metadata"]["namespace"] == claim["metadata"]["namespace"] and cards > each["spec"].get("perClaim", {}).get("gpu", cards):
            return None
    meta = claim["metadata"]
    before = [other for other in picture.claims if other["metadata"]["namespace"] == meta["namespace"] and other["metadata"]["uid"] != meta["uid"]
              and bound_condition(other).get("reason") in ("QuotaExceeded", "Preempting", "Preempted", "NoFit") and priority(other) >= priority(claim)]
    if all(rules.within_quotas(picture, claim, times(claim) + ahead) for ahead in (0, len(before))):
        return f"its quotas leave room for it and {len(before)} claims before it"
    return None


def preempting(picture, claim):
    del picture
    return None if claim["status"].get("nominated") else "it has no nomination"


def preempted(picture, claim):
    """A victim names its preemptor until no claim that comes before it has a nomination."""
    ahead = [each for each in picture.claims if each.get("status", {}).get("nominated") and priority(each) >= priority(claim)]
    return None if ahead else "no claim before it has a nomination"


TRUE_IF = {"WaitingForGates": gates, "WaitingForConsumer": consumer, "WaitingForGang": gang, "NoFit": no_fit, "QuotaExceeded": quota,
           "Preempting": preempting, "Preempted": preempted, "Moved": preempted, "Provisioning": provisioning}


def untrue(picture):
    """Yields waiting claims whose reason is false or missing. Each state may exist for a moment."""
    for claim in picture.still:
        meta, bound = claim["metadata"], bound_condition(claim)
        if "deletionTimestamp" in meta or bound.get("status") == "True":
            continue
        reason = bound.get("reason", "")
        if reason not in TRUE_IF:
            yield ("untrue", meta["uid"], reason), f"claim {meta['namespace']}/{meta['name']} waits and says {rules.words(claim) or 'nothing'}"
            continue
        why_not = TRUE_IF[reason](picture, claim)
        if why_not:
            yield ("untrue", meta["uid"], reason), f"claim {meta['namespace']}/{meta['name']} says {rules.words(claim)}, but {why_not}"


def waiting_claim(name, cls, requests, annotations=None):
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name, "annotations": annotations or {}}, "spec": {
        "egpuClassName": cls, "resources": {"requests": {f"elasticgpu.io/{key}": value for key, value in requests.items()}}}}


class Planted:
    """Claims that wait for one reason each, in addition to the load; and pods of the queue, which is emptied first."""

    CLAIMS = {("vision", "over-quota"): ("QuotaExceeded", "training", {"gpu": 9}),
              ("language", "nine-cards"): ("NoFit", "training", {"gpu": 9}),
              ("vision", "alone"): ("WaitingForConsumer", "shared", {"gpu-core": 10, "gpu-memory": "1Gi"}),
              ("vision", "one-of-two"): ("WaitingForGang", "training", {"gpu": 1}, {rules.GANG: "two", rules.SIZE: "2"})}

    def __init__(self, client, queue):
        self.client = client
        queue.away()
        for _ in range(QUEUED):
            queue.submit()
        for (namespace, name), (_, *what) in self.CLAIMS.items():
            client.create(claims(namespace), waiting_claim(name, *what))

    def wrong(self, picture):
        """Yields planted claims and pods that are not in their expected final state."""
        for key, (reason, *_) in self.CLAIMS.items():
            present = bound_condition(picture.by_name.get(key, {})).get("reason")
            if present != reason:
                yield f"claim {'/'.join(key)} says {present} instead of {reason}"
        waits = [each for each in picture.claims if bound_condition(each).get("reason") == "WaitingForGates"]
        if len(waits) < QUEUED:
            yield f"{len(waits)} claims of {QUEUED} queued pods say WaitingForGates"
        yield from (what for _, what in untrue(picture))

    def away(self):
        for namespace, name in self.CLAIMS:
            self.client.delete(f"{claims(namespace)}/{name}")
