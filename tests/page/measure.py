"""Measures the page in a headless Chromium on simulated nodes.  measure.py BIN_DIR CACHE_DIR [NODES [CLAIMS]]

Prints, for 1,250 nodes of 8 cards unless NODES is given: time from the navigation to the first content and to all cards, of five loads; time from an event to the
painted update, and from a claim's creation to its line on the page, of 40 claims."""
import json
import os
import re
import statistics
import sys
import time

import tools

sys.path.insert(0, os.path.join(tools.HERE, "..", "e2e"))
from standalone import Standalone  # noqa: E402

bin_dir, cache = sys.argv[1:3]
nodes = int(sys.argv[3]) if len(sys.argv) > 3 else 1250
claims = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
tools.client(os.path.realpath(cache))
import browser as devtools  # noqa: E402

from page_test import SHARE, Api  # noqa: E402

NODES = (f"nodes:\n- {{name: n, count: {nodes}, cpu: 128, memory: 1Ti, gpus: [{{model: A100-SXM4-80GB, count: 8, memory: 80Gi, "
         "numa: [0, 0, 0, 0, 1, 1, 1, 1], nvswitch: 12}]}\n")


def row(title, values, unit="ms"):
    print(f"{title:52} median {statistics.median(values):8.0f} {unit}, maximum {max(values):8.0f} {unit}, of {len(values)}", flush=True)


server = Standalone(bin_dir, NODES)
chromium = devtools.Browser()
try:
    api = Api(server.kubeconfig)
    api.create("/elasticgpuclasses", {"kind": "ElasticGPUClass", "metadata": {"name": "share"}, "provisioner": SHARE})
    for i in range(claims):
        api.claim(f"c{i:05}", {"gpu-core": 30, "gpu-memory": "4Gi"})
    while not api.bound(f"c{claims - 1:05}"):
        time.sleep(0.5)
    tab = chromium.tab()
    tab.shape()
    content, painted = [], []
    for _ in range(5):
        tab.open("about:blank")
        tab.open(server.ops + "/")
        if not tab.until("performance.getEntriesByName('painted').length > 0", 60):
            raise SystemExit("the page was not painted")
        entry = tab.evaluate("(() => { const p = performance.getEntriesByName('painted')[0]; return [p.startTime, p.detail.cards, performance.getEntriesByName("
                             "'first-contentful-paint')[0].startTime] })()")
        painted.append(entry[0])
        content.append(entry[2])
    print(f"cards: {entry[1]}, claims: {claims}")
    row("navigation to first content", content)
    row("navigation to all cards and claims", painted)
    api.create("/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "measured"}}, "/api/v1")
    for view in ("#/nodes", "#/claims?namespace=measured", "#/use", "#/timeline", "#/node/n-7"):
        tab.evaluate(f"location.hash = {json.dumps(view)}")
        time.sleep(1)
        tab.evaluate("performance.clearMeasures('update')")
        seen = []
        listed = view.startswith("#/claims")  # a table of all claims has the first hundreds only
        for i in range(40 if listed else 8):
            name = f"new-{re.sub('[^a-z0-9]+', '-', view[2:])}-{i}"
            began = time.monotonic()
            api.claim(name, {"gpu-core": 1}, namespace="measured")
            if listed:
                tab.evaluate("new Promise((done) => requestAnimationFrame(done))")
                while not tab.evaluate(f"document.querySelector('tbody')?.innerText.includes('{name}')"):
                    if time.monotonic() > began + 30:
                        raise SystemExit(f"{name} is not on the page")
                    time.sleep(0.01)
                seen.append(1000 * (time.monotonic() - began))
            else:
                time.sleep(0.5)
        took = tab.evaluate("performance.getEntriesByName('update').map((each) => each.duration)")
        row(f"{view}: event to painted update", took)
        if seen:
            row(f"{view}: creation of a claim to its line", seen)
    if len(sys.argv) > 5:
        tab.shape(1280, 900, False)
        tab.evaluate("location.hash = '#/nodes'")
        time.sleep(0.5)
        tab.screenshot(sys.argv[5])
finally:
    chromium.close()
    server.stop()
    server.clean()
