"""KAI-Scheduler 2058: users ask why a workload is pending, and want the one dominant reason in plain words, with evidence and a next step, for every cause:
gang, sharing, topology, quota, limit, priority and node fit. Examples are a job with 7 of 8 workers and a job of 16 GPUs that waits although 16 GPUs are
free.
Elastic GPU puts one reason on the claim's condition `Bound` and an event on the pod. Each message names the obstacle and how to remove it; `explain` gives the
same answer and changes nothing.  kai_2058_test.py BIN_DIR"""
import json
import sys

from field import claim, egpu_class, gang, main, pod, pod_of, quota

NODES = """nodes:
- {name: n, count: 4, cpu: 64, memory: 256Gi, labels: {zone: a}, gpus: [{model: A100, count: 4, memory: 40Gi}]}
- {name: kept, cpu: 64, memory: 256Gi, taints: [{key: dedicated, value: research, effect: NoSchedule}], gpus: [{model: A100, count: 4, memory: 40Gi}]}
"""


def end(world, what):
    world.delete("pod", "--all")
    world.delete("egpuc", "--all")
    world.empty(what)


def events(world, pod_name):
    return [each["message"] for each in world.list("events") if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == ("Pod", pod_name)]


def waits(world, what, name, reason, *parts):
    """Checks reason and message of a claim, the event of its pod, and that the pod is Pending."""
    world.equals(f"{what}: the reason", lambda: world.reason(name), reason)
    world.contains(f"{what}: the message", lambda: world.message(name), *parts)
    world.check(f"{what}: the condition Bound has both", (world.condition(name).get("reason"), world.condition(name).get("message"))
                == (world.reason(name), world.message(name)) and world.condition(name).get("status") == "False", world.condition(name))
    world.equals(f"{what}: the pod is Pending", lambda: world.pod_phase(name), "Pending")
    world.equals(f"{what}: an event of the pod gives the reason", lambda: any(f"claim {name}: {reason}: " in each for each in events(world, name)), True)


def seven_of_eight(class_name):
    def part(world):
        for i in range(7):
            world.apply(claim(f"worker-{i}", class_name, annotations=gang("train", 8), gpu=1), pod_of(f"worker-{i}"))
        waits(world, f"{class_name} gang", "worker-0", "WaitingForGang", "gang train")
        counts = lambda: [message for _, _, message in world.claims().values() if "members of gang" in message or "member of gang" in message]
        world.equals(f"{class_name} gang: one claim says how many are here, and no claim another number", counts,
                     ["7 of 8 members of gang train are here"])
        world.check(f"{class_name} gang: nothing is held", not world.ledger(), world.ledger())
        world.apply(claim("worker-7", class_name, annotations=gang("train", 8), gpu=1), pod_of("worker-7"))
        world.runs(*(f"worker-{i}" for i in range(8)))
        end(world, f"{class_name} gang: given back")
    return part


def free_but_scattered(class_name):
    """Two of four cards are free on each node. A job of four cards needs one node."""
    def part(world):
        fillers = [f"filler-{i}" for i in range(4)]
        world.apply(*(pod_of(name, nodeSelector={"kubernetes.io/hostname": f"n-{i}"}) for i, name in enumerate(fillers)),
                    *(claim(name, "wait", gpu=2) for name in fillers))
        world.runs(*fillers)
        world.apply(claim("wide", class_name, gpu=4), pod_of("wide"))
        waits(world, f"{class_name} scattered", "wide", "NoFit", "too few fitting cards (need 4, best has 2)", "would fit now")
        world.delete("pod", "filler-1")
        world.delete("egpuc", "filler-1")
        world.runs("wide")
        world.check(f"{class_name} scattered: it runs where the filler was", world.get("pod", "wide")["spec"]["nodeName"] == "n-1", world.ledger())
        end(world, f"{class_name} scattered: given back")
    return part


def over_quota(class_name):
    def part(world):
        world.apply(quota("team", {"gpu": 1}), claim("first", class_name, gpu=1), pod_of("first"))
        world.runs("first")
        world.apply(claim("second", class_name, gpu=1), pod_of("second"))
        waits(world, f"{class_name} quota", "second", "QuotaExceeded", "quota team allows gpu 1, 1 is used", "default/first")
        world.delete("egpuquota", "team")
        world.runs("second")
        end(world, f"{class_name} quota: given back")
    return part


def no_class(world):
    world.apply(claim("typo", "shar", gpu=1), pod_of("typo"))
    waits(world, "class", "typo", "ClassNotFound", "ElasticGPUClass \"shar\" not found")
    world.apply(egpu_class("shar"))
    world.runs("typo")
    end(world, "class: given back")
    world.delete("egpuclass", "shar")


def no_such_model(class_name):
    def part(world):
        world.apply(claim("model", class_name, spec={"models": ["H100"]}, gpu=1), pod_of("model"))
        waits(world, f"{class_name} model", "model", "NoFit", "H100")
        end(world, f"{class_name} model: nothing is held")
    return part


def too_large(class_name):
    def part(world):
        world.apply(claim("huge", class_name, core=10, memory="80Gi"), pod_of("huge"))
        waits(world, f"{class_name} size", "huge", "NoFit", "too small in memory (need 80Gi, best is 40Gi)", "gpu-memory 40Gi would fit now")
        end(world, f"{class_name} size: nothing is held")
    return part


def node_conditions(world):
    """Only the class with WaitForFirstConsumer considers the pod's constraints on nodes."""
    world.apply(claim("nowhere", "wait", gpu=1), pod_of("nowhere", nodeSelector={"zone": "b"}))
    waits(world, "selector", "nowhere", "NoFit", "not labelled zone=b as the pod selects")
    world.apply(claim("tainted", "wait", gpu=1), pod_of("tainted", nodeSelector={"kubernetes.io/hostname": "kept"}))
    waits(world, "taint", "tainted", "NoFit", "tainted dedicated=research:NoSchedule, which the pod does not tolerate")
    end(world, "node conditions: nothing is held")


def held_back(world):
    for class_name in ("share", "wait"):
        name = f"gated-{class_name}"
        world.apply(pod(name, annotations={"egpu.elasticgpu.io/class": class_name, "egpu.elasticgpu.io/gpu": "1"},
                        schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
        world.contains(f"{class_name} gate", lambda: str(world.claims()), "WaitingForGates", "kueue.x-k8s.io/admission")
        world.delete("pod", name)
        name = f"foreign-{class_name}"
        world.apply(pod(name, annotations={"egpu.elasticgpu.io/class": class_name, "egpu.elasticgpu.io/gpu": "1"}, schedulerName="kai-scheduler"))
        world.contains(f"{class_name} scheduler", lambda: str(world.claims()), "SchedulerNotServed", "kai-scheduler", "--schedulers")
        world.delete("pod", name)
    world.empty("gates: nothing is held")


def explained(world):
    """`explain` answers as the condition does, and changes nothing."""
    world.apply(claim("all", gpu=4, spec={"models": ["A100"]}), claim("size", core=10, memory="80Gi"))
    world.equals("explain: the claim waits", lambda: world.reason("size"), "NoFit")
    before = world.get("egpuc", "size")["metadata"]["resourceVersion"]
    answer = json.loads(world.server.http("/explain?claim=size"))
    world.check("explain: no node fits, and the stages say why", answer["decision"]["fits"] is False and "40Gi" in str(answer), answer)
    remedy = answer["smallestChange"]
    world.check("explain: the message has the same remedy", remedy and remedy in world.message("size"), (answer, world.message("size")))
    world.check("explain: nothing is written", world.get("egpuc", "size")["metadata"]["resourceVersion"] == before)
    end(world, "explain: given back")


if __name__ == "__main__":
    sys.exit(main(NODES, *(each(name) for name in ("share", "wait") for each in (seven_of_eight, free_but_scattered, over_quota, no_such_model, too_large)),
                  no_class, node_conditions, held_back, explained))
