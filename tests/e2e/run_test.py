"""Runs a script with each kubectl version that is found: the samples, 1,000 claims over 100 nodes × 8 cards, deletes, exhaustion and recovery, a kill -9,
bad manifests.  run_test.py BIN_DIR CACHE_DIR"""
import glob
import os
import sys
import tempfile

from standalone import ROOT, Kubectl, Report, Standalone, kubectls, until

GPUSHARE = "gpushare.provisioner.elasticgpu.io"
NODES_100 = """
nodes:
- name: n
  count: 100
  cpu: 64
  memory: 256Gi
  gpus:
  - {model: A100-SXM4-80GB, count: 8, memory: 80Gi, sms: 108, tflops: 312}
"""
CLASS = f"""
apiVersion: elasticgpu.io/v1alpha
kind: ElasticGPUClass
metadata: {{name: share}}
provisioner: {GPUSHARE}
---
"""


CLAIMS = "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims"


def claim(name, requests, cls="share", extra="", labels="{}"):
    lines = "".join(f"      {GPUSHARE}/{k}: {v}\n" for k, v in requests.items())
    return (f"apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata: {{name: {name}, labels: {labels}}}\nspec:\n  egpuClassName: {cls}\n"
            f"{extra}  resources:\n    requests:\n{lines}---\n")


def phases(k, *selector):
    out = k.ok("get", "elasticgpuclaims", "-o", "jsonpath={range .items[*]}{.status.phase} {end}", *selector).split()
    return {p: out.count(p) for p in set(out)}


def conditions(k, name):
    status = k.json("get", "elasticgpuclaim", name).get("status", {})
    return {c["type"]: c for c in status.get("conditions", [])}


def totals(s):
    """Returns the allocated core summed over the map, and whether any card is over-committed."""
    used = over = cards = 0
    for node in s.map()["nodes"]:
        for card in node["cards"]:
            cards += 1
            core = sum(a["core"] for a in card["claims"])
            memory = sum(a["memory"] for a in card["claims"])
            used += core
            over += core > card["core"] or memory > card["memory"]
    return used, over, cards


def samples(k, s, r):
    k.ok("apply", "-f", os.path.join(ROOT, "manifests/samples/seed.yaml"))
    k.ok("wait", "--for=condition=Bound", "--timeout=60s", "elasticgpuclaims", "--all")
    k.ok("apply", "-f", os.path.join(ROOT, "manifests/samples/seed-pods.yaml"))
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "pods", "--all")
    for i in ("1", "2"):
        pod = k.json("get", "pod", f"test-cuda-{i}")
        c = k.json("get", "elasticgpuclaim", f"gpushare-egpuc-{i}")
        device = k.json("get", "elasticgpu", c["status"]["elasticGPUName"])
        r.check(f"sample {i}: claim bound to a slice of 10 % and 4 GiB",
                device["spec"]["cards"][0]["core"] == 100 and device["spec"]["cards"][0]["memory"] == 4 << 30, device["spec"])
        r.check(f"sample {i}: the pod runs on its card's node", pod["spec"]["nodeName"] == device["spec"]["nodeName"], pod["spec"])
        got = pod["metadata"].get("annotations", {}).get("prepared.elasticgpu.io/test-cuda", "")
        r.check(f"sample {i}: the device is in its container", "/dev/nvidia" in got, got)
        shown = k.ok("describe", "pod", f"test-cuda-{i}")
        r.check(f"sample {i}: describe shows it", "prepared.elasticgpu.io/test-cuda" in shown and "/dev/nvidia" in shown, shown)
    again = k.ok("apply", "-f", os.path.join(ROOT, "manifests/samples/seed.yaml"))
    r.check("applying the samples again changes nothing", again.count("unchanged") == 3, again)
    k.ok("delete", "-f", os.path.join(ROOT, "manifests/samples/seed-pods.yaml"))
    k.ok("delete", "elasticgpuclaims", "--all", "--timeout=60s")
    # Retain: the devices stay Released with their entries, until they are deleted.
    released = until(lambda: k.ok("get", "elasticgpus", "-l", "elasticgpu.io/role=device", "-o",
                                  "jsonpath={.items[*].status.phase}") == "Released Released")
    r.check("Retain keeps the devices, Released", released)
    r.check("…and their entries", totals(s)[0] == 200, totals(s))
    k.ok("delete", "elasticgpus", "-l", "elasticgpu.io/role=device", "--timeout=60s")
    r.check("deleting them frees the cards", until(lambda: totals(s)[0] == 0), totals(s))


def named_twice(k, _, r):
    k.ok("apply", "-f", "-", stdin=CLASS.replace("name: share", "name: hami").replace("---", "parameters: {isolation: hami-core}\n---")
         + claim("twice", {"gpu-core": 10, "gpu-memory": "4Gi"}, cls="hami")
         + "apiVersion: v1\nkind: Pod\nmetadata: {name: twice, annotations: {egpuc.elasticgpu.io/first: twice, egpuc.elasticgpu.io/again: twice}}\n"
           "spec: {containers: [{name: main, image: x}]}\n")
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "pod", "twice")
    got = k.json("get", "pod", "twice")["metadata"]["annotations"].get("prepared.elasticgpu.io/main", "")
    for line in ("CUDA_DEVICE_MEMORY_LIMIT_0=4096m", "CUDA_DEVICE_SM_LIMIT=10", "ELASTICGPU_CORE_0=100"):
        r.check(f"a claim that a pod names twice counts once: {line}", f"  env {line}" in got.split("\n"), got)
    r.check("…and under both names", "first" in got.split(":")[0] and "again" in got.split(":")[0], got)
    k.ok("delete", "pod", "twice")
    k.ok("delete", "elasticgpuclaim", "twice", "--timeout=60s")


def together(k, _, r):
    """Two claims in one container, which gets the merged edits of both."""
    k.ok("apply", "-f", "-", stdin=CLASS.replace("name: share", "name: hami").replace("---", "parameters: {isolation: hami-core}\n---")
         + claim("one", {"gpu-core": 10, "gpu-memory": "4Gi"}, cls="hami") + claim("two", {"gpu-core": 20, "gpu-memory": "2Gi"}, cls="hami")
         + "apiVersion: v1\nkind: Pod\nmetadata: {name: both, annotations: {egpuc.elasticgpu.io/a: one, egpuc.elasticgpu.io/b: two}}\n"
           "spec: {containers: [{name: main, image: x}]}\n")
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "pod", "both")
    got = k.json("get", "pod", "both")["metadata"]["annotations"].get("prepared.elasticgpu.io/main", "")
    env = dict(line[len("  env "):].split("=", 1) for line in got.split("\n") if line.startswith("  env "))
    devices = [k.json("get", "elasticgpuclaim", name)["status"]["elasticGPUName"] for name in ("one", "two")]
    r.check("a container with two claims has the variables of both devices", env.get("ELASTICGPU_DEVICE") == ",".join(devices), got)
    cards = env.get("ELASTICGPU_CARDS", "").split(",")
    r.check("…and of each card's share, once", sum(int(env.get(f"ELASTICGPU_CORE_{i}", 0)) for i in range(len(cards))) == 300
            and sum(int(env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{i}", "0m")[:-1]) for i in range(len(cards))) == 6144, got)
    k.ok("delete", "pod", "both")
    k.ok("delete", "elasticgpuclaims", "one", "two", "--timeout=60s")


def per_pod(k, _, r):
    """A template, and a claim for each pod that names it."""
    k.ok("apply", "-f", "-", stdin=CLASS + "apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaimTemplate\nmetadata: {name: tenth}\n"
         f"spec: {{spec: {{egpuClassName: share, resources: {{requests: {{{GPUSHARE}/gpu-core: 10}}}}}}}}\n---\n" + "".join(
             f"apiVersion: v1\nkind: Pod\nmetadata: {{name: replica-{i}, annotations: {{egpuct.elasticgpu.io/gpu: tenth}}}}\n"
             "spec: {containers: [{name: main, image: x}]}\n---\n" for i in (1, 2)))
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "egpuct", "tenth")
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "pod", "replica-1", "replica-2")
    claims = k.ok("get", "elasticgpuclaims", "-o", "jsonpath={.items[*].metadata.name}").split()
    r.check("each pod has a claim of its own", len(claims) == 2 and {c.rsplit("-", 1)[0] for c in claims} == {"replica-1-gpu", "replica-2-gpu"}, claims)
    again = next(c for c in claims if c.startswith("replica-1"))
    k.ok("delete", "pod", "replica-1")
    r.check("its claim is deleted with it", until(lambda: again not in k.ok("get", "elasticgpuclaims,resourceclaims", "-o", "name")),
            k.ok("get", "elasticgpuclaims,resourceclaims"))
    k.ok("delete", "pod", "replica-2")
    k.ok("delete", "egpuct", "tenth")
    r.check("nothing is left of the template", until(lambda: k.ok("get", "elasticgpuclaims,resourceclaims,resourceclaimtemplates", "-o", "name") == ""),
            k.ok("get", "elasticgpuclaims,resourceclaims,resourceclaimtemplates"))


def tainted(k, _, r):
    k.ok("apply", "-f", "-", stdin=CLASS)
    k.ok("create", "-f", "-", stdin="apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: repair}\nspec: {deviceSelector: {driver: elasticgpu.io}, "
         "taint: {key: example.com/repair, effect: NoSchedule}}\n")
    shown = until(lambda: "Tainted" in k.ok("get", "egpu"))
    r.check("cards that a DeviceTaintRule selects say so", shown, k.ok("get", "egpu")[:500])
    k.ok("create", "-f", "-", stdin=claim("kept-off", {"gpu-core": 10}))
    rule = "DeviceTaintRule repair: example.com/repair:NoSchedule"
    r.check("a pending claim reports the rule", until(lambda: rule in str(conditions(k, "kept-off"))), conditions(k, "kept-off"))
    k.ok("delete", "devicetaintrule", "repair")
    r.check("and is bound when the rule is gone",
            until(lambda: k.json("get", "elasticgpuclaim", "kept-off")["status"].get("phase") == "Bound"), conditions(k, "kept-off"))
    k.ok("delete", "elasticgpuclaim", "kept-off", "--timeout=60s")


def cdi_files(s):
    return sorted(os.path.basename(f) for f in glob.glob(os.path.join(s.data, "cdi", "*", "*")))


def prepared(k, s, r):
    r.check("what was given back leaves no CDI file", until(lambda: not cdi_files(s)), cdi_files(s))
    k.ok("apply", "-f", "-", stdin=CLASS + "".join(
        claim(f"given{i}", {"gpu-core": 10, "gpu-memory": "4Gi"})
        + f"apiVersion: v1\nkind: Pod\nmetadata: {{name: given{i}, annotations: {{egpuc.elasticgpu.io/x: given{i}}}}}\n"
          "spec: {containers: [{name: main, image: x}]}\n---\n" for i in (1, 2)))
    k.ok("wait", "--for=condition=Ready", "--timeout=60s", "pod", "given1", "given2")
    two = cdi_files(s)
    r.check("two pods, two CDI files", len(two) == 2 and all(f.endswith(".json") for f in two), two)
    s.kill()
    for part in ("x~", ""):  # leftovers of a crash during a write
        with open(os.path.join(glob.glob(os.path.join(s.data, "cdi", "*"))[0], f"elasticgpu.io-device_dead.json.part{part}"), "w", encoding="utf-8") as f:
            f.write("{")
    s.start()
    k.env["KUBECONFIG"] = s.kubeconfig
    k.ok("delete", "pod", "given1")
    r.check("after a kill -9 what no pod uses goes, half a file too, and what runs stays",
            until(lambda: len(cdi_files(s)) == 1 and cdi_files(s)[0] in two), (two, cdi_files(s)))
    k.ok("delete", "pod", "given2")
    r.check("…until its pod goes", until(lambda: not cdi_files(s)), cdi_files(s))
    k.ok("delete", "elasticgpuclaims", "given1", "given2", "--timeout=60s")


def thousand(k, s, r):
    k.ok("apply", "-f", "-", stdin=CLASS)
    k.ok("create", "-f", "-", stdin="".join(claim(f"c{i}", {"gpu-core": 10 + i % 40, "gpu-memory": 4 + i % 8}, labels=f"{{half: h{i // 500}}}") for i in range(1000)))
    r.check("1,000 claims over 800 cards are Bound", until(lambda: phases(k) == {"Bound": 1000}, 180), phases(k))
    used, over, cards = totals(s)
    want = sum(10 * (10 + i % 40) for i in range(1000))
    r.check("the map accounts for every one of them", (used, over, cards) == (want, 0, 800), (used, over, cards, want))
    names = k.ok("get", "elasticgpuclaims", "-o", "jsonpath={.items[*].status.elasticGPUName}").split()
    r.check("no two claims share a device", len(set(names)) == 1000, len(set(names)))
    # kill -9 during deletes: acknowledged deletes are kept, and the others continue.
    k.ok("delete", "--raw", CLAIMS + "?labelSelector=half%3Dh0")
    s.kill()
    s.start()
    k.env["KUBECONFIG"] = s.kubeconfig
    gone = until(lambda: phases(k) == {"Bound": 500})
    r.check("half of them deleted through a kill -9, the other half still Bound", gone, phases(k))
    want = sum(10 * (10 + i % 40) for i in range(500, 1000))
    r.check("their shares are free again", until(lambda: totals(s)[:2] == (want, 0), 120), (totals(s), want))
    k.ok("delete", "elasticgpuclaims", *[f"c{i}" for i in range(500, 520)], "--timeout=60s")
    k.ok("delete", "--raw", CLAIMS)
    r.check("an empty cluster at the end", until(lambda: totals(s)[:2] == (0, 0)), totals(s))


def exhaustion(k, s, r):
    k.ok("create", "-f", "-", stdin="".join(claim(f"whole{i}", {"gpu": 8}) for i in range(100)))
    r.check("100 claims of 8 cards take everything", until(lambda: phases(k) == {"Bound": 100}, 120), phases(k))
    k.ok("create", "-f", "-", stdin=claim("late", {"gpu-core": 50, "gpu-memory": 10}))
    until(lambda: "Bound" in conditions(k, "late"))
    c = conditions(k, "late").get("Bound", {})
    r.check("one more says NoFit and why", c.get("reason") == "NoFit" and "800" in c.get("message", ""), c)
    shown = k.ok("describe", "elasticgpuclaim", "late")
    r.check("describe shows the reason", "NoFit" in shown, shown)
    before = k.json("get", "elasticgpuclaim", "late")["metadata"]["resourceVersion"]
    k.ok("label", "elasticgpuclaim", "whole7", "touched=yes")
    k.ok("delete", "elasticgpuclaim", "whole42", "--timeout=60s")
    r.check("it binds when a claim goes", until(lambda: phases(k) == {"Bound": 100}, 60), (phases(k), before))
    card = k.json("get", "elasticgpu", k.json("get", "elasticgpuclaim", "late")["status"]["elasticGPUName"])
    r.check("on the node that became free", card["spec"]["nodeName"].startswith("n-"), card["spec"])
    k.ok("delete", "--raw", CLAIMS)
    r.check("all free again", until(lambda: totals(s)[:2] == (0, 0)), totals(s))


def bad_manifests(k, s, r):
    version = tuple(int(x) for x in k.version().split("."))
    k.ok("create", "-f", "-", stdin=claim("good", {"gpu-core": 10, "gpu-memory": 4}))
    until(lambda: phases(k) == {"Bound": 1})
    good = claim("bad", {"gpu-core": 10})
    cases = [
        ("a wrong unit", claim("bad", {"gpu-core": 10, "gpu-memory": "4Gib"}), ["gpu-memory"]),
        ("a percent sign", claim("bad", {"gpu-core": '"10%"'}), ["gpu-core"]),
        ("a negative amount", claim("bad", {"gpu-core": -10}), ["gpu-core"]),
        ("a negative quantity", claim("bad", {"gpu-core": 10, "gpu-memory": "-4Gi"}), ["gpu-memory"]),
        ("both class spellings disagreeing", claim("bad", {"gpu-core": 10}, extra="  elasticGPUClassName: other\n"),
         ["elasticGPUClassName", "egpuClassName"]),
        ("an unknown field", good.replace("  resources:", "  colour: red\n  resources:"), ["colour"]),
        ("an unknown request key", claim("bad", {"gpu-cores": 10}), ["gpu-cores"]),
        ("text where a mapping belongs", good.replace("    requests:\n", "    requests: all\n").split(f"      {GPUSHARE}")[0],
         ["requests"]),
        ("an absurd quantity", claim("bad", {"gpu-core": 10, "gpu-memory": "999999999999999999999Ei"}), ["gpu-memory"]),
        ("an absurd number", claim("bad", {"gpu-core": "1" + "0" * 400}), ["gpu-core"]),
        ("a bad name", claim("Bad_Name", {"gpu-core": 10}), ["metadata.name"]),
        ("a class without a provisioner", "apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClass\nmetadata: {name: bad}\n", ["provisioner"]),
        ("an unknown reclaimPolicy", CLASS.replace("name: share", "name: bad").replace("---", "reclaimPolicy: Recycle\n"), ["reclaimPolicy"]),
    ]
    for name, manifest, fields in cases:
        got = k.run("create", "-f", "-", stdin=manifest)
        err = got.stderr.decode("utf-8", "replace")
        r.check(f"refused, and the field is named: {name}", got.returncode != 0 and any(f in err for f in fields), err[:600] or got.stdout)
    junk = bytes((i * 7919 + i // 251) % 256 for i in range(1 << 20))
    got = k.run("create", "-f", "-", stdin=junk)
    r.check("refused: 1 MB of junk", got.returncode != 0 and got.stderr, got.stdout[:300])
    got = k.run("create", "--raw", "/apis/elasticgpu.io/v1alpha/namespaces/default/elasticgpuclaims", "-f", "-", stdin=junk)
    err = got.stderr.decode("utf-8", "replace")
    r.check("refused by the server: 1 MB of junk", got.returncode != 0 and ("BadRequest" in err or "Bad Request" in err or "invalid" in err
                                                                            or "413" in err or "415" in err), err[:600])
    long = claim("bad", {"gpu-core": 10}).replace("{name: bad,", "{name: bad, annotations: {x: " + "y" * (1 << 20) + "},")
    got = k.run("create", "-f", "-", stdin=long)
    r.check("refused: 1 MB in an annotation", got.returncode != 0 and b"annotations" in got.stderr, got.stderr[:600])
    # Missing objects cause a condition, which disappears when they are created.
    k.ok("create", "-f", "-", stdin=claim("classless", {"gpu-core": 10}, cls="not-yet"))
    until(lambda: conditions(k, "classless"))
    got = conditions(k, "classless").get("Accepted", {})
    r.check("an unknown class is a condition that names it", got.get("reason") == "ClassNotFound" and "not-yet" in got.get("message", ""), got)
    k.ok("create", "-f", "-", stdin=CLASS.replace("name: share", "name: not-yet"))
    r.check("…and the claim binds once the class is there",
            until(lambda: k.json("get", "elasticgpuclaim", "classless")["status"].get("phase") == "Bound"), conditions(k, "classless"))
    k.ok("create", "-f", "-", stdin=claim("odd", {"gpu-core": 150}))
    until(lambda: conditions(k, "odd"))
    odd = conditions(k, "odd")
    r.check("150 % is NotRepresentable, and 100 and 200 are named",
            any(c.get("reason") == "NotRepresentable" and "100" in c["message"] and "200" in c["message"] for c in odd.values()), odd)
    r.check("nothing was lost", k.json("get", "elasticgpuclaim", "good")["status"]["phase"] == "Bound")
    got = k.run("patch", "elasticgpuclaim", "good", "--type=merge", "-p", '{"spec":{"elasticGPUName":"egpu-other"}}')
    r.check("a bound claim's device can't be swapped", got.returncode != 0 and b"elasticGPUName" in got.stderr, got.stderr)
    r.check("and the controller is healthy", "ok" in s.http("/healthz") and "ok" in s.http("/readyz"))
    if version >= (1, 22):
        shown = k.ok("explain", "elasticgpuclaim.spec.resources.requests")
        r.check("explain knows the schema", "requests" in shown and "DESCRIPTION" in shown, shown)
    k.ok("delete", "elasticgpuclaims", "--all", "--timeout=60s")


def main(bin_dir, cache):
    os.makedirs(cache, exist_ok=True)
    r = Report()
    found = kubectls(cache)
    r.check("a kubectl is there", bool(found))
    for version, binary in found:
        print(f"--- kubectl {version}")
        with tempfile.TemporaryDirectory(prefix="egpu-data-") as data:
            s = Standalone(bin_dir, NODES_100, data=data)
            try:
                k = Kubectl(binary, s.kubeconfig, os.path.join(s.work, "home"))
                for part in (samples, named_twice, together, per_pod, tainted, prepared, thousand, exhaustion, bad_manifests):
                    failed = r.failed
                    try:
                        part(k, s, r)
                    except Exception as e:  # pylint: disable=broad-except  (one part's failure must not hide the others)
                        r.check(f"{part.__name__} ran to its end", False, f"{type(e).__name__}: {e}")
                    if r.failed > failed:
                        break  # later parts need a clean cluster
                status = s.stop()
                r.check("SIGTERM ends it with status 0", status == 0, status)
            finally:
                if r.failed:
                    s.dump_log()
                s.clean()
    return r.close()


sys.exit(main(sys.argv[1], sys.argv[2]))
