"""Scenarios of gangs: one that fits, one that does not, and many that need preemption."""

from figures import Figure
from objects import CARDS, NODES, PRIORITY_CLASSES, NodeGroup, bound_condition, claim, gang, gpu_class, is_bound, is_running, named, pod, priority_class
from server import Watch
from client import GPUS, claims, pods  # importing server adds its folder to sys.path


def gang_of_pods(options):
    """A gang of 512 pods with a card each on 500 nodes."""
    size = options.scaled(512, least=2)
    with options.server(NodeGroup(options.scaled(NODES))) as server:
        server.create_class(gpu_class("whole", "WaitForFirstConsumer"))
        server.rest()  # the first status of each card is a write: eight per pod
        decided = server.metric("elasticgpu_decision_seconds_sum")
        with Watch(server, pods(), {"running": is_running}) as watch, Watch(server, claims(), {"made": lambda _: True}) as made, \
                Watch(server, GPUS, {"device": lambda found: "card" not in found["spec"]}) as devices:
            server.create(pods(), [pod(f"member-{index:03}", "whole", gang("train", size)) for index in range(size)])
            watch.await_count("running", size)
            decided = server.metric("elasticgpu_decision_seconds_sum") - decided
            first_device = devices.first("device") + devices.began - made.began
            return [Figure(f"last of {size} claims made", made.last("made"), "s"),
                    Figure("time deciding", decided, "s", max=1),
                    Figure("last claim made → first device", first_device - made.last("made"), "s", max=1),
                    Figure(f"gang of {size} pods Running", watch.last("running"), "s", max=40)]


def impossible_gang(options):
    """A gang of 10 × 8 cards on 500 nodes, of which 9 are free: the tenth member's condition must name the missing cards."""
    nodes = options.scaled(NODES, least=12)
    size = 10
    with options.server(NodeGroup(nodes)) as server:
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
        # Nine members fit. The tenth requests eight cards, and each other node has seven free cards.
        names_cause = all(part in messages[0] for part in (f"{size - 1} of {size} members", "need 8, best has 7"))
    return [Figure("impossible gang of 10 × 8 explained", seconds, "s", max=0.5),
            Figure("messages without the true cause", float(not names_cause), "", max=0)]


def consolidation(options):
    """41 gangs of 10 × 6 cards of high priority on 500 nodes with five free cards each. Each member needs a node on which one claim of low priority is
    preempted; nodes without a member keep all of their claims."""
    nodes, gangs, size = options.scaled(NODES, least=25), options.scaled(41, least=2), 10
    with options.server(NodeGroup(nodes)) as server:
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
    return [Figure(f"{gangs} gangs of {size} × 6 Bound", seconds, "s", max=180),
            Figure("all claims of low priority Bound again", again, "s")]


SCENARIOS = {"gang": gang_of_pods, "impossible-gang": impossible_gang, "consolidation": consolidation}
