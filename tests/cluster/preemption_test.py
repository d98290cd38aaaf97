#!/usr/bin/env python3
"""Proves preemption on a real cluster: Deployments fill the cards, a claim of higher priority arrives, and the right pods are evicted by the Eviction API
within disruption budgets. Also tests what is undone when the need ends, what a killed controller leaves to the next one, and which fields a tenant can't
write.

preemption_test.py BIN_DIR [PART...]
"""

import contextlib
import sys
import tempfile
import threading
import time

import installation
import nodes
import verify
from apiserver import Cluster, guarded
from resource_claim_test import PRIORITIES, events
from client import CLASSES, GPUS, GROUP, Refused, Report, resource_claims, claims, pods, until
from parts import WHOLE
from pods_test import SHARE, expect_clean, gpu_class, pod
from tenant_test import editor_of

NODE_NAMES = ["n-0", "n-1"]
CARDS_EACH = 2
CARDS = len(NODE_NAMES) * CARDS_EACH
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
TEMPLATES = f"{GROUP}/namespaces/default/elasticgpuclaimtemplates"
GRACE = 30  # seconds; kwok ends a pod as soon as it sees the deletion, unless it is paused
LONGER_THAN_A_SECOND = 1.1  # ages have a resolution of a second


def claim_spec(cls, priority, cards):
    return {"egpuClassName": cls, "resources": {"requests": {f"{SHARE}/gpu": cards}}, **({"priorityClassName": priority} if priority else {})}


def card_claim(name, cls, priority="", cards=1):
    return {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaim", "metadata": {"name": name},
            "spec": claim_spec(cls, priority, cards)}


class Watch(threading.Thread):
    """Reads every card continuously: each is one object, so its ledger is consistent. Also reads every pod."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client = client
        self.over = threading.Event()
        self.found = set()
        self.pods = set()  # uids of all pods that ever existed

    def run(self):
        while not self.over.wait(0.05):
            self.check()

    def check(self):
        for each in self.client.items(GPUS):
            if "card" not in each["spec"]:
                continue
            for amount in ("core", "memory"):
                given = sum(entry.get(amount, 0) for entry in (each["spec"].get("allocations") or {}).values())
                if given > each["spec"]["card"][amount]:
                    self.found.add(f"card {each['metadata']['name']}: {given} {amount} given out")
        self.pods.update(each["metadata"]["uid"] for each in self.client.items(pods()))
        return self


class Ground:
    def __init__(self, cluster, report, bin_dir):
        self.cluster, self.report, self.bin_dir = cluster, report, bin_dir
        self.client = installation.client_of(cluster)
        self.check = report.check
        self.watch = Watch(installation.client_of(cluster))

    def start_controller(self):
        installation.start_controller(self.cluster, self.bin_dir)

    @contextlib.contextmanager
    def nodes_stand_still(self):
        """Evicted pods stay Terminating, and no pod starts to run."""
        self.cluster.processes.pause("kwok")
        try:
            yield
        finally:
            self.cluster.processes.resume("kwok")

    def deployment(self, name, replicas, annotations, node=None):
        labels = {"app": name}
        spec = {**pod("any", {})["spec"], "terminationGracePeriodSeconds": GRACE, **(
            {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {})}
        self.client.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}}})

    def fill(self, name, replicas, node=None, priority="", cards=1, cls="spare"):
        """Creates a Deployment with a claim for each pod and blocks until it runs. Returns the uids of its pods."""
        self.client.create(TEMPLATES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "metadata": {"name": name},
                                       "spec": {"spec": claim_spec(cls, priority, cards)}})
        self.deployment(name, replicas, {"egpuct.elasticgpu.io/gpu": name}, node)
        return self.whole(name, replicas)

    def gang(self, name, size, priority="high"):
        """Creates a Deployment whose pods form a gang, one card each."""
        annotations = {"elasticgpu.io/gang": name, "elasticgpu.io/gang-size": str(size)}
        self.client.create(TEMPLATES, {"apiVersion": "elasticgpu.io/v1alpha", "kind": "ElasticGPUClaimTemplate", "metadata": {"name": name},
                                       "spec": {"metadata": {"annotations": annotations}, "spec": claim_spec("late", priority, 1)}})
        self.deployment(name, size, {"egpuct.elasticgpu.io/gpu": name})

    def goes(self, name):
        self.client.call("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Foreground"})
        until(f"{name} is gone", lambda: not self.pods_of(name) and not self.client.exists(f"{DEPLOYMENTS}/{name}"))
        self.client.delete(f"{TEMPLATES}/{name}")

    def messages(self):
        """Returns the messages of claims that are not bound."""
        return [each.get("message", "") for of in self.client.items(claims()) for each in of.get("status", {}).get("conditions", [])
                if each["type"] == "Bound" and each["status"] == "False"]

    def whole(self, name, replicas):
        """Blocks until that many of its pods run, each with a bound claim. Returns their uids."""
        until(f"{name} runs", lambda: len(self.running(name)) == replicas)
        until("their claims are bound", lambda: len(self.unbound()) == 0)
        return self.running(name)

    def pods_of(self, name):
        return self.client.items(pods(), f"&labelSelector=app%3D{name}")

    def running(self, name):
        return {each["metadata"]["uid"] for each in self.pods_of(name)
                if each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]}

    def going(self, name):
        return {each["metadata"]["uid"] for each in self.pods_of(name) if "deletionTimestamp" in each["metadata"]}

    def unbound(self):
        return [each["metadata"]["name"] for each in self.client.items(claims()) if each.get("status", {}).get("phase") != "Bound"]

    def status(self, name):
        return self.client.get(f"{claims()}/{name}").get("status", {})

    def words(self, name="urgent", of="Bound", reason=None):
        """Returns the condition's message; "" if it is missing or has another reason."""
        return next((each.get("message", "") for each in self.status(name).get("conditions", [])
                     if each["type"] == of and reason in (None, each["reason"])), "")

    def awaits(self, *wanted, name="urgent", of="Bound", reason=None):
        until(f"claim {name} says {', '.join(wanted)}", lambda: all(each in self.words(name, of, reason) for each in ("", *wanted))
              and self.words(name, of, reason))
        return self.words(name, of, reason)

    def marked(self):
        return [each["metadata"]["name"] for each in self.client.items(GPUS) if each.get("status", {}).get("reason") == "Preempted"]

    def urgent(self, cards=1, priority="high", by="claim"):
        """Creates a claim and its pod; one of the two has the priority."""
        self.client.create(claims(), card_claim("urgent", "late", priority if by == "claim" else "", cards))
        made = pod("urgent", {"main": "urgent"})
        if by == "pod":
            made["spec"]["priorityClassName"] = priority
        self.client.create(pods(), made)

    def urgent_runs(self):
        until("the urgent one runs", lambda: self.client.get(f"{pods()}/urgent")["status"].get("phase") == "Running")
        until("its claim is bound", lambda: self.status("urgent").get("phase") == "Bound")
        self.check("what was nominated is taken off", "nominated" not in self.status("urgent"), self.status("urgent"))

    def urgent_goes(self):
        self.client.delete(f"{pods()}/urgent")
        self.client.delete(f"{claims()}/urgent")
        until("it is gone", lambda: not self.client.exists(f"{claims()}/urgent"))

    def budget(self, name, of, healthy, **spec):
        """Creates a budget and blocks until evictions respect it."""
        self.client.create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": of}}, **spec}})
        until("the budget counts", lambda: self.client.get(f"{BUDGETS}/{name}").get("status", {}).get("currentHealthy") == healthy)

    def made(self):
        """Number of pods that were ever created."""
        return len(self.watch.check().pods)

    def clean(self, when):
        expect_clean(self.client, self.report, when)

    def away(self):
        for path in (BUDGETS, DEPLOYMENTS):
            self.client.delete_all(path)
        until("ReplicaSets are gone", lambda: not self.client.items("/apis/apps/v1/namespaces/default/replicasets"))
        for path in (pods(), claims(), TEMPLATES):
            self.client.delete_all(path)

        def free():
            for name, each in verify.World(self.client).devices.items():
                if each["spec"].get("reclaimPolicy") == "Retain" and each.get("status", {}).get("phase") == "Released":
                    with contextlib.suppress(Refused):  # the device may be gone meanwhile
                        self.client.delete(f"{GPUS}/{name}")
            return not verify.World(self.client).devices and not self.client.items(resource_claims())

        until("all is given back", free)
        self.clean("once all is given back")


def youngest_of_the_lowest(ground):
    """Claims that outlive their pods, by annotation: one is preempted, its capacity is nominated, its condition names the preemptor, and it is bound again
    later."""
    client, check = ground.client, ground.check
    for name, priority in (("a", "middle"), ("b", ""), ("c", ""), ("d", "middle")):
        client.create(claims(), card_claim(name, "spare-now", priority))
        ground.deployment(name, 1, {"egpuc.elasticgpu.io/main": name})
        ground.whole(name, 1)
        time.sleep(LONGER_THAN_A_SECOND)
    before = {name: ground.running(name) for name in "abcd"}
    device = client.get(f"{GPUS}/{ground.status('c')['elasticGPUName']}")
    with ground.nodes_stand_still():
        ground.urgent()
        until("a pod is evicted", lambda: any(ground.going(name) for name in "abcd"))
        nomination = ground.status("urgent")["nominated"]
        check("the youngest of the lowest has to go", nomination["victims"] == [device["metadata"]["name"]], nomination)
        check("its card is nominated, and no more", [(each["name"], each["core"], each["memory"]) for each in nomination["cards"]] == [
            (each["name"], each["chargedCore"], each["chargedMemory"]) for each in device["spec"]["cards"]], nomination)
        check("who has to go is said", "evicts claim default/c of priority 0" in ground.words(reason="Preempting"), ground.words())
        check("its pod is evicted, and exists until its node has stopped it", ground.going("c") == before["c"])
        check("its claim has its device until then", ground.status("c").get("phase") == "Bound", ground.status("c"))
        client.create(claims(), card_claim("small", "now"))
        ground.awaits(name="small", reason="NoFit")
    ground.urgent_runs()
    taken = client.get(f"{GPUS}/{ground.status('urgent')['elasticGPUName']}")["spec"]["cards"]
    check("it has the nominated room", [each["name"] for each in taken] == [each["name"] for each in nomination["cards"]], taken)
    check("the others run on", all(ground.running(name) == before[name] for name in "abd"))
    check("who went says for whom", "preempted for claim default/urgent of priority 1000 since " in ground.awaits(
        name="c", of="Preempted"), ground.words("c", "Preempted"))
    check("and why it waits", ground.awaits(name="c", reason="NoFit") != "" and ground.status("c")["phase"] == "Pending")
    check("one pod has an event that it was preempted", events(client, "Preempted") >= 1)
    check("its Deployment's next pod waits", not ground.running("c") and len(ground.pods_of("c")) == 1)
    ground.clean("with the urgent one there")
    client.delete(f"{claims()}/small")
    ground.urgent_goes()
    ground.whole("c", 1)
    check("what was said is over", not ground.words("c", "Preempted"))
    check("still the others run on", all(ground.running(name) == before[name] for name in "abd"))


def fewest(ground):
    """A holder of two cards is preempted, though it is of higher priority and older than the two holders of one card each."""
    double = ground.fill("double", 1, node="n-1", priority="middle", cards=2)
    time.sleep(LONGER_THAN_A_SECOND)
    singles = ground.fill("singles", 2, node="n-0")
    ground.urgent(cards=2, by="pod")
    ground.urgent_runs()
    ground.check("on the node of the one", ground.status("urgent")["nodeName"] == "n-1", ground.status("urgent"))
    ground.check("the two run on", ground.running("singles") == singles)
    ground.check("the one does not", not ground.running("double"))
    ground.clean("with the urgent one there")
    ground.urgent_goes()
    ground.check("it comes back", ground.whole("double", 1) and ground.running("double") != double)


def budget_holds(ground):
    """A budget that permits no eviction: no pod is evicted, the condition cites the budget, and preemption continues once the budget permits it."""
    for how in ("deleted", "loosened"):
        before = ground.fill("held", CARDS)
        ground.budget("none-may-go", "held", CARDS, maxUnavailable=0)
        ground.urgent(by="pod" if how == "deleted" else "claim")
        ground.awaits("may not be evicted now", "disruption budget", "none-may-go", reason="Preempting")
        time.sleep(20)  # the eviction is retried meanwhile
        ground.check("its message is unchanged", "none-may-go" in ground.words(reason="Preempting"), ground.words())
        ground.check("no pod was evicted", ground.running("held") == before)
        ground.check("no device is marked", not ground.marked(), ground.marked())
        if how == "deleted":
            ground.client.delete(f"{BUDGETS}/none-may-go")
        else:
            ground.client.patch(f"{BUDGETS}/none-may-go", {"spec": {"maxUnavailable": 1}})
        started = time.monotonic()
        ground.urgent_runs()
        print(f"a budget {how}: the urgent one ran {time.monotonic() - started:.0f} s later", flush=True)
        ground.check("one went for it", len(ground.running("held") & before) == CARDS - 1)
        ground.clean(f"with the budget {how}")
        ground.urgent_goes()
        ground.whole("held", CARDS)
        ground.away()


def another_goes(ground):
    """The youngest pods have a budget that permits none; the older ones have no budget and are evicted."""
    free = ground.fill("free", 2)
    time.sleep(LONGER_THAN_A_SECOND)
    held = ground.fill("held", 2)
    ground.budget("none-may-go", "held", 2, maxUnavailable=0)
    ground.urgent()
    ground.urgent_runs()
    ground.check("who has a budget runs on", ground.running("held") == held)
    ground.check("one of the others went", len(ground.running("free") & free) == 1)
    ground.check("no device is marked", not ground.marked(), ground.marked())
    ground.urgent_goes()
    ground.whole("free", 2)


def all_or_none(ground):
    """Two victims are needed, and one of them is protected: the other is not evicted either."""
    ground.fill("equals", 2, node="n-1", priority="high")
    free = ground.fill("free", 1, node="n-0")
    time.sleep(LONGER_THAN_A_SECOND)
    held = ground.fill("held", 1, node="n-0")
    ground.budget("none-may-go", "held", 1, maxUnavailable=0)
    ground.urgent(cards=2)
    ground.awaits("none-may-go", reason="Preempting")
    time.sleep(20)
    ground.check("no pod was evicted", (ground.running("free"), ground.running("held")) == (free, held))
    ground.check("no device is marked", not ground.marked(), ground.marked())
    ground.client.delete(f"{BUDGETS}/none-may-go")
    ground.urgent_runs()
    ground.check("now both went", not ground.running("free") and not ground.running("held"))
    ground.clean("with both gone")
    ground.urgent_goes()
    ground.whole("free", 1)
    ground.whole("held", 1)


def budgets_at_odds(ground):
    """A pod with two budgets can't be evicted at all: the API server answers 500."""
    before = ground.fill("held", CARDS)
    for name in ("one", "two"):
        ground.budget(name, "held", CARDS, maxUnavailable=1)
    ground.urgent()
    ground.awaits("may not be evicted now", "more than one PodDisruptionBudget", reason="Preempting")
    ground.check("no pod was evicted", ground.running("held") == before)
    ground.check("no device is marked", not ground.marked(), ground.marked())
    ground.client.delete(f"{BUDGETS}/two")
    ground.urgent_runs()
    ground.check("one went for it", len(ground.running("held") & before) == CARDS - 1)
    ground.urgent_goes()
    ground.whole("held", CARDS)


def nobody_goes(ground):
    """Equal priority, Retain, and classes that are not preemptible protect claims. A preemptor with preemptionPolicy Never waits until its priority changes."""
    client, check = ground.client, ground.check
    held = {"equal": ("spare", "high"), "kept": ("spare-keep", ""), "fixed": ("late", ""), "last": ("late", "")}
    before = {name: ground.fill(name, 1, cls=cls, priority=priority) for name, (cls, priority) in held.items()}

    def stays(what):
        check(f"{what}: no pod is evicted", all(ground.running(name) == uids for name, uids in before.items()))
        check(f"{what}: no device is marked", not ground.marked(), ground.marked())
        check(f"{what}: nothing is nominated", "nominated" not in ground.status("urgent"))

    ground.urgent()
    message = ground.awaits(reason="NoFit")
    print(f"no pod can be evicted: {message}", flush=True)
    stays("no pod can be evicted")
    check("what would help is said", "free " in message and " of node " in message, message)
    ground.urgent_goes()
    client.delete(f"{DEPLOYMENTS}/last")
    del before["last"]
    until("one card is free", lambda: not ground.pods_of("last"))
    before["low"] = ground.fill("low", 1)
    for by in ("pod", "claim"):
        ground.urgent(priority="never", by=by)
        message = ground.awaits(reason="NoFit")
        stays(f"who never preempts, by {by}")
        if by == "pod":
            ground.urgent_goes()
    print(f"never: {message}", flush=True)
    client.patch(f"{claims()}/urgent", {"spec": {"priorityClassName": "high"}})
    ground.urgent_runs()
    gone = before.pop("low")
    check("of another priority it does", not ground.running("low") & gone)
    check("and only that one went", all(ground.running(name) == uids for name, uids in before.items()))
    ground.urgent_goes()
    ground.whole("low", 1)


def preemptor_goes(ground):
    """The preemptor is deleted when one of two victims is gone and a budget protects the other: the other one stays, and nothing is changed."""
    for loosened in (False, True):
        before = ground.fill("many", CARDS)
        made = ground.made()
        ground.budget("one-at-a-time", "many", CARDS, maxUnavailable=1)
        ground.urgent(cards=2)
        until("one has gone", lambda: len(ground.running("many") & before) == CARDS - 1)
        ground.awaits("one-at-a-time", reason="Preempting")
        time.sleep(3)
        ground.check("the budget holds the other", len(ground.running("many") & before) == CARDS - 1)
        if loosened:
            ground.client.patch(f"{BUDGETS}/one-at-a-time", {"spec": {"maxUnavailable": 2}})
            ground.urgent_runs()
            ground.check("loosened: two went", len(ground.running("many") & before) == CARDS - 2)
            ground.clean("with two gone")
        ground.urgent_goes()
        ground.whole("many", CARDS)
        until("no mark is left", lambda: not ground.marked())
        ground.check("no more went than had to", len(ground.running("many") & before) == CARDS - (2 if loosened else 1))
        ground.check("none went twice", ground.made() - made == (3 if loosened else 2), ground.made() - made)  # including the urgent pod
        ground.clean("without the urgent one")
        ground.away()


def terminating(ground):
    """The preemptor is deleted while the pods of both victims are Terminating: these end, because evictions can't be undone, and no other pod does."""
    before = ground.fill("many", CARDS)
    with ground.nodes_stand_still():
        ground.urgent(cards=2)
        until("two go", lambda: len(ground.going("many")) == 2)
        ground.urgent_goes()
        time.sleep(1)
        ground.check("no other pod is evicted", len(ground.going("many")) == 2)
        until("no mark is left", lambda: not ground.marked())
    ground.whole("many", CARDS)
    ground.check("two were spared", len(ground.running("many") & before) == CARDS - 2)
    ground.clean("without the urgent one")


def killed(ground):
    """kill -9 at various moments of a preemption: the next controller continues it. Only the needed victims are evicted, each once."""
    ground.fill("many", CARDS)
    for delay in (0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.5, None):
        before, made = ground.whole("many", CARDS), ground.made()
        with contextlib.ExitStack() as stack:
            if delay is None:
                stack.enter_context(ground.nodes_stand_still())
            ground.urgent(cards=2)
            if delay is None:
                until("two go", lambda: len(ground.going("many")) == 2)
            else:
                time.sleep(delay)
            ground.cluster.processes.kill("controller")
            at = (ground.words(), len(ground.marked()), CARDS - len(ground.running("many")))
            ground.start_controller()
            if delay is None:
                time.sleep(2)
                ground.check("no other pod is evicted", len(ground.going("many")) == 2)
        print(f"killed after {delay} s: {at[1]} marked, {at[2]} gone, {at[0][:60]!r}", flush=True)
        ground.urgent_runs()
        ground.check(f"killed after {delay}: two went", len(ground.running("many")) == CARDS - 2 and len(ground.running("many") & before) == CARDS - 2)
        ground.check(f"killed after {delay}: none twice", ground.made() - made == 3, ground.made() - made)  # including the urgent pod
        ground.clean(f"killed after {delay}")
        ground.urgent_goes()
    ground.whole("many", CARDS)


def gangs(ground):
    """For a gang of three, three of four claims are preempted, each once and all at once, at whatever moment the controller is killed. For a gang of five
    none is."""
    ground.fill("many", CARDS)
    for delay in (None, 0.6, 0.9, 1.2, 1.6, 2):
        before, made = ground.whole("many", CARDS), ground.made()
        with contextlib.ExitStack() as stack:
            if delay is None:
                stack.enter_context(ground.nodes_stand_still())
            ground.gang("train", CARDS - 1)
            if delay is None:
                until("three go", lambda: len(ground.going("many")) == CARDS - 1)
                nominations = [each["status"]["nominated"] for each in ground.client.items(claims()) if "nominated" in each.get("status", {})]
                ground.check("each member is nominated", len(nominations) == CARDS - 1, nominations)
                ground.check("and for so many, so many go", sum(len(each.get("victims", [])) for each in nominations) == CARDS - 1, nominations)
                ground.check("the oldest claim reports it", any("gang train preempts on nodes" in each for each in ground.messages()), ground.messages())
            else:
                time.sleep(delay)
            ground.cluster.processes.kill("controller")
            at = (len(ground.marked()), CARDS - len(ground.running("many")))
            ground.start_controller()
            if delay is None:
                time.sleep(2)
                ground.check("no other pod is evicted", len(ground.going("many")) == CARDS - 1)
        print(f"killed after {delay} s: {at[0]} marked, {at[1]} gone", flush=True)
        until("the gang runs", lambda: len(ground.running("train")) == CARDS - 1)
        ground.check(f"killed after {delay}: three went", len(ground.running("many") & before) == len(ground.running("many")) == 1)
        ground.check(f"killed after {delay}: none twice", ground.made() - made == 2 * (CARDS - 1), ground.made() - made)
        ground.clean(f"killed after {delay}, with the gang there")
        ground.goes("train")
    before = ground.whole("many", CARDS)
    ground.gang("five", CARDS + 1)
    until("its oldest claim reports that no pod is evicted", lambda: any("capacity for all members of gang five" in each for each in ground.messages()))
    time.sleep(2)
    ground.check("no pod is evicted", ground.running("many") == before)
    ground.check("no device is marked", not ground.marked(), ground.marked())
    ground.goes("five")


def several_claims(ground):
    """For a pod's two claims two victims are evicted, on the only node where two are preemptible; the controller is killed meanwhile. For three claims,
    which fit on no node, none is."""
    client, check = ground.client, ground.check
    ground.fill("fixed", 1, node="n-0", cls="late")
    beside, others = ground.fill("beside", 1, node="n-0"), ground.fill("others", 2, node="n-1")
    for name in "xyz":
        client.create(claims(), card_claim(name, "late", "high"))
    client.create(pods(), pod("three", {"a": "x", "b": "y", "c": "z"}, ("a", "b", "c")))
    until("no pod is evicted for three", lambda: any("capacity for all claims of pod three" in each for each in ground.messages()))
    time.sleep(2)
    check("no pod is evicted", ground.running("beside") == beside and ground.running("others") == others and not ground.marked())
    client.delete(f"{pods()}/three")
    client.delete(f"{claims()}/z")
    with ground.nodes_stand_still():
        client.create(pods(), pod("two", {"a": "x", "b": "y"}, ("a", "b")))
        until("two go", lambda: len(ground.going("others")) == 2)
        check("one claim reports it for both", any("pod two preempts on node n-1" in each for each in ground.messages()), ground.messages())
        ground.cluster.processes.kill("controller")
        ground.start_controller()
    until("the pod runs", lambda: client.get(f"{pods()}/two")["status"].get("phase") == "Running")
    until("its claims are bound", lambda: all(ground.status(name).get("phase") == "Bound" for name in "xy"))
    check("both on the node where two may go", all(ground.status(name)["nodeName"] == "n-1" for name in "xy"))
    check("the others run on", ground.running("beside") == beside)
    ground.clean("with the pod there")


def tenant(ground):
    """A user with the role edit can neither cause an eviction nor prevent one."""
    client, report = ground.client, ground.report
    before = ground.fill("many", CARDS)
    user = editor_of(ground.cluster, client)

    def may():
        try:
            return user.create(f"{claims()}?dryRun=All", card_claim("probe", "now"))
        except Refused:
            return None

    until("he may write claims", may)
    device = verify.World(client).devices.popitem()[0]
    nomination = {"nodeName": "n-0", "cards": [], "victims": [device]}
    made = card_claim("mine", "now")
    made["status"] = {"phase": "Pending", "nominated": nomination}
    user.create(claims(), made)
    report.check("a status that comes with a claim is dropped", "nominated" not in ground.status("mine"))
    ground.awaits(name="mine", reason="NoFit")
    user.patch(f"{claims()}/mine", {"status": {"nominated": nomination}})
    report.check("one that is written beside the spec, too", "nominated" not in ground.status("mine"))
    for what, path, body in (
            ("a nomination", f"{claims()}/mine/status", {"status": {"nominated": nomination}}),
            ("a mark", f"{GPUS}/{device}/status", {"status": {"reason": "Preempted"}}),
            ("a device's class", f"{GPUS}/{device}", {"spec": {"parameters": {"preemptible": "false"}}})):
        report.refused(f"{what} is not his to write", lambda path=path, body=body: user.patch(path, body), 403)
    report.refused("nor is a PriorityClass", lambda: user.create(PRIORITIES, {"metadata": {"name": "mine"}, "value": 5}), 403)
    client.delete(f"{claims()}/mine")
    user.create(claims(), card_claim("mine", "now", "system-cluster-critical"))
    message = ground.awaits("system-cluster-critical is for claims in namespace kube-system", name="mine", of="Accepted")
    report.check("a claim is not of the system", ground.status("mine").get("priority", 0) == 0 and "nominated" not in ground.status("mine"), message)
    wrote = pod("rich", {})
    wrote["spec"]["priority"] = 5000
    report.refused("users cannot write a number", lambda: user.create(pods(), wrote), 403, "priority")
    client.create(QUOTAS, {"metadata": {"name": "no-system"}, "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical", "system-cluster-critical"]}]}}})
    until("the quota counts", lambda: client.get(f"{QUOTAS}/no-system").get("status", {}).get("hard"))
    critical = pod("critical", {})
    critical["spec"]["priorityClassName"] = "system-node-critical"

    def refusal():
        try:
            user.create(pods(), critical)
        except Refused as refused:
            return refused if refused.status == 403 else None  # otherwise the previous one is not gone yet
        client.delete(f"{pods()}/critical")  # the API server's quota count lags
        return None

    refused = until("the API server refuses a pod of the system", refusal)
    report.check("pods of the system are for quotas to refuse", "no-system" in str(refused.body.get("message")), refused)
    report.check("no pod is evicted", ground.running("many") == before)
    report.check("no device is marked", not ground.marked(), ground.marked())


PARTS = (youngest_of_the_lowest, fewest, budget_holds, another_goes, all_or_none, budgets_at_odds, nobody_goes, preemptor_goes,
         terminating, killed, gangs, several_claims, tenant)


def prepare(client):
    for name, value, more in (("high", 1000, {}), ("middle", 500, {}), ("never", 2000, {"preemptionPolicy": "Never"})):
        client.create(PRIORITIES, {"metadata": {"name": name}, "value": value, **more})
    spare = {"parameters": {"preemptible": "true"}}
    for each in (gpu_class("spare", "WaitForFirstConsumer", **spare), gpu_class("spare-now", "Immediate", **spare),
                 gpu_class("spare-keep", "WaitForFirstConsumer", reclaimPolicy="Retain", **spare),
                 gpu_class("late", "WaitForFirstConsumer"), gpu_class("now", "Immediate")):
        client.create(CLASSES, each)
    nodes.publish(client, NODE_NAMES, CARDS_EACH)
    until("the nodes are ready", lambda: nodes.all_ready(client, NODE_NAMES))


def main():
    report = Report()
    wanted = sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="egpu-preemption-") as folder, Cluster(folder, wanted=WHOLE) as cluster:
        installation.apply_manifests(cluster)
        ground = Ground(cluster, report, sys.argv[1])
        prepare(ground.client)
        ground.start_controller()
        watch = ground.watch
        watch.start()
        try:
            for part in PARTS:
                if wanted and part.__name__ not in wanted:
                    continue
                started = time.monotonic()
                part(ground)
                ground.away()
                print(f"{part.__name__}: {time.monotonic() - started:.0f} s", flush=True)
        except BaseException:
            print(f"controller:\n{cluster.processes.tail('controller', 40)}", file=sys.stderr)
            for each in ground.client.items(claims()):
                print(each["metadata"]["name"], each.get("status"), file=sys.stderr)
            raise
        finally:
            watch.over.set()
            watch.join()
        report.check("no card ever gave out more than it has", not watch.check().found, watch.found)
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
