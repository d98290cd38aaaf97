"""Scenarios of gangs: one that fits, one that does not, many that need room, and claims that share one annotation."""

import concurrent.futures
import multiprocessing
import time

from figures import Figure
from objects import (CARDS, NAMESPACES, NODES, PRIORITY_CLASSES, bound_condition, claim, gang, gpu_class, is_bound, is_running, named, nodes_yaml, pod,
                     priority_class)
from server import PATIENCE, Server, Watch, wait
from client import GPUS, Client, claims, pods  # found by way of server

MOST = 1024  # members of a gang


def gang_of_pods(options):
    """A gang of 512 pods with a card each on 500 nodes."""
    size = options.scaled(512, least=2)
    with Server(options.bin_dir, nodes_yaml(options.scaled(NODES))) as server:
        server.create_class(gpu_class("whole", "WaitForFirstConsumer"))
        decided = server.metric("elasticgpu_decision_seconds_sum")
        with Watch(server, pods(), {"running": is_running}) as watch, Watch(server, claims(), {"made": lambda _: True}) as made, \
                Watch(server, GPUS, {"device": lambda found: "card" not in found["spec"]}) as devices:
            server.create(pods(), [pod(f"member-{index:03}", "whole", gang("train", size)) for index in range(size)])
            watch.await_count("running", size)
            decided = server.metric("elasticgpu_decision_seconds_sum") - decided
            first_device = devices.first("device") + devices.began - made.began
            return [Figure(f"last of {size} claims made", made.last("made"), "s"),
                    Figure("time deciding", decided, "s", most=1),
                    Figure("last claim made → first device", first_device - made.last("made"), "s", most=1),
                    Figure(f"gang of {size} pods Running", watch.last("running"), "s", most=40)]


def impossible_gang(options):
    """A gang of 10 × 8 cards on 500 nodes, of which 9 are free: the tenth member must be told what it lacks."""
    nodes = options.scaled(NODES, least=12)
    size = 10
    with Server(options.bin_dir, nodes_yaml(nodes)) as server:
        server.create_class(gpu_class("apart", nodePolicy="spread"))
        server.create_class(gpu_class("whole"))
        server.fill(nodes - (size - 1), "apart")
        names = [f"member-{index}" for index in range(size)]
        server.create(claims(), [claim(name, "whole", gang("train", size), gpu=CARDS) for name in names[:-1]])
        server.rest()
        with Watch(server, claims(), {"explained": lambda found: bound_condition(found).get("reason") == "NoFit"}) as watch:
            began = watch.now()
            server.client.create(claims(), claim(names[-1], "whole", gang("train", size), gpu=CARDS))
            watch.await_count("explained", 1, 60)
            seconds = watch.first("explained") - began
        found = server.client.items(claims())
        messages = [bound_condition(each).get("message", "") for each in found if bound_condition(each).get("reason") == "NoFit"]
        print("    " + messages[0], flush=True)
        # Nine members fit, and each other node has seven free cards of the eight that the tenth asks for.
        names_cause = all(part in messages[0] for part in (f"{size - 1} of {size} members", "need 8, best has 7"))
    return [Figure("impossible gang of 10 × 8 explained", seconds, "s", most=0.5),
            Figure("messages without the true cause", float(not names_cause), "", most=0)]


def consolidation(options):
    """41 gangs of 10 × 6 cards of high priority on 500 nodes with five free cards each. Each member needs a node of which one
    claim of low priority leaves; nodes that have no member hold all of these."""
    nodes, gangs, size = options.scaled(NODES, least=25), options.scaled(41, least=2), 10
    with Server(options.bin_dir, nodes_yaml(nodes)) as server:
        server.create(PRIORITY_CLASSES, [priority_class("low", 100), priority_class("high", 1000)])
        server.create_class(gpu_class("spare", preemptible="true", nodePolicy="spread"))
        server.create_class(gpu_class("whole"))
        server.fill(3 * nodes, "spare", "low")
        server.replace_class(gpu_class("spare", preemptible="true"))
        server.rest()
        members = [claim(f"gang-{number:02}-{index}", "whole", gang(f"gang-{number:02}", size), "high", gpu=6)
                   for number in range(gangs) for index in range(size)]
        with Watch(server, claims(), {"bound": named("gang-", is_bound)}) as watch:
            server.create(claims(), members)
            watch.await_count("bound", len(members))
            seconds = watch.last("bound")
            server.await_bound(3 * nodes + len(members))
            again = watch.now()
    return [Figure(f"{gangs} gangs of {size} × 6 Bound", seconds, "s", most=180),
            Figure("all claims of low priority Bound again", again, "s")]


def flood(url, count, annotations):
    """In a process of its own: creates members of one gang, several at once."""
    client = Client(url)
    client.separators = (",", ":")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: client.create(claims("crowd"), claim(f"member-{index:04}", "share", annotations, gpu_core=90, gpu_memory="4Gi")),
                      range(count)))


def bind_time(server, name):
    """Seconds from the creation of a small claim until it is Bound; the claim is deleted."""
    path = claims("other")
    began = time.monotonic()
    server.client.create(path, claim(name, "share", gpu_core=1, gpu_memory="1Gi"))
    wait("a claim of another tenant is Bound", lambda: is_bound(server.client.get(f"{path}/{name}")), PATIENCE, 0.002)
    seconds = time.monotonic() - began
    server.client.delete(f"{path}/{name}")
    return seconds


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def annotated_crowd(options):
    """1,500 claims that name one gang, and how long a claim of another tenant takes to be Bound meanwhile and for ten seconds after."""
    count = options.scaled(1500)
    with Server(options.bin_dir, nodes_yaml(20, 4)) as server:
        server.create_class(gpu_class("share", provisioner="gpushare"))
        server.create(NAMESPACES, [{"metadata": {"name": name}} for name in ("crowd", "other")])
        server.rest()
        alone = [bind_time(server, f"alone-{index}") for index in range(30)]
        process = multiprocessing.Process(target=flood, args=(server.address(), count, gang("crowd", MOST)))
        process.start()
        beside, after = [], None
        while after is None or time.monotonic() < after + 10:
            beside.append(bind_time(server, f"beside-{len(beside):04}"))
            if after is None and not process.is_alive():
                after = time.monotonic()
            time.sleep(0.05)
        process.join()
        if process.exitcode != 0:
            raise AssertionError("the members were not all created")
    return [Figure("create → Bound alone, p99 of 30", percentile(alone, 0.99), "s"),
            Figure(f"beside {count} of one gang, p50 of {len(beside)}", percentile(beside, 0.5), "s"),
            Figure(f"beside {count} of one gang, p99", percentile(beside, 0.99), "s", most=0.1),
            Figure(f"beside {count} of one gang, slowest", max(beside), "s")]


SCENARIOS = {"gang": gang_of_pods, "impossible-gang": impossible_gang, "consolidation": consolidation, "annotated-crowd": annotated_crowd}
