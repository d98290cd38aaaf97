"""Objects of the scenarios, and predicates over their status."""

import dataclasses

API_VERSION = "elasticgpu.io/v1alpha"  # a real API server requires it
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES = "/api/v1/namespaces"
NODES = 500  # default number of nodes of a scenario
CARDS = 8  # per node


@dataclasses.dataclass(frozen=True)
class NodeGroup:
    """A group of equal simulated nodes."""

    count: int
    cards: int = CARDS
    name: str = "n"
    model: str = "H100-80GB"

    def yaml(self):
        """Returns the entry of the controller's --nodes file."""
        return (f"- name: {self.name}\n  count: {self.count}\n  cpu: 192\n  memory: 2Ti\n"
                f"  gpus:\n  - {{model: {self.model}, count: {self.cards}, memory: 80Gi, sms: 132, tflops: 989, numa: 0}}\n")


def gpu_class(name, mode="Immediate", provisioner="physical", **parameters):
    """A class of whole cards, or of shares with the provisioner gpushare."""
    return {"apiVersion": API_VERSION, "kind": "ElasticGPUClass", "metadata": {"name": name},
            "provisioner": f"{provisioner}.provisioner.elasticgpu.io", "egpuBindingMode": mode, "parameters": parameters}


def claim(name, class_name, annotations=None, priority=None, **amounts):
    spec = {"egpuClassName": class_name, "resources": {"requests": {f"elasticgpu.io/{key.replace('_', '-')}": value for key, value in amounts.items()}}}
    if priority:
        spec["priorityClassName"] = priority
    return {"apiVersion": API_VERSION, "kind": "ElasticGPUClaim", "metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def pod(name, class_name, annotations=None):
    """A pod that requests one whole card by annotations. The controller creates a claim for it."""
    wanted = {"egpu.elasticgpu.io/class": class_name, "egpu.elasticgpu.io/gpu": "1"}
    return {"metadata": {"name": name, "annotations": dict(wanted, **(annotations or {}))},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none"}]}}


def gang(name, size):
    """Annotations of the members of a gang."""
    return {"elasticgpu.io/gang": name, "elasticgpu.io/gang-size": str(size)}


def priority_class(name, value):
    return {"metadata": {"name": name}, "value": value}


def bound_condition(obj):
    """The condition Bound of a claim, or {}."""
    return next((each for each in obj.get("status", {}).get("conditions", []) if each["type"] == "Bound"), {})


def is_running(found):
    return found.get("status", {}).get("phase") == "Running"


def is_bound(found):
    return found.get("status", {}).get("phase") == "Bound"


def is_nominated(found):
    return "nominated" in found.get("status", {})


def named(prefix, holds):
    """Returns a predicate: the name begins with the prefix, and holds() is true."""
    return lambda found: found["metadata"]["name"].startswith(prefix) and holds(found)
