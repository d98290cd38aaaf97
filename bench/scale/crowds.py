"""Scenarios with many pods or claims of one kind: pods that start, claims that are deleted, wait or are listed."""

import os
import statistics
import subprocess
import time

from figures import Figure
from objects import CARDS, NODES, NodeGroup, claim, gpu_class, is_bound, is_running, named, pod
from server import PATIENCE, Watch
from client import claims, pods  # importing server adds its folder to sys.path

EXPLAINED = 18  # seconds without a step after which all explanations are complete: they are made at intervals of 15 s


def pods_running(options):
    """Measures 4,000 pods with a card each, which fill 500 nodes, from the first creation until all are Running."""
    nodes = options.scaled(NODES)
    count = nodes * CARDS
    with options.server(NodeGroup(nodes)) as server:
        server.create_class(gpu_class("whole", "WaitForFirstConsumer"))
        states = {"created": lambda _: True, "ungated": lambda found: not found["spec"].get("schedulingGates"),
                  "placed": lambda found: "nodeName" in found["spec"], "running": is_running}
        with Watch(server, pods(), states) as watch, Watch(server, claims(), {"bound": is_bound}) as bound:
            server.create(pods(), [pod(f"pod-{index:04}", "whole") for index in range(count)])
            created = watch.now()
            watch.await_count("running", count)
            end = watch.last("running")
            bound.await_count("bound", count)

    def median(watch, state):
        return statistics.median(watch.times[state].values()) / end

    return [Figure(f"{count} pods created", created, "s"),
            Figure(f"{count} pods Running", end, "s", max=240),
            Figure("median pod created ÷ the last Running", median(watch, "created"), ""),
            Figure("median pod without its gate ÷ the last Running", median(watch, "ungated"), ""),
            Figure("median pod placed ÷ the last Running", median(watch, "placed"), ""),
            Figure("median claim Bound ÷ the last Running", median(bound, "bound"), ""),
            Figure("median pod Running ÷ the last", median(watch, "running"), "", max=0.6)]


def deleted_claims(options):
    """Counts the controller's requests for each Bound claim that is deleted."""
    count = options.scaled(2000)
    with options.server(NodeGroup(options.scaled(NODES))) as server:
        server.create_class(gpu_class("whole"))
        server.fill(count, "whole")
        before, absent = server.requests(), server.requests(verb="get", code="404")
        began = time.monotonic()
        server.delete(claims(), [f"holder-{index:05}" for index in range(count)])
        server.rest()
        seconds = time.monotonic() - began
        left = len(server.client.items(claims()))
        if left:
            raise AssertionError(f"{left} claims are left")
        total, absent = server.requests() - before, server.requests(verb="get", code="404") - absent
    return [Figure(f"{count} claims deleted, until rest", seconds, "s"),
            Figure("requests per deleted claim", total / count, "", max=8),
            Figure("GETs answered 404 per deleted claim", absent / count, "", max=1)]


def freed_card(options):
    """Counts the controller's steps after one card becomes free while 10,000 claims wait for a card."""
    nodes, waiting = options.scaled(100), options.scaled(10_000)
    with options.server(NodeGroup(nodes)) as server:
        server.create_class(gpu_class("whole"))
        server.fill(nodes * CARDS, "whole")
        server.create(claims(), [claim(f"waiting-{index:05}", "whole", gpu=1) for index in range(waiting)])
        before = server.rest(quiet=EXPLAINED)
        with Watch(server, claims(), {"bound": named("waiting-", is_bound)}) as watch:
            server.delete(claims(), ["holder-00000"])
            watch.await_count("bound", 1)
            bound = watch.first("bound")
        steps = server.rest() - before
    return [Figure(f"a claim Bound, {waiting} pending", bound, "s"),
            Figure("steps until rest", steps, "", max=100)]


def list_time(server, count, *flags):
    """Returns the seconds of `kubectl get egpuc`, with kubectl's discovery cache filled."""
    environment = dict(os.environ, KUBECONFIG=server.kubeconfig, HOME=server.work)
    for _ in range(2):
        began = time.monotonic()
        done = subprocess.run(["kubectl", "get", "egpuc", "--no-headers", *flags], env=environment, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        seconds = time.monotonic() - began
    lines = done.stdout.count(b"\n")
    if lines != count:
        raise AssertionError(f"kubectl printed {lines} claims instead of {count}")
    return seconds


def listed_claims(options):
    """Measures `kubectl get egpuc` for 50,000 Bound claims of one namespace: with kubectl's default pages, and in one request."""
    count = options.scaled(50_000)
    each = 16  # shares on a card
    with options.server(NodeGroup(max(1, -(-count // (CARDS * each))))) as server:
        server.create_class(gpu_class("share", provisioner="gpushare"))
        server.fill(count, "share", amounts={"gpu_core": 100 // each, "gpu_memory": "4Gi"})
        at_once, paged = list_time(server, count, "--chunk-size=0"), list_time(server, count)
    return [Figure(f"kubectl get of {count} claims, one request", at_once, "s", max=8),
            Figure(f"kubectl get of {count} claims, its pages of 500", paged, "s", max=8)]


SCENARIOS = {"pods": pods_running, "deleted-claims": deleted_claims, "freed-card": freed_card, "kubectl-get": listed_claims}
