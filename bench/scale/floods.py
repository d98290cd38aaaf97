"""Scenarios in which one tenant with the role `edit` creates 4,000 objects of one kind: measures how much later another tenant's claims are Bound."""

import functools

import tenants
from figures import Figure
from objects import PRIORITY_CLASSES, claim, gang, gpu_class, is_bound, pod, priority_class
from server import Probing, wait
from tenants import CARDS, FLOODER, MODEL
from client import GPUS, Refused, resource_claims, claims, pods  # importing server adds its folder to sys.path

MAX_MEMBERS = 1024  # members of a gang
RATE = 400  # objects a second, eight times the rate of kubectl
QUIET, AFTER = 5.0, 16.0  # seconds of bind times before and after a flood; unschedulable claims are retried every 15 s
GROUP = f"/apis/elasticgpu.io/v1alpha/namespaces/{FLOODER}"
TEMPLATES = f"{GROUP}/elasticgpuclaimtemplates"
POD_GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{FLOODER}/podgroups"
RESOURCE_TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{FLOODER}/resourceclaimtemplates"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{FLOODER}/leases"
# Classes of the flooder, all on the same nodes. They leave some of each card for the other tenant.
SHARE, LATE, SPARE, RESIZABLE = "share", "late", "spare", "resizable"


def prepare(server):
    tenants.prepare(server)
    server.create(PRIORITY_CLASSES, [priority_class("low", 100), priority_class("high", 1000)])
    server.create_class(gpu_class(SHARE, provisioner="gpushare", model=MODEL))
    server.create_class(gpu_class(LATE, "WaitForFirstConsumer", "gpushare", model=MODEL))
    server.create_class(gpu_class(SPARE, provisioner="gpushare", model=MODEL, preemptible="true"))
    server.create_class(gpu_class(RESIZABLE, provisioner="gpushare", model=MODEL, resizable="true"))


def too_much(index):
    """Amounts that no card has, different for each index."""
    return {"gpu": 1, "gpu_memory": f"{90 * 1024 + index}Mi"}


def large_share(index):
    """Amounts that fit on a card once, different for each index."""
    return {"gpu_core": 90, "gpu_memory": f"{4096 + index}Mi"}


def creates(path, body):
    """Returns a writer that creates body(index)."""
    return lambda client: lambda index: client.create(path, body(index))


def creates_claims(amounts, annotations=lambda _: None, class_name=SHARE):
    return creates(claims(FLOODER), lambda index: claim(f"claim-{index:04}", class_name, annotations(index), **amounts(index)))


def edited(body, **spec):
    """Adds fields to the spec of the object and returns it."""
    body["spec"].update(spec)
    return body


def creates_pods(annotations, **spec):
    """Returns a writer of pods with these annotations. `spec`: name of a field → function of the index."""
    return creates(pods(FLOODER), lambda index: edited(bare_pod(f"pod-{index:04}", annotations(index)),
                                                       **{name: value(index) for name, value in spec.items()}))


def bare_pod(name, annotations):
    """A pod without amounts."""
    made = pod(name, "")
    made["metadata"]["annotations"] = annotations
    return made


def amounts_on_pod(class_name=LATE, **amounts):
    """Annotations for which the controller creates a claim for the pod."""
    return {"egpu.elasticgpu.io/class": class_name, **{f"egpu.elasticgpu.io/{key.replace('_', '-')}": str(value) for key, value in amounts.items()}}


def nowhere(index):
    """A nodeSelector that matches no node, different for each index."""
    return {"flooded": str(index)}


def bound_device(client, name):
    """Creates a claim of the flooder, waits until it is Bound and returns the name of its device."""
    path = claims(FLOODER)
    client.create(path, claim(name, SHARE, gpu_core=1, gpu_memory="1Gi"))
    wait(f"claim {name} is Bound", lambda: is_bound(client.get(f"{path}/{name}")), 60)
    return client.get(f"{path}/{name}")["status"]["elasticGPUName"]


def claims_of_cards(client):
    cards = [each["metadata"]["name"] for each in client.items(GPUS) if each["spec"].get("card", {}).get("model") == MODEL]
    return lambda index: client.create(claims(FLOODER), edited(claim(f"claim-{index:04}", SHARE, **large_share(index)),
                                                               elasticGPUName=cards[index % len(cards)]))


def claims_of_one_device(client):
    device = bound_device(client, "first")
    return lambda index: client.create(claims(FLOODER), edited(claim(f"claim-{index:04}", SHARE, gpu_core=1, gpu_memory="1Gi"), elasticGPUName=device))


def claims_of_absent_devices(client):
    return lambda index: client.create(claims(FLOODER), edited(claim(f"claim-{index:04}", SHARE, gpu_core=1), elasticGPUName=f"egpu-absent-{index % 7}"))


def gang_annotations_that_change(client):
    """The first 256 writes create claims of one gang; the other writes change the claims' gang annotations."""
    count = MAX_MEMBERS // 4
    path = claims(FLOODER)

    def write(index):
        if index < count:
            client.create(path, claim(f"claim-{index:04}", SHARE, gang("g", MAX_MEMBERS), **too_much(index)))
            return
        try:
            client.patch(f"{path}/claim-{index % count:04}", {"metadata": {"annotations": gang(f"g-{index // 5 % 11}", 2 + index % MAX_MEMBERS)}})
        except Refused as refused:
            if refused.status != 409:
                raise

    return write


def resizes(client):
    """Claims of a resizable class, whose requests alternate between two sizes."""
    count, path = 64, claims(FLOODER)

    def write(index):
        name = f"claim-{index % count:04}"
        if index < count:
            client.create(path, claim(name, RESIZABLE, gpu_core=10, gpu_memory="1Gi"))
            return
        try:
            client.patch(f"{path}/{name}", {"spec": {"resources": {"requests": {"elasticgpu.io/gpu-core": 10 + index // count % 2 * 20}}}})
        except Refused as refused:
            if refused.status not in (409, 422):  # 422: it is not Bound yet
                raise

    return write


def claims_deleted(client):
    """Half of the writes create small claims, the other half delete them."""
    path, lag = claims(FLOODER), 200

    def write(index):
        number = index // 2
        if index % 2 == 0:
            client.create(path, claim(f"claim-{number:04}", SHARE, gpu_core=1, gpu_memory="256Mi"))
        elif number >= lag:
            client.delete(f"{path}/claim-{number - lag:04}")

    return write


def preemptors(client):
    """Claims of low priority that fill the nodes and wait for them, and claims of high priority that preempt them."""
    return lambda index: client.create(claims(FLOODER), claim(f"claim-{index:04}", SPARE, priority="high" if index % 2 else "low",
                                                                         gpu_core=90, gpu_memory="4Gi"))


def pods_of_one_claim(client):
    """Pods that share a claim with the mode WaitForFirstConsumer, and match no node."""
    client.create(claims(FLOODER), claim("one", LATE, gpu=1))
    return lambda index: client.create(pods(FLOODER), edited(bare_pod(f"pod-{index:04}", {"egpuc.elasticgpu.io/gpu": "one"}), nodeSelector=nowhere(index)))


def pods_of_many_claims(client):
    """Pods that name 16 of 64 claims each, and match no node."""
    for number in range(64):
        client.create(claims(FLOODER), claim(f"claim-{number:02}", LATE, gpu=1))
    return lambda index: client.create(pods(FLOODER), edited(bare_pod(
        f"pod-{index:04}", {f"egpuc.elasticgpu.io/c{part}": f"claim-{(index + 3 * part) % 64:02}" for part in range(16)}), nodeSelector=nowhere(index)))


def pods_of_a_group(client):
    client.create(POD_GROUPS, {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": MAX_MEMBERS}}}})
    return creates_pods(lambda _: amounts_on_pod(gpu=1), schedulingGroup=lambda _: {"podGroupName": "train"})(client)


def pod_groups(client):
    """Groups that lack one pod, alternating with their pods."""

    def write(index):
        name = f"group-{index // 2:04}"
        if index % 2:
            client.create(pods(FLOODER), edited(bare_pod(f"pod-{index:04}", amounts_on_pod(gpu=1)), schedulingGroup={"podGroupName": name}))
        else:
            client.create(POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})

    return write


def template(index):
    return {"metadata": {"name": f"template-{index:04}"}, "spec": {"spec": claim("", LATE, gpu=1)["spec"]}}


def templates_and_pods(client):
    """Templates, alternating with pods that name them and match no node."""

    def write(index):
        if index % 2:
            client.create(pods(FLOODER), edited(bare_pod(f"pod-{index:04}", {"egpuct.elasticgpu.io/gpu": f"template-{index - 1:04}"}),
                                                nodeSelector=nowhere(index)))
        else:
            client.create(TEMPLATES, template(index))

    return write


def resource_claim_spec(index):
    """A ResourceClaim with parameters of an ElasticGPUClaim."""
    parameters = {"egpuClassName": SHARE, "resources": claim("", SHARE, **too_much(index))["spec"]["resources"]}
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "elasticgpu.io"}}],
                        "config": [{"opaque": {"driver": "elasticgpu.io", "parameters": parameters}}]}}


def alternatives(index):
    """A claim with eight alternatives, none of which fits."""

    def alternative(number):
        resources = claim("", SHARE, **too_much(8 * index + number))["spec"]["resources"]
        return {"name": f"a{number}", "models": [MODEL if number % 2 else f"none-{number}"], "resources": resources}

    made = claim(f"claim-{index:04}", SHARE)
    made["spec"] = {"egpuClassName": SHARE, "firstAvailable": [alternative(number) for number in range(8)]}
    return made


def odd_annotations(index):
    return {"elasticgpu.io/gang": "!", "elasticgpu.io/gang-size": "0x2", "elasticgpu.io/gang-topology": "no label key", "elasticgpu.io/move": "x",
            "elasticgpu.io/node-policy": "none", "elasticgpu.io/gang-pod-group": f"absent-{index % 5}", "junk": "x" * 8192}


# Name of a kind → writer(client), an argument of tenants.Flood.
KINDS = {
    # For comparison: the controller does not read Leases of tenants.
    "leases": creates(LEASES, lambda index: {"metadata": {"name": f"lease-{index:04}"}, "spec": {}}),
    "claims-without-room": creates_claims(too_much),
    "claims-some-fit": creates_claims(large_share),
    "claims-that-fit": creates_claims(lambda _: {"gpu_core": 1, "gpu_memory": "256Mi"}),
    "claims-of-absent-class": creates_claims(too_much, class_name="absent"),
    "claims-deleted": claims_deleted,
    "claims-odd-annotations": creates_claims(too_much, odd_annotations),
    "claims-alternatives": creates(claims(FLOODER), alternatives),
    "claims-of-cards": claims_of_cards,
    "claims-of-one-device": claims_of_one_device,
    "claims-of-absent-devices": claims_of_absent_devices,
    "claims-resized": resizes,
    "claims-preempt": preemptors,
    "gang-of-all": creates_claims(large_share, lambda _: gang("crowd", MAX_MEMBERS)),
    "gangs-incomplete": creates_claims(large_share, lambda index: gang(f"g-{index}", 2)),
    "gangs-without-room": creates_claims(too_much, lambda index: gang(f"g-{index // 2}", 2)),
    "gangs-large": creates_claims(large_share, lambda index: gang(f"g-{index // 200}", 200)),
    "gangs-of-topology": creates_claims(large_share, lambda index: {**gang(f"g-{index // 8}", 8), "elasticgpu.io/gang-topology": "kubernetes.io/hostname"}),
    "gangs-change": gang_annotations_that_change,
    "pods-without-claims": creates_pods(lambda _: {}),
    "pods-without-room": creates_pods(lambda _: amounts_on_pod(gpu=CARDS + 1)),
    "pods-some-fit": creates_pods(lambda _: amounts_on_pod(gpu_core=90, gpu_memory="4Gi")),
    "pods-of-own-amounts": creates_pods(lambda index: amounts_on_pod(SHARE, gpu_core=10, gpu_memory=f"{90 * 1024 + index}Mi")),
    "pods-without-node": creates_pods(lambda _: amounts_on_pod(gpu=1), nodeSelector=nowhere),
    "pods-behind-gates": creates_pods(lambda _: amounts_on_pod(gpu=1), schedulingGates=lambda _: [{"name": "example.com/gate"}]),
    "pods-other-scheduler": creates_pods(lambda _: amounts_on_pod(gpu=1), schedulerName=lambda index: f"scheduler-{index % 3}"),
    "pods-of-absent-claims": creates_pods(lambda index: {"egpuc.elasticgpu.io/gpu": f"absent-{index}"}),
    "pods-of-one-claim": pods_of_one_claim,
    "pods-of-many-claims": pods_of_many_claims,
    "pods-of-a-group": pods_of_a_group,
    "pod-groups": pod_groups,
    "templates": creates(TEMPLATES, template),
    "templates-and-pods": templates_and_pods,
    "resource-claims": creates(resource_claims(FLOODER), lambda index: {"metadata": {"name": f"rc-{index:04}"}, "spec": resource_claim_spec(index)}),
    "resource-claim-templates": creates(RESOURCE_TEMPLATES, lambda index: {"metadata": {"name": f"rct-{index:04}"},
                                                                           "spec": {"spec": resource_claim_spec(index)}}),
}


def flood(kind, options):
    """One tenant creates 4,000 objects of the kind."""
    count = options.scaled(4000, least=4)
    share = min(1.0, options.scale)
    with options.server(*tenants.GROUPS) as server:
        prepare(server)
        with Probing(server) as probing:
            figures = tenants.measure(server, KINDS[kind], count, f"{count} × {kind}", RATE, QUIET * share, AFTER * share)
        return figures + [Figure("longest step", probing.longest_step, "s"),
                          Figure("failures of /livez", len(probing.failures), "", max=0)]


def annotated_crowd(options):
    """1,500 claims of one gang, as fast as the server accepts them."""
    count = options.scaled(1500)
    share = min(1.0, options.scale)
    with options.server(*tenants.GROUPS) as server:
        prepare(server)
        return tenants.measure(server, KINDS["gang-of-all"], count, f"{count} of one gang", None, QUIET * share, AFTER * share)


SCENARIOS = {"annotated-crowd": annotated_crowd, **{f"flood-{kind}": functools.partial(flood, kind) for kind in KINDS}}
