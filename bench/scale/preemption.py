"""Scenarios of preemption on full nodes: by one large gang, and by single claims."""

import time

from figures import Figure
from objects import CARDS, NODES, PRIORITY_CLASSES, NodeGroup, bound_condition, claim, gang, gpu_class, is_bound, is_nominated, named, priority_class
from server import Probing, Watch, wait
from client import claims  # importing server adds its folder to sys.path

STOP_PATIENCE = 60  # seconds that a controller may take to end after SIGTERM before it is killed


def full_cluster(server, nodes):
    """Allocates every card to a preemptible claim of low priority."""
    server.create(PRIORITY_CLASSES, [priority_class("low", 100), priority_class("high", 1000)])
    server.create_class(gpu_class("spare", preemptible="true"))
    server.create_class(gpu_class("whole"))
    server.fill(nodes * CARDS, "spare", "low")


def members(name, size):
    return [claim(f"{name}-{index:03}", "whole", gang(name, size), "high", gpu=CARDS) for index in range(size)]


def reclaim(options):
    """A gang of 250 × 8 preempts half of 500 full nodes. Then a second gang requests the other half, and the controller gets SIGTERM."""
    nodes = options.scaled(NODES, least=8)
    size = nodes // 2
    with options.server(NodeGroup(nodes)) as server:
        full_cluster(server, nodes)
        first = {"nominated": named("first-", lambda found: is_nominated(found) or is_bound(found)), "bound": named("first-", is_bound)}
        with Probing(server) as probing:
            with Watch(server, claims(), first) as watch:
                server.create(claims(), members("first", size))
                created = watch.now()
                watch.await_count("bound", size)
            server.create(claims(), members("second", size))
            wait("the second gang preempts", lambda: bound_condition(server.client.get(f"{claims()}/second-000")).get("reason") == "Preempting", 60)
        began = time.monotonic()
        server.terminate(STOP_PATIENCE)
        stopped = time.monotonic() - began
    return [Figure(f"gang of {size} × 8 created", created, "s"),
            Figure("created → first member nominated", watch.first("nominated") - created, "s", max=2),
            Figure("created → last member nominated", watch.last("nominated") - created, "s"),
            Figure("first created → all Bound", watch.last("bound"), "s", max=60),
            Figure("longest step", probing.longest_step, "s", max=1),
            Figure("failures of /livez", len(probing.failures), "", max=0),
            Figure("slowest answer of /livez", probing.slowest, "s"),
            Figure("SIGTERM → exit", stopped, "s", max=5)]


def single_preemptors(options):
    """200 claims of one card and high priority on 500 full nodes."""
    nodes = options.scaled(NODES, least=4)
    count = options.scaled(200, least=4)
    with options.server(NodeGroup(nodes)) as server:
        full_cluster(server, nodes)
        with Watch(server, claims(), {"bound": named("single-", is_bound)}) as watch:
            server.create(claims(), [claim(f"single-{index:03}", "whole", priority="high", gpu=1) for index in range(count)])
            watch.await_count("bound", count)
            seconds = watch.last("bound")
    return [Figure(f"{count} single preemptors Bound", seconds, "s"),
            Figure("single preemptors Bound per second", count / seconds, "", least=10)]


SCENARIOS = {"reclaim": reclaim, "single-preemptors": single_preemptors}
