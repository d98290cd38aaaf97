"""Proves the handling of cards that disappear under a pod: two of eight fall off the bus and return under other indexes; one is deleted by hand just after
its allocation.  cards_lost_test.py BIN_DIR"""
import os
import shutil
import sys
import tempfile

from standalone import Kubectl, Report, Standalone, until

UUIDS = [f"GPU-a{index}" for index in range(8)]
CLASS = """
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {name: share}
provisioner: gpushare.provisioner.elasticgpu.io
---
"""


def nodes(uuids):
    return (f"nodes:\n- {{name: n, cpu: 128, memory: 512Gi, gpus: [{{model: H100, count: {len(uuids)}, memory: 80Gi, sms: 132, tflops: 989, "
            f"uuids: [{', '.join(uuids)}]}}]}}\n")


def claim_and_pod(name, spec):
    return (f"apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata: {{name: {name}}}\nspec: {{egpuClassName: share, {spec}}}\n---\n"
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{egpuc.elasticgpu.io/gpu: {name}}}}}\n"
            "spec: {containers: [{name: main, image: cuda}]}\n---\n")


def cards(count):
    return f"resources: {{requests: {{elasticgpu.io/gpu: {count}}}}}"


class Ground:
    def __init__(self, bin_dir, folder, report):
        self.report = report
        self.standalone = Standalone(bin_dir, nodes(UUIDS), data=os.path.join(folder, "data"))
        self.kubectl = Kubectl(shutil.which("kubectl"), self.standalone.kubeconfig, folder)

    def apply(self, text):
        self.kubectl.ok("apply", "-f", "-", stdin=text)

    def field(self, kind, name, path):
        return self.kubectl.run("get", kind, name, "-o", f"jsonpath={path}").stdout.decode()

    def state(self, name):
        """Returns phase and reason of a claim and the phase of its pod."""
        return [self.field("egpuc", name, "{.status.phase}"), self.field("egpuc", name, "{.status.reason}"), self.field("pod", name, "{.status.phase}")]

    def comes(self, what, read, wanted):
        report = self.report
        report.check(what, until(lambda: read() == wanted, 60), f"{read()} instead of {wanted}")

    def nodes_become(self, uuids):
        self.standalone.stop()
        with open(self.standalone.nodes, "w", encoding="utf-8") as f:
            f.write(nodes(uuids))
        self.standalone.start()
        self.kubectl.env["KUBECONFIG"] = self.standalone.kubeconfig


def two_of_eight(ground):
    ground.apply(CLASS + claim_and_pod("eight", cards(8)))
    ground.comes("a pod has eight cards", lambda: ground.state("eight"), ["Bound", "", "Running"])
    ground.nodes_become([each for each in UUIDS if each not in ("GPU-a1", "GPU-a5")])
    ground.comes("its claim names both lost cards", lambda: ground.field("egpuc", "eight", "{.status.phase}: {.status.message}"),
                 "Lost: cards gpu-a1, gpu-a5 are being removed")
    for name in ("gpu-a1", "gpu-a5"):
        ground.comes(f"{name} reports its removal and its usage", lambda name=name: ground.field("egpu", name, "{.status.phase} {.status.allocated.coreText}"),
                     "Terminating 100%")
    ground.apply(claim_and_pod("six", cards(6)))
    ground.comes("the six that are left are still used", lambda: ground.state("six")[:2], ["Pending", "NoFit"])
    ground.kubectl.ok("delete", "pod", "eight")
    ground.comes("when they are not in use, the next claim gets them", lambda: ground.state("six"), ["Bound", "", "Running"])
    ground.comes("eight waits and says why", lambda: ground.state("eight")[:2], ["Pending", "NoFit"])
    ground.nodes_become(["GPU-a5", "GPU-a1", "GPU-a7", "GPU-a6", "GPU-a4", "GPU-a3", "GPU-a2", "GPU-a0"])
    ground.apply(claim_and_pod("two", cards(2)))
    ground.comes("the two are offered again", lambda: ground.state("two"), ["Bound", "", "Running"])
    ground.kubectl.ok("delete", "pod,egpuc", "two")


def deleted_by_hand(ground):
    free = until(lambda: [each["metadata"]["name"] for each in ground.kubectl.json("get", "egpu", "-l", "elasticgpu.io/role=card")["items"]
                          if not each["spec"].get("allocations")])[0]
    ground.apply(claim_and_pod("quick", f"elasticGPUName: {free}"))
    ground.comes("a pod has the card", lambda: ground.state("quick"), ["Bound", "", "Running"])
    ground.kubectl.ok("delete", "egpu", free, "--wait=false")
    ground.comes("the card reports its removal and its usage", lambda: ground.field(
        "egpu", free, "{.status.phase} {.status.reason} {.status.allocated.coreText} {.status.message}"),
                 "Terminating Deleting 100% is being deleted; waits for claim default/quick to leave it")
    ground.kubectl.ok("delete", "pod,egpuc", "quick")
    ground.comes("it is removed with its last claim", lambda: ground.field("egpu", free, "{.metadata.name}"), "")


def main(bin_dir):
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-e2e-") as folder:
        ground = Ground(bin_dir, folder, report)
        try:
            two_of_eight(ground)
            deleted_by_hand(ground)
        finally:
            if report.failed:
                ground.standalone.dump_log()
            ground.standalone.clean()
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
