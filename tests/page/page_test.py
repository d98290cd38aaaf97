"""Tests the page of the operations port in a headless Chromium, on a standalone controller.  page_test.py BIN_DIR CACHE_DIR

Skipped (exit status 77) without Chromium, or if a tool cannot be downloaded. EGPU_PAGE_SCREENSHOTS=FOLDER keeps a picture of each view."""
import json
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tools

sys.path.insert(0, os.path.join(tools.HERE, "..", "e2e"))
from standalone import Report, Standalone, until  # noqa: E402

PLANTED = "<img src=x onerror=window.planted=1>"
NODES = f"""
nodes:
- {{name: train, count: 2, cpu: 128, memory: 1Ti, gpus: [{{model: A100-SXM4-80GB, count: 8, memory: 80Gi, numa: [0, 0, 0, 0, 1, 1, 1, 1], nvswitch: 12}}]}}
- {{name: infer, count: 3, cpu: 64, memory: 256Gi, gpus: [{{model: T4, count: 4, memory: 16Gi}}]}}
- {{name: mig, cpu: 64, memory: 256Gi, gpus: [{{model: A100-SXM4-80GB, count: 2, memory: 80Gi, mig: true}}]}}
- {{name: odd, cpu: 64, memory: 256Gi, gpus: [{{model: "{PLANTED}", count: 1, memory: 16Gi}}]}}
"""
REMOTE = "10.0.0.9:7000"
SHARE = "gpushare.provisioner.elasticgpu.io"
GROUP = "/apis/elasticgpu.io/v1alpha"
VIEWS = ["#/nodes", "#/node/infer-0", "#/node/mig", "#/node/train-0", "#/node/train-0/card/3", "#/claims", "#/claim/default/large", "#/claim/default/small-0", "#/claim/default/two-instances", "#/claim/default/leased", "#/quotas", "#/gangs",
         "#/reservations", "#/use", "#/what-if", "#/what-if?drain=train-0&add=new-1%2Clike%3Dtrain-0%2Ccount%3D3&claim=default%2Flarge", "#/forecast",
         "#/timeline", "#/search/train"]
SAMPLE = ["#/nodes", "#/node/mig", "#/node/train-0", "#/claims", "#/claim/default/large", "#/what-if"]  # that axe checks dark, and on a phone


class Api:
    """The embedded API server."""

    def __init__(self, kubeconfig):
        with open(kubeconfig, encoding="utf-8") as file:
            self.url = re.search(r"server: (\S+)", file.read()).group(1)

    def _send(self, path, body=None, method="GET", kind="application/json"):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(), {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def create(self, path, body, group=GROUP):
        return self._send(group + path, {"apiVersion": "elasticgpu.io/v1alpha", **body}, "POST")

    def claim(self, name, requests, annotations=None, namespace="default", **spec):
        self.create(f"/namespaces/{namespace}/elasticgpuclaims", {
            "kind": "ElasticGPUClaim", "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"egpuClassName": "share", "resources": {"requests": {f"elasticgpu.io/{key}": value for key, value in requests.items()}}, **spec}})

    def bound(self, name, namespace="default"):
        """Returns the claim if it is Bound."""
        claim = self._send(f"{GROUP}/namespaces/{namespace}/elasticgpuclaims/{name}")
        return claim if claim.get("status", {}).get("phase") == "Bound" else None

    def card(self, node, index):
        cards = [each for each in self._send(f"{GROUP}/elasticgpus")["items"] if each["spec"].get("card", {}).get("nodeName") == node]
        return next(each for each in cards if each["spec"]["card"]["index"] == index)

    def device(self, name):
        return self._send(f"{GROUP}/elasticgpus/{name}")

    def report(self, card, **status):
        """Changes the status of a card, as its agent does."""
        self._send(f"{GROUP}/elasticgpus/{card['metadata']['name']}/status", {"status": status}, "PATCH", "application/merge-patch+json")


def fill(api):
    api.create("/elasticgpuclasses", {"kind": "ElasticGPUClass", "metadata": {"name": "share"}, "provisioner": SHARE})
    api.create("/elasticgpuclasses", {"kind": "ElasticGPUClass", "metadata": {"name": "mig"}, "provisioner": "mig.provisioner.elasticgpu.io"})
    api.create("/namespaces/default/elasticgpuquotas", {"kind": "ElasticGPUQuota", "metadata": {"name": "team"},
                                                        "spec": {"hard": {"gpu-core": 1000, "gpu-memory": "400Gi", "claims": 40}}})
    for i in range(6):
        api.claim(f"small-{i}", {"gpu-core": 30, "gpu-memory": "4Gi"})
    api.claim("large", {"gpu": 9})
    api.claim("planted", {"gpu-core": 10}, models=[PLANTED + "none"])
    api.claim("rank-0", {"gpu": 1}, {"elasticgpu.io/gang": "train", "elasticgpu.io/gang-size": "2"})
    api.claim("two-instances", {"mig-1g.10gb": 2}, egpuClassName="mig")
    api.claim("media", {"mig-1g.10gb.me": 1}, egpuClassName="mig")
    api.claim("half", {"mig-3g.40gb": 1}, egpuClassName="mig")
    api.create("/elasticgpus", {"kind": "ElasticGPU", "metadata": {"name": "by-hand"}, "spec": {"remote": {"endpoint": REMOTE}}})
    api.create("/namespaces/default/elasticgpuclaims", {"kind": "ElasticGPUClaim", "metadata": {"name": "leased"}, "spec": {"elasticGPUName": "by-hand"}})
    api.create("/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "near"}}, "/api/v1")
    api.create("/namespaces/near/elasticgpuquotas", {"kind": "ElasticGPUQuota", "metadata": {"name": "team"}, "spec": {"hard": {"gpu-core": 20}}})
    api.claim("a", {"gpu-core": 20}, namespace="near")
    names = [*(f"small-{i}" for i in range(6)), "two-instances", "media", "half", "leased"]
    until(lambda: all(api.bound(name) for name in names) and api.bound("a", "near"))
    report_states(api)


def report_states(api):
    """One card is in use, and another one is not healthy."""
    device = api.device(api.bound("small-0")["status"]["elasticGPUName"])
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    used = next(card for card in (api.card("infer-0", index) for index in range(4)) if card["metadata"]["name"] == device["spec"]["cards"][0]["name"])
    api.report(used, usage={"memory": 5 << 30, "smPercent": 24, "time": now, "devices": {device["metadata"]["uid"]: {"memory": 3 << 30, "smPercent": 18}}})
    broken = api.card("infer-2", 0)
    others = [each for each in broken.get("status", {}).get("conditions", []) if each["type"] != "Healthy"]
    api.report(broken, conditions=[*others, {"type": "Healthy", "status": "False", "reason": "Xid79", "message": "the card has fallen off the bus", "lastTransitionTime": now}])


class TokenProxy:
    """Serves the page's files to everyone, and all other paths of the operations port to callers with the token "good", as the controller does in
    a cluster."""

    def __init__(self, ops):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                public = self.path == "/" or self.path.startswith("/page/")
                if not public and self.headers.get("Authorization") != "Bearer good":
                    body = b'{"kind":"Status","message":"the API server does not know this token <b>x</b>"}'
                    self.send_response(401)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                with urllib.request.urlopen(ops + self.path, timeout=60) as answer:
                    self.send_response(answer.status)
                    for name in ("Content-Type", "Content-Security-Policy"):
                        if answer.headers.get(name):
                            self.send_header(name, answer.headers[name])
                    self.end_headers()
                    try:
                        while chunk := answer.read1(65536):
                            self.wfile.write(chunk)
                            self.wfile.flush()
                    except (OSError, ValueError):
                        pass  # the page closed its stream

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()


class PageTest:
    def __init__(self, report, server, api, browser, axe):
        self.r, self.server, self.api, self.axe = report, server, api, axe
        self.tab = browser.tab()
        self.tab.shape()
        self.base = server.ops + "/"
        self.pictures = os.environ.get("EGPU_PAGE_SCREENSHOTS")
        if self.pictures:
            os.makedirs(self.pictures, exist_ok=True)

    def go(self, fragment):
        self.tab.evaluate(f"location.hash = {json.dumps(fragment)}; scrollTo(0, 0)")
        self.tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")

    def shows(self, text, seconds=15):
        return self.tab.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def picture(self, name, whole=True):
        if self.pictures:
            self.tab.screenshot(os.path.join(self.pictures, f"{name}.png"), whole)

    def headers(self):
        with urllib.request.urlopen(self.base, timeout=30) as answer:
            policy = answer.headers.get("Content-Security-Policy", "")
            self.r.check("the page has a strict policy", "default-src 'none'" in policy and "unsafe" not in policy, policy)
        request = urllib.request.Request(self.base + "events", headers={"Sec-Fetch-Site": "cross-site"})
        try:
            status = urllib.request.urlopen(request, timeout=30).status
        except urllib.error.HTTPError as refused:
            status = refused.code
        self.r.check("a page of another site cannot read the stream", status == 403, status)

    def live(self):
        self.tab.open(self.base)
        self.r.check("the page becomes live", self.tab.until("document.getElementById('live').textContent === 'Live'"), self.tab.text()[:400])
        text = self.tab.text()
        self.r.check("it shows all cards", "Cards 31" in text and "Claims bound 11" in text, text[:400])
        self.r.check("it shows what a claim waits for", "default/large" in text and "NoFit" in text, text[:800])
        drawn = self.tab.evaluate("(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                                  "return new Set(new Uint32Array(d.buffer)).size })()")
        self.r.check("it shows that a card is not offered", "Not offered 1" in text, text[:400])
        self.r.check("the map is drawn", drawn > 4, drawn)
        self.go("#/claims")
        self.api.claim("later", {"gpu-core": 5})
        self.r.check("a new claim appears by itself", self.shows("default/later"), self.tab.text()[:400])
        self.r.check("and becomes Bound", self.tab.until("[...document.querySelectorAll('tr')].some((row) => row.innerText.includes('default/later') && row.innerText.includes('Bound'))"))

    def links(self):
        self.go("#/claim/default/large")
        self.r.check("a pending claim has its reason and what would help", self.shows("What would help") and self.shows("Stage"), self.tab.text()[:600])
        self.go("#/node/train-0/card/3")
        marked = self.tab.evaluate("document.querySelector('.card.marked h3')?.innerText")
        self.r.check("a link leads to a card", marked == "Card 3", marked)
        self.r.check("the node shows NUMA nodes and links", self.shows("NUMA node 1") and self.shows("nvswitch"))
        self.go("#/node/infer-2")
        self.r.check("a card that is not offered has its reason", self.shows("Xid79"), self.tab.text()[:600])
        self.go("#/claim/default/small-0")
        self.r.check("the use of a claim is shown", self.shows("uses 18 %, 3 GiB"), self.tab.text()[:600])
        self.mig_and_remote()
        self.go("#/what-if?drain=train-0&add=new-1%2Clike%3Dtrain-0%2Ccount%3D3")
        self.r.check("a what-if question is a link", self.shows("drain train-0") and self.shows("still pending after this step"), self.tab.text()[:600])
        self.go("#/what-if?drain=" + PLANTED.replace(" ", "%20"))
        self.r.check("an error of a question is shown", self.shows("no node"), self.tab.text()[:600])
        for fragment, text in (("#/forecast", "Further claims"), ("#/quotas", "gpu-memory"), ("#/gangs", "1 member missing"), ("#/use", "default/small-0"),
                               ("#/timeline", "Transitions"), ("#/reservations", "No capacity is held"), ("#/node/none", "no such node"),
                               ("#/claim/default/none", "no such claim"), ("#/none", "no such view")):
            self.go(fragment)
            self.r.check(f"{fragment} shows its content", self.shows(text), self.tab.text()[:400])

    def mig_and_remote(self):
        self.go("#/node/mig")
        self.r.check("a node shows the MIG instances of its cards", self.shows("default/two-instances 1g.10gb in slots 4, 6: 28.4 %, 20 GiB"), self.tab.text()[:600])
        slots = self.tab.evaluate("[...document.querySelectorAll('.slots')].map((bar) => [bar.getAttribute('aria-label'), bar.querySelectorAll('.used').length, bar.children.length])")
        self.r.check("and the slots that they take", slots[0][1:] == [8, 9] and "default/two-instances has slots 4, 6" in slots[0][0] and "the media engines" in slots[0][0]
                     and slots[1] == ["MIG slots: all free", 0, 9], slots)
        self.r.check("a card in MIG mode without instances says so", self.shows("In MIG mode: only for MIG instances"), self.tab.text()[:600])
        self.go("#/claim/default/leased")
        self.r.check("a claim with a remote GPU has its address", self.shows("Remote GPU") and self.shows(REMOTE), self.tab.text()[:600])

    def planted(self):
        self.go("#/node/odd")
        self.r.check("a planted model is a text", self.shows(PLANTED), self.tab.text()[:400])
        self.go("#/claim/default/planted")
        self.r.check("a planted request is a text", self.shows(PLANTED), self.tab.text()[:600])
        for fragment in ["#/search/" + PLANTED.replace(" ", "%20").replace("/", "%2F"), *VIEWS]:
            self.go(fragment)
        made = self.tab.evaluate("[document.images.length, window.planted === undefined]")
        self.r.check("no planted text became an element", made == [0, True], made)

    def keyboard(self):
        self.go("#/nodes")
        self.tab.evaluate("document.activeElement.blur()")
        self.tab.press("/", 191, "/")
        self.r.check("/ leads to the search", self.tab.evaluate("document.activeElement.id") == "search")
        self.tab.type("infer-2")
        self.r.check("the search finds a node", self.tab.until("document.querySelector('main a[href=\"#/node/infer-2\"]') !== null"), self.tab.text()[:400])
        visited = []
        for _ in range(40):
            self.tab.press("Tab", 9)
            visited.append(self.tab.evaluate("document.activeElement.getAttribute('href')"))
            if visited[-1] == "#/node/infer-2":
                break
        self.tab.press("Enter", 13, "\r")
        self.r.check("Tab and Enter open it", self.tab.until("document.querySelector('h1')?.textContent === 'Node infer-2'"), visited)
        self.r.check("the heading has the focus", self.tab.until("document.activeElement.tagName === 'H1'"))

    def accessible(self):
        """axe-core on every view, light and dark; no view is wider than a phone."""
        self.tab.evaluate("document.getElementById('search').value = ''")
        self.tab.evaluate(f"{self.axe}; true")
        for dark in (False, True):
            for width in (1280, 390):
                self.tab.shape(width, 844, dark)
                for fragment in VIEWS:
                    self.go(fragment)
                    if "?" in fragment:
                        self.shows("Result")
                    name = re.sub(r"[^a-z0-9]+", "-", fragment.split("?")[0][2:]) + ("-asked" if "?" in fragment else "")
                    self.picture(f"{name}-{width}-{'dark' if dark else 'light'}")
                    self.fits(fragment, width)
                    if width == 390 and dark or (width == 390 or dark) and fragment not in SAMPLE:
                        continue
                    found = self.tab.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then((result) => "
                                              "result.violations.map((each) => each.id + ': ' + each.nodes.slice(0, 3).map((node) => node.html.slice(0, 120) + ' ' + node.failureSummary).join(' | ')))")
                    self.r.check(f"axe finds nothing in {fragment}, {width} pixels, {'dark' if dark else 'light'}", found == [], found)
        self.tab.shape()

    def fits(self, fragment, width):
        """Neither the page nor one of its tables is wider than the window, and the menu shows the entry of the view."""
        wide = self.tab.evaluate("[document.documentElement.scrollWidth - innerWidth, ...[...document.querySelectorAll('.scroll')].map((each) => each.scrollWidth - each.clientWidth)]")
        if max(wide) > 0:
            self.r.check(f"{fragment} fits into {width} pixels", False, wide)
        here = self.tab.evaluate("(() => { const link = document.querySelector('nav [aria-current]')?.getBoundingClientRect(); return !link || (link.left >= 0 && Math.floor(link.right) <= innerWidth) })()")
        if not here:
            self.r.check(f"the menu shows the entry of {fragment} in {width} pixels", False)

    def token(self):
        proxy = TokenProxy(self.server.ops)
        self.tab.open(proxy.url + "#/claim/default/large")
        self.r.check("without a token the page asks for one", self.tab.until("document.querySelector('input[type=password]') !== null"), self.tab.text()[:400])
        self.r.check("and shows no data", "default/large" not in self.tab.text() and "NoFit" not in self.tab.text(), self.tab.text()[:400])
        self.tab.until("document.activeElement.type === 'password'")
        self.tab.type("bad")
        self.tab.press("Enter", 13, "\r")
        self.r.check("a refusal is shown as text", self.shows("<b>x</b>"), self.tab.text()[:400])
        self.picture("token")
        self.tab.until("document.querySelector('input[type=password]')?.value === ''")
        self.tab.type("good")
        self.tab.press("Enter", 13, "\r")
        self.r.check("a token opens the link", self.tab.until("document.getElementById('live').textContent === 'Live'") and self.shows("default/large"), self.tab.text()[:400])
        self.r.check("questions use the token too", self.shows("What would help"), self.tab.text()[:400])
        stored = self.tab.evaluate("JSON.stringify([localStorage.length, sessionStorage.length, document.cookie, location.href])")
        self.r.check("the token is kept in memory only", stored.startswith('[0,0,""') and "good" not in stored, stored)
        self.tab.send("Page.reload")
        self.r.check("and is forgotten by a reload", self.tab.until("document.querySelector('input[type=password]') !== null"), self.tab.text()[:400])
        proxy.close()

    def run(self):
        self.headers()
        self.live()
        self.links()
        self.planted()
        self.keyboard()
        self.accessible()
        problems = [each for each in self.tab.problems if "status of 404" not in each]
        self.r.check("the console has no errors", not problems, problems[:5])
        self.token()
        self.tab.open(self.base)
        self.tab.until("document.getElementById('live').textContent === 'Live'")
        self.r.check("the controller stops although a page is open", self.server.stop() == 0)
        self.r.check("the page says that it is not connected", self.shows("Not connected"), self.tab.text()[:400])


def main():
    bin_dir, cache = sys.argv[1:]
    cache = os.path.realpath(cache)
    tools.client(cache)
    import browser as devtools  # after tools.client(), which makes an import of this module possible
    if not devtools.chromium():
        tools.skip("chromium is not installed")
    axe = tools.axe(cache)
    report = Report()
    server = Standalone(bin_dir, NODES)
    chromium = None
    try:
        api = Api(server.kubeconfig)
        fill(api)
        chromium = devtools.Browser()
        PageTest(report, server, api, chromium, axe).run()
    finally:
        if chromium:
            chromium.close()
        server.clean()
    sys.exit(report.close())


if __name__ == "__main__":
    main()
