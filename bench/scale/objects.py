"""Objects of the scenarios, and what their status says."""

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES = "/api/v1/namespaces"
NODES = 500  # of a scenario, unless it says otherwise
CARDS = 8  # of a node


def nodes_yaml(count, cards=CARDS, name="n"):
    """A group of `count` equal nodes."""
    return (f"- name: {name}\n  count: {count}\n  cpu: 192\n  memory: 2Ti\n"
            f"  gpus:\n  - {{model: H100-80GB, count: {cards}, memory: 80Gi, sms: 132, tflops: 989, numa: 0}}\n")


def gpu_class(name, mode="Immediate", provisioner="physical", **parameters):
    """A class of whole cards, or, of the provisioner gpushare, of shares."""
    return {"metadata": {"name": name}, "provisioner": f"{provisioner}.provisioner.elasticgpu.io", "egpuBindingMode": mode, "parameters": parameters}


def claim(name, class_name, annotations=None, priority=None, **amounts):
    spec = {"egpuClassName": class_name, "resources": {"requests": {f"elasticgpu.io/{key.replace('_', '-')}": value for key, value in amounts.items()}}}
    if priority:
        spec["priorityClassName"] = priority
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def pod(name, class_name, annotations=None):
    """A pod that asks for one whole card by annotations, so that a claim is made for it."""
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
    """The condition of objects whose names begin so."""
    return lambda found: found["metadata"]["name"].startswith(prefix) and holds(found)
