#!/usr/bin/env python3
"""Proves the migration of pods in namespaces with the label elasticgpu.io/migrate: a pod of another GPU-sharing system is converted with all its requests,
or refused with a message that names the replacement, or left unchanged. A converted pod can be applied again.

migrate_test.py
"""

import json
import subprocess
import sys
import tempfile

import installation
from apiserver import API_SERVER, Cluster, guarded
from client import Client, Refused, Report, pods, until

GATE = "elasticgpu.io/claims"
FLAVOURS = ("hami", "nvidia")
AMOUNT = "egpu.elasticgpu.io/"


def pod(limits=None, annotations=None, labels=None, others=None, requests=None, env=None, inits=None, **spec):
    """limits: of the container main. others, inits: name → limits of further containers."""
    def container(name, amounts, asked=None):
        resources = {kind: {key: str(value) for key, value in given.items()} for kind, given in (("limits", amounts), ("requests", asked)) if given}
        return {"name": name, "image": "none", **({"resources": resources} if resources else {})}
    main = container("main", limits, requests)
    if env:
        main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    made = {"containers": [main, *(container(name, amounts) for name, amounts in (others or {}).items())], **spec}
    if inits:
        made["initContainers"] = [container(name, amounts) for name, amounts in inits.items()]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations or {}, "labels": labels or {}}, "spec": made}


def nvidia(**amounts):
    """gpu → nvidia.com/gpu; an underscore is a hyphen."""
    return {f"nvidia.com/{key.replace('_', '-')}": value for key, value in amounts.items()}


def vgpu(**amounts):
    return {f"volcano.sh/vgpu-{key.replace('_', '-')}": value for key, value in amounts.items()}


def fusion(**settings):
    return {f"tensor-fusion.ai/{key.replace('_', '-')}": value for key, value in settings.items()}


GPU = nvidia(gpu=1)
MIG = nvidia(**{"mig-1g.5gb": 1})
ENABLED = {"tensor-fusion.ai/enabled": "true"}

# Converted pods: (flavour, name, pod, container → amounts of its claim, further fields of the spec).
CONVERTED = [
    ("hami", "a whole card", pod(GPU), {"main": "gpu-1"}, {}),
    ("hami", "a share by MiB", pod(nvidia(gpu=1, gpumem=3000)), {"main": "gpu-1.memory-3000-mi"}, {}),
    ("hami", "a share of both", pod(nvidia(gpu=1, gpumem=4096, gpucores=25)), {"main": "gpu-1.core-25.memory-4096-mi"}, {}),
    ("hami", "two shares for one container", pod(nvidia(gpu=2, gpumem=8000, gpucores=60)), {"main": "gpu-2.core-60.memory-8000-mi"}, {}),
    ("hami", "equal percentages", pod(nvidia(gpu=1, gpucores=50, gpumem_percentage=50)), {"main": "gpu-1.core-50"}, {}),
    ("hami", "equal limits and requests", pod(nvidia(gpu=1, gpumem=1024), requests=nvidia(gpu=1, gpumem=1024)), {"main": "gpu-1.memory-1024-mi"}, {}),
    ("hami", "HAMi's own mode", pod(nvidia(gpu=1, gpumem=2000), {"nvidia.com/vgpu-mode": "hami-core"}), {"main": "gpu-1.memory-2000-mi"}, {}),
    ("hami", "HAMi's scheduler is replaced", pod(nvidia(gpu=1, gpumem=2000), schedulerName="hami-scheduler"),
     {"main": "gpu-1.memory-2000-mi"}, {"schedulerName": "default-scheduler"}),
    ("hami", "annotations that HAMi writes, on a copied pod", pod(GPU, {"hami.io/bind-phase": "success", "hami.io/vgpu-node": "n1"}), {"main": "gpu-1"}, {}),
    ("hami", "a NIC beside it", pod({**nvidia(gpu=1, gpumem=500), "nvidia.com/hostdev": 1}), {"main": "gpu-1.memory-500-mi"}, {"left": {"nvidia.com/hostdev"}}),
    ("hami", "two containers and an init container", pod(nvidia(gpu=1, gpumem=100), others={"side": nvidia(gpumem=200)}, inits={"first": nvidia(gpu=1, gpumem=100)}),
     {"main": "gpu-1.memory-100-mi", "side": "gpu-1.memory-200-mi"}, {}),
    ("nvidia", "a card", pod(GPU), {"main": "gpu-1"}, {}),
    ("nvidia", "MIG instances", pod(MIG, others={"side": nvidia(**{"mig-3g.20gb.me": 2}), "more": GPU}),
     {"main": "mig-1x1g-05gb.class-mig", "side": "mig-2x3g-020gb-0me.class-mig", "more": "gpu-1"}, {}),
    ("nvidia", "eight cards, CPU and a NIC each", pod({**nvidia(gpu=8), "nvidia.com/hostdev": 8, "cpu": 32}), {"main": "gpu-8"}, {"left": {"nvidia.com/hostdev", "cpu"}}),
    ("nvidia", "RDMA by the network operator", pod({**GPU, "rdma/rdma_shared_device_a": 1}), {"main": "gpu-1"}, {"left": {"rdma/rdma_shared_device_a"}}),
    ("nvidia", "an InfiniBand VF", pod({**GPU, "nvidia.com/mlnxics": 1}), {"main": "gpu-1"}, {"left": {"nvidia.com/mlnxics"}}),
    ("nvidia", "a card of some product", pod(GPU, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}), {"main": "gpu-1"},
     {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}}),
    ("nvidia", "the operator's runtime class and taint", pod(GPU, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]), {"main": "gpu-1"}, {}),
    ("nvidia", "the default scheduler by name", pod(GPU, schedulerName="default-scheduler"), {"main": "gpu-1"}, {}),
    ("nvidia", "a scheduler that the namespace names", pod(GPU, schedulerName="own-scheduler"), {"main": "gpu-1"}, {"schedulerName": "own-scheduler"}),
]

# Pods that are refused with a message that names the replacement: (flavour, name, pod, words of the message).
BOTH = None
REFUSED = [
    ("hami", "MIG instead of a share", pod(nvidia(gpu=1, gpumem=8000), {"nvidia.com/vgpu-mode": "mig"}),
     ('metadata.annotations[nvidia.com/vgpu-mode]: "mig" cannot be converted', "egpu.elasticgpu.io/mig: <n>x<profile>")),
    ("hami", "MPS instead of a share", pod(nvidia(gpu=1, gpumem=8000), {"nvidia.com/vgpu-mode": "mps"}), ("nvidia.com/vgpu-mode", "parameter isolation", "migrate-class")),
    ("hami", "a type of card", pod(GPU, {"nvidia.com/use-gputype": "A100"}), ('nvidia.com/use-gputype]: "A100"', "parameter model", "migrate-class")),
    ("hami", "no such card", pod(GPU, {"nvidia.com/nouse-gputype": "P40"}), ("nvidia.com/nouse-gputype", "migrate-class")),
    ("hami", "a card by its uuid", pod(GPU, {"nvidia.com/use-gpuuuid": "GPU-1"}), ('nvidia.com/use-gpuuuid]: "GPU-1"', "spec.elasticGPUName")),
    ("hami", "not a card by its uuid", pod(GPU, {"nvidia.com/nouse-gpuuuid": "GPU-1"}), ("nvidia.com/nouse-gpuuuid", "migrate-class")),
    ("hami", "how cards are filled", pod(nvidia(gpu=1, gpumem=100), {"hami.io/gpu-scheduler-policy": "binpack"}), ('hami.io/gpu-scheduler-policy]: "binpack"', "cardPolicy", "migrate-class")),
    ("hami", "by topology", pod(nvidia(gpu=4), {"hami.io/gpu-scheduler-policy": "topology-aware"}), ("topology-aware", "cardPolicy")),
    ("hami", "how nodes are filled", pod(GPU, {"hami.io/node-scheduler-policy": "spread"}), ('hami.io/node-scheduler-policy]: "spread"', "nodePolicy")),
    ("hami", "one NUMA node", pod(nvidia(gpu=2), {"nvidia.com/numa-bind": "true"}), ("nvidia.com/numa-bind", "cardPolicy")),
    ("hami", "weights of devices", pod(GPU, {"hami.io/device-scoring-weights": "slot=1,core=1,memory=3"}), ("hami.io/device-scoring-weights", "remove the annotation")),
    ("hami", "HAMi's webhook disabled", pod(GPU, labels={"hami.io/webhook": "ignore"}), ("metadata.labels[hami.io/webhook]", "without the label elasticgpu.io/migrate")),
    ("hami", "compute always limited", pod(nvidia(gpu=1, gpumem=100, gpucores=10), env={"GPU_CORE_UTILIZATION_POLICY": "force"}), ('container "main": env', "parameter isolation")),
    ("hami", "a task's priority on its card", pod(nvidia(gpu=1, gpumem=100), env={"CUDA_TASK_PRIORITY": "1"}), ('container "main": env', "remove them")),
    ("hami", "a priority as a resource", pod(nvidia(gpu=1, priority=0)), ("resources.limits[nvidia.com/priority]", "remove the resource", "spec.priorityClassName")),
    ("hami", "half the memory and all cores", pod(nvidia(gpu=1, gpumem_percentage=50)), ('set nvidia.com/gpumem: "<MiB>"',)),
    ("hami", "some cores and all memory", pod(nvidia(gpu=1, gpucores=30)), ('set nvidia.com/gpumem: "<MiB>"',)),
    ("hami", "memory twice", pod(nvidia(gpu=1, gpumem=100, gpumem_percentage=50)), ("both set the memory",)),
    ("hami", "a MIG instance", pod(MIG), ("resources.limits[nvidia.com/mig-1g.5gb]", "elasticgpu.io/migrate=nvidia", "egpu.elasticgpu.io/mig: <n>x<profile>")),
    ("hami", "a MIG instance beside a card", pod(GPU, others={"side": nvidia(**{"mig-3g.20gb": 1})}), ('container "side"', "resources.limits[nvidia.com/mig-3g.20gb]", "migrate=nvidia")),
    ("nvidia", "a MIG instance and a card in one container", pod({**GPU, **MIG}), ('container "main"', "cannot be combined")),
    ("nvidia", "two profiles in one container", pod({**MIG, "nvidia.com/mig-2g.10gb": 1}), ('container "main"', "one MIG profile is allowed")),
    ("nvidia", "a compute instance", pod(nvidia(**{"mig-1c.3g.20gb": 1})), ("resources.limits[nvidia.com/mig-1c.3g.20gb]", "such as nvidia.com/mig-1g.10gb")),
    (BOTH, "a slice of time", pod(nvidia(**{"gpu.shared": 1})), ("resources.limits[nvidia.com/gpu.shared]", "set metadata.annotations: {egpu.elasticgpu.io/gpu-core:")),
    ("nvidia", "HAMi's memory", pod(nvidia(gpu=1, gpumem=3000)), ("resources.limits[nvidia.com/gpumem]", "elasticgpu.io/migrate=hami", "egpu.elasticgpu.io/gpu-memory")),
    ("nvidia", "HAMi's cores", pod(nvidia(gpu=1, gpucores=30)), ("resources.limits[nvidia.com/gpucores]", "elasticgpu.io/migrate=hami")),
    ("nvidia", "HAMi's scheduler", pod(GPU, schedulerName="hami-scheduler"), ('spec.schedulerName: "hami-scheduler"', "set spec.schedulerName: default-scheduler")),
    (BOTH, "a card by KAI", pod(GPU, labels={"kai.scheduler/queue": "team"}, schedulerName="kai-scheduler"),
     ('spec.schedulerName: "kai-scheduler"', "set spec.schedulerName: default-scheduler", "elasticgpu.io/migrate-scheduler: kai-scheduler")),
    (BOTH, "a card by Volcano", pod(GPU, {"scheduling.k8s.io/group-name": "job"}, schedulerName="volcano"), ('spec.schedulerName: "volcano"', "migrate-scheduler: volcano")),
    (BOTH, "half a card by KAI", pod(annotations={"gpu-fraction": "0.5"}, labels={"kai.scheduler/queue": "team"}, schedulerName="kai-scheduler"),
     ("metadata.annotations[gpu-fraction]", 'set metadata.annotations: {egpu.elasticgpu.io/gpu-core: "50"}', "spec.schedulerName: default-scheduler")),
    (BOTH, "a third of a card by run:ai", pod(annotations={"gpu-fraction": "0.33"}, labels={"runai/queue": "team"}, schedulerName="runai-scheduler"), ('{egpu.elasticgpu.io/gpu-core: "33"}',)),
    (BOTH, "memory by KAI", pod(annotations={"gpu-memory": "2000"}, schedulerName="kai-scheduler"), ("metadata.annotations[gpu-memory]", "{egpu.elasticgpu.io/gpu-memory: 2000Mi}")),
    (BOTH, "memory that KAI would not read", pod(annotations={"gpu-memory": "2Gi"}), ("{egpu.elasticgpu.io/gpu-memory: <n>Mi}",)),
    (BOTH, "parts of two cards by KAI", pod(annotations={"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}),
     ('{egpu.elasticgpu.io/gpu: "2", egpu.elasticgpu.io/gpu-core: "25"}',)),
    (BOTH, "for one container of two, by KAI", pod(annotations={"gpu-fraction": ".5", "gpu-fraction-container-name": "side"}, others={"side": {}}),
     ('egpu.elasticgpu.io/gpu-core: "50"', "egpuct.elasticgpu.io/side: <template>")),
    (BOTH, "an invalid fraction", pod(annotations={"gpu-fraction": "half"}), ('egpu.elasticgpu.io/gpu-core: "<percent of a card>"',)),
    (BOTH, "Volcano's vGPU", pod(vgpu(number=1, memory=1024, cores=50), schedulerName="volcano"),
     ("resources.limits[volcano.sh/vgpu-", 'egpu.elasticgpu.io/gpu: "1"', "egpu.elasticgpu.io/gpu-memory: 1024Mi", 'egpu.elasticgpu.io/gpu-core: "50"')),
    (BOTH, "Volcano's vGPU by percent", pod(vgpu(number=2, memory_percentage=20)), ('egpu.elasticgpu.io/gpu-core: "20"', 'egpu.elasticgpu.io/gpu: "2"')),
    (BOTH, "Volcano's older gpushare", pod({"volcano.sh/gpu-memory": 2048}), ("resources.limits[volcano.sh/gpu-memory]", "egpu.elasticgpu.io/gpu-memory: 2048Mi")),
    (BOTH, "Aliyun's gpushare", pod({"aliyun.com/gpu-mem": 3}), ("resources.limits[aliyun.com/gpu-mem]", "egpu.elasticgpu.io/gpu-memory: 3Gi")),
    (BOTH, "Tencent's qGPU", pod({"tke.cloud.tencent.com/qgpu-core": 10, "tke.cloud.tencent.com/qgpu-memory": 4}),
     ('egpu.elasticgpu.io/gpu-core: "10"', "egpu.elasticgpu.io/gpu-memory: 4Gi")),
    (BOTH, "Tencent's vCUDA", pod({"tencent.com/vcuda-core": 20, "tencent.com/vcuda-memory": 8}), ('egpu.elasticgpu.io/gpu-core: "20"', "egpu.elasticgpu.io/gpu-memory: 2048Mi")),
    (BOTH, "Volcano's in an init container", pod(inits={"first": vgpu(number=1)}), ('container "first": resources.limits[volcano.sh/vgpu-number]', 'egpu.elasticgpu.io/gpu: "1"')),
    (BOTH, "tensor-fusion by TFLOPS", pod(annotations=fusion(tflops_request="10", tflops_limit="20", vram_request="1Gi", vram_limit="2Gi", gpupool="pool"), labels=ENABLED),
     ("tensor-fusion.ai/", 'elasticgpu.io/gpu-memory: "2Gi"', 'elasticgpu.io/tflops: "20"', "egpuct.elasticgpu.io/main: <template>")),
    (BOTH, "tensor-fusion by percent", pod(annotations=fusion(compute_percent_limit="50", vram_limit="4Gi", gpu_count="2", isolation="hard")),
     ('elasticgpu.io/gpu: "2"', 'elasticgpu.io/gpu-core: "50"', 'elasticgpu.io/gpu-memory: "4Gi"')),
    (BOTH, "tensor-fusion by a profile", pod(annotations=fusion(workload_profile="small"), labels=ENABLED), ("tensor-fusion.ai/", "create an ElasticGPUClaimTemplate")),
    (BOTH, "tensor-fusion by its label", pod(labels=ENABLED), ("metadata.labels[tensor-fusion.ai/enabled]", "create an ElasticGPUClaimTemplate")),
    (BOTH, "amounts by annotation, too", pod(GPU, {AMOUNT + "gpu": "1"}), ("metadata.annotations[egpu.elasticgpu.io/gpu]", "remove the annotation")),
]

# Unchanged pods: (flavour, name, pod).
UNTOUCHED = [
    (BOTH, "no requests", pod()),
    (BOTH, "CPU and memory, by Volcano", pod({"cpu": 1, "memory": "1Gi"}, schedulerName="volcano")),
    (BOTH, "an AMD card", pod({"amd.com/gpu": 1})),
    (BOTH, "an Intel card", pod({"gpu.intel.com/i915": 1})),
    (BOTH, "a Gaudi", pod({"habana.ai/gaudi": 8})),
    (BOTH, "an Ascend, by HAMi", pod({"huawei.com/Ascend910B": 1, "huawei.com/Ascend910B-memory": 2000}, schedulerName="hami-scheduler")),
    (BOTH, "a Cambricon, by HAMi", pod({"cambricon.com/vmlu": 1}, {"cambricon.com/use-type": "370"})),
    (BOTH, "a Hygon, by HAMi", pod({"hygon.com/dcunum": 1, "hygon.com/dcumem": 2000})),
    (BOTH, "a TPU", pod({"google.com/tpu": 4})),
    (BOTH, "a NIC", pod({"nvidia.com/hostdev": 1})),
    (BOTH, "an RDMA device", pod({"nvidia.com/rdma_host_dev": 1})),
    (BOTH, "NVIDIA's DRA driver", pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "single"}])),
    (BOTH, "HAMi's policy without a GPU", pod({"cpu": 1}, {"hami.io/node-scheduler-policy": "spread"})),
    (BOTH, "tensor-fusion switched off", pod(annotations=fusion(vram_limit="2Gi"), labels={"tensor-fusion.ai/enabled": "false"})),
    (BOTH, "tensor-fusion on another vendor's card", pod(annotations=fusion(vram_limit="2Gi", gpu_vendor="Ascend"))),
]


def flavours(flavour):
    return FLAVOURS if flavour is BOTH else (flavour,)


def space(flavour):
    return f"from-{flavour}"


def containers(stored):
    return [*stored["spec"].get("initContainers", []), *stored["spec"]["containers"]]


def converted(client, report):
    for flavour, what, body, amounts, more in CONVERTED:
        body = json.loads(json.dumps(body))
        try:
            stored = client.create(f"{pods(space(flavour))}?dryRun=All", body)
        except Refused as refused:
            report.check(f"{flavour}: {what}", False, refused)
            continue
        claims = {claim["name"]: claim.get("resourceClaimTemplateName") for claim in stored["spec"].get("resourceClaims", [])}
        report.check(f"{flavour}: {what}: its claims", claims == {name: f"egpu-amounts.{of}" for name, of in amounts.items()}, claims)
        left = {key for one in containers(stored) for key in one.get("resources", {}).get("limits", {})}
        report.check(f"{flavour}: {what}: the rest", left == more.get("left", set()), left)
        for key in set(more) - {"left"}:
            report.check(f"{flavour}: {what}: {key}", stored["spec"][key] == more[key], stored["spec"][key])
        asking = [one["name"] for one in containers(stored) if one.get("resources", {}).get("claims")]
        asked = [one["name"] for one in containers(body) if any(key in ("nvidia.com/gpu", "nvidia.com/gpumem") or "/mig-" in key for key in one.get("resources", {}).get("limits", {}))]
        report.check(f"{flavour}: {what}: containers with a claim", asking == asked, (asking, asked))
        report.check(f"{flavour}: {what}: its gate", {"name": GATE} in stored["spec"].get("schedulingGates", []))


def refused(client, report):
    for flavour, what, body, words in REFUSED:
        for each in flavours(flavour):
            report.refused(f"{each}: {what}", lambda each=each, body=body: client.create(f"{pods(space(each))}?dryRun=All", body), 422, *words)
    crowd = pod(others={f"c{each}": {} for each in range(64)}, annotations={"gpu-fraction": "0.5"})
    report.refused("half a card for a pod with 65 containers", lambda: client.create(f"{pods(space('hami'))}?dryRun=All", crowd), 422, "spec.containers:", "at most 64 containers")


def untouched(client, report):
    for flavour, what, body in UNTOUCHED:
        for each in flavours(flavour):
            try:
                there = client.create(f"{pods(space(each))}?dryRun=All", body)["spec"]
                elsewhere = client.create(f"{pods()}?dryRun=All", body)["spec"]
            except Refused as refusal:
                report.check(f"{each}: {what}", False, refusal)
                continue
            report.check(f"{each}: {what}: unchanged", there == elsewhere, there)


def full(client, report):
    """A pod with the maximum number of containers and limits is converted within the time of a request."""
    many = {f"example.com/r{each}": 1 for each in range(97)}
    body = pod({**many, **GPU}, others={f"c{each}": many for each in range(63)})
    for flavour in FLAVOURS:
        try:
            stored = client.create(f"{pods(space(flavour))}?dryRun=All", body)
            report.check(f"{flavour}: 64 containers with 98 limits each", "resourceClaims" in stored["spec"])
        except Refused as refusal:
            report.check(f"{flavour}: 64 containers with 98 limits each", False, str(refusal)[:300])


def applied_again(cluster, client, report):
    """kubectl apply sends the fields that the live pod lacks; a server-side apply sends all fields."""
    shapes = {
        "hami": pod(nvidia(gpu=1, gpumem=2000), requests=nvidia(gpu=1, gpumem=2000), schedulerName="hami-scheduler", inits={"first": nvidia(gpu=1, gpumem=2000), "second": nvidia(gpu=1)}),
        "nvidia": pod({**nvidia(gpu=2), "cpu": 1}, others={"side": {"cpu": 1}, "more": MIG}),
    }
    for flavour, body in shapes.items():
        for mode in ((), ("--server-side",)):
            body["metadata"]["name"] = "again" + "-".join(mode)
            path = f"{pods(space(flavour))}/{body['metadata']['name']}"

            def apply(changed, flavour=flavour, mode=mode):
                return subprocess.run(["kubectl", "--kubeconfig", str(cluster.kubeconfig), f"--cache-dir={cluster.folder}/kubectl-cache", "-n", space(flavour),
                                       "apply", *mode, "-f", "-"], input=json.dumps(changed), capture_output=True, text=True, check=False)

            first = apply(body)
            report.check(f"{flavour} {mode}: applied", first.returncode == 0, first.stderr)
            before = client.get(path)
            again = apply(body)
            report.check(f"{flavour} {mode}: applied again", again.returncode == 0, again.stderr)
            report.check(f"{flavour} {mode}: nothing changed", client.get(path)["spec"] == before["spec"])
            labelled = json.loads(json.dumps(body))
            labelled["metadata"]["labels"] = {"a": "b"}
            report.check(f"{flavour} {mode}: with a label", apply(labelled).returncode == 0 and client.get(path)["metadata"]["labels"] == {"a": "b"})
            more = json.loads(json.dumps(labelled))
            more["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "4"
            more["spec"]["containers"][0]["resources"].pop("requests", None)
            report.check(f"{flavour} {mode}: other amounts are refused", apply(more).returncode != 0 and client.get(path)["spec"] == before["spec"])
            client.delete(f"{path}?gracePeriodSeconds=0")


def native(client, report):
    """A pod created before the label keeps its resources when other fields change."""
    path = pods("late")
    client.create("/api/v1/namespaces", {"metadata": {"name": "late"}})
    client.create(path, pod(GPU))
    client.patch("/api/v1/namespaces/late", {"metadata": {"labels": {"elasticgpu.io/migrate": "nvidia"}}})
    until("the label is in force", lambda: "resourceClaims" in client.create(f"{path}?dryRun=All", {**pod(GPU), "metadata": {"name": "q"}})["spec"])
    written = client.patch(f"{path}/p", {"metadata": {"labels": {"a": "b"}}})
    report.check("a pod from before the label is unchanged", written["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"})


def install(cluster, client):
    for flavour in FLAVOURS:
        client.create("/api/v1/namespaces", {"metadata": {"name": space(flavour), "labels": {
            "elasticgpu.io/migrate": flavour, "elasticgpu.io/migrate-scheduler": "own-scheduler"}}})
        installation.kubectl(cluster, "apply", "-k", installation.MANIFESTS / "migrate" / flavour)

    def answer(flavour, body):
        """Returns the stored spec, or why the pod is refused."""
        try:
            return client.create(f"{pods(space(flavour))}?dryRun=All", body)["spec"]
        except Refused as refusal:
            return str(refusal)

    def in_force(flavour):
        """Each policy takes effect separately."""
        return ("tensor-fusion" in answer(flavour, pod(labels=ENABLED)) and "nvidia.com/gpu.shared]" in answer(flavour, pod(nvidia(**{"gpu.shared": 1})))
                and "resourceClaims" in answer(flavour, pod(GPU)))

    for flavour in FLAVOURS:
        until("the policies are in force", lambda flavour=flavour: in_force(flavour))


def main():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-migrate-") as folder, Cluster(folder, wanted=API_SERVER) as cluster:
        client: Client = installation.client_of(cluster)
        install(cluster, client)
        converted(client, report)
        refused(client, report)
        untouched(client, report)
        full(client, report)
        applied_again(cluster, client, report)
        native(client, report)
    print(f"{len(CONVERTED)} converted, {len(REFUSED)} refused, {len(UNTOUCHED)} untouched")
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded(main))
