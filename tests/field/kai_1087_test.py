"""KAI-Scheduler 1087: in a cluster with several types of GPUs a queue's quota cannot be set by type, such as H100 or B200.
An ElasticGPUQuota of Elastic GPU with `selector.models` counts only cards of these models. A claim that accepts any model gets a model that the quotas permit.
A claim of the exhausted model waits as QuotaExceeded, and the message names the model and the holders. Other models and other namespaces are not affected, and
the condition ModelsExist reports a model that no card has.  kai_1087_test.py BIN_DIR"""
import sys

from field import claim, main, namespace, pod_of, pod_with, quota

NODES = """nodes:
- {name: h, cpu: 128, memory: 512Gi, gpus: [{model: H100, count: 4, memory: 80Gi}]}
- {name: b, cpu: 128, memory: 512Gi, gpus: [{model: B200, count: 2, memory: 180Gi}]}
"""


def by_model(name, hard, space, *models):
    return quota(name, hard, space, selector={"models": list(models)})


def prepare(world):
    for space in ("share", "wait", "other"):
        world.apply(namespace(space))
    for space in ("share", "wait"):
        world.apply(by_model("h100", {"gpu": 2}, space, "H100"), by_model("b200", {"gpu": 1, "gpu-memory": "90Gi"}, space, "B200"))


def models_of(world, space):
    cards = world.cards()
    return sorted(cards[card]["spec"]["card"]["model"] for card, holder, _, _ in world.ledger() if holder.startswith(space + "/"))


def of(name, space, model, **amounts):
    return claim(name, space, space, spec={"models": [model]}, **amounts)


def end(world, space, what):
    world.delete("pod", "--all", namespace=space)
    world.delete("egpuc", "--all", namespace=space)
    world.empty(what)
    world.equals(f"{what}: nothing is used", lambda: (str(world.used("h100", space).get("gpu")), str(world.used("b200", space).get("gpu"))), ("0", "0"))


def limited(space):
    def part(world):
        for name in ("h1", "h2", "h3"):
            world.apply(of(name, space, "H100", gpu=1), pod_of(name, namespace=space))
            if name != "h3":
                world.runs(name, namespace=space)
        world.equals(f"{space}: the third H100 exceeds the quota", lambda: world.reason("h3", space), "QuotaExceeded")
        world.contains(f"{space}: the message names quota, model and holders", lambda: world.message("h3", space),
                       "quota h100 allows gpu of H100 2, 2 is used: 1 too little for another 1", f"{space}/h1")
        world.apply(of("b1", space, "B200", core=50, memory="90Gi"), pod_of("b1", namespace=space))
        world.runs("b1", namespace=space)
        world.check(f"{space}: a B200 is given beside it", models_of(world, space) == ["B200", "H100", "H100"], world.ledger())
        world.equals(f"{space}: each quota counts its model", lambda: (str(world.used("h100", space).get("gpu")), str(world.used("b200", space).get("gpu"))),
                     ("2", "1"))
        world.apply(pod_with("elsewhere", space, "other", gpu=2, model="H100"))
        world.runs("elsewhere", namespace="other")
        world.delete("pod", "elsewhere", namespace="other")
        world.delete("pod", "h1", namespace=space)
        world.delete("egpuc", "h1", namespace=space)
        world.runs("h3", namespace=space)
        end(world, space, f"{space}: both models are given back")
    return part


def any_model(space):
    """Three claims of any model: two get an H100 and one a B200, as the quotas permit; the fourth gets none."""
    def part(world):
        names = ["any-1", "any-2", "any-3"]
        for name in names:
            world.apply(claim(name, space, space, core=50, memory="70Gi"), pod_of(name, namespace=space))
            world.runs(name, namespace=space)
        world.apply(claim("any-4", space, space, core=50, memory="70Gi"), pod_of("any-4", namespace=space))
        world.equals(f"{space}: the fourth waits for quota", lambda: world.reason("any-4", space), "QuotaExceeded")
        world.check(f"{space}: the three have two H100 and one B200", models_of(world, space) == ["B200", "H100", "H100"], world.ledger())
        end(world, space, f"{space}: any model is given back")
    return part


def unknown_model(world):
    world.apply(by_model("typo", {"gpu": 1}, "share", "H10O"))
    world.contains("a model that no card has is shown", lambda: str(world.get("egpuquota", "typo", "share").get("status", {}).get("conditions")),
                   "ModelsExist", "'status': 'False'", "H100", "B200")
    world.delete("egpuquota", "typo", namespace="share")


if __name__ == "__main__":
    sys.exit(main(NODES, prepare, *(each(space) for space in ("share", "wait") for each in (limited, any_model)), unknown_model))
