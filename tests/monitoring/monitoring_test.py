#!/usr/bin/env python3
"""Proves that the alert rules and dashboards of manifests/monitoring fit the product: each metric and label that they use is in
manifests/guide/metrics.md, each alert has a runbook and a case in alerts.yaml. With promtool: each query can be parsed, each alert fires in its case, and no
other one fires there.

monitoring_test.py static | promtool | standalone BIN_DIR

static and standalone need neither Go nor promtool. Exit status 77: skipped, because Go is missing and promtool is not built.
"""

import json
import pathlib
import re
import sys
import subprocess
import tempfile
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "chart"), str(HERE.parent / "cluster")]

import tools  # noqa: E402  (in another folder)
from apiserver import guarded  # noqa: E402
from client import Report, until  # noqa: E402

MONITORING = tools.MANIFESTS / "monitoring"
GUIDE = tools.MANIFESTS / "guide"
MIN_ALERTS = 15
# Labels that Prometheus adds.
TARGET = {"job", "instance", "pod", "namespace", "container", "endpoint"}
# Metrics of Prometheus and of dcgm-exporter, with the labels of the latter.
DCGM = {"gpu", "UUID", "device", "modelName", "Hostname", "pci_bus_id"}
FOREIGN = {"up": set(), **{f"DCGM_FI_DEV_{name}": DCGM for name in ("GPU_TEMP", "POWER_USAGE", "FB_USED", "FB_FREE", "XID_ERRORS")}}
KEYWORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "offset", "bool", "inf", "nan"}
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\$\w+|\{\{.*?\}\}|[A-Za-z_:][\w:]*|[{}()\[\],]|=~|!~|!=|==|[<>]=?|[-+*/%^=]|[\d.]+\w*|\s+')


def product_metrics():
    """Returns metric → labels, from the tables of the guide; histograms also with their suffixes."""
    found = dict(FOREIGN)
    for line in (GUIDE / "metrics.md").read_text(encoding="utf-8").splitlines():
        cells = [each.strip() for each in line.removeprefix("|").removesuffix("|").split("|")]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        labels = set(re.findall(r"`([^`]+)`", cells[2]))
        for name in re.findall(r"`(\w+)`", cells[0]) + [each for each in re.findall(r"`(process_\w+)`", cells[3])]:
            found[name] = labels
            if cells[1] == "histogram":
                found |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
    return found


def used(expression):
    """Returns the metrics of a query with the labels of their matchers, and the labels of groupings: ([(metric, {label}), ...], {label})."""
    tokens = [each for each in TOKEN.findall(expression) if not each.isspace()]
    if "".join(tokens) != re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", expression):
        raise tools.Failure(f"cannot be split into tokens: {expression}")
    metrics, groups, index = [], set(), 0
    while index < len(tokens):
        token, following = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else ""
        if token in ("by", "without", "on", "ignoring", "group_left", "group_right") and following == "(":
            end = tokens.index(")", index)
            groups |= {each for each in tokens[index + 2:end] if each != ","}
            index = end
        elif token == "[":
            index = tokens.index("]", index)
        elif re.fullmatch(r"[A-Za-z_:][\w:]*", token) and following not in ("(", "by", "without") and token not in KEYWORDS:
            labels = set()
            if following == "{":
                end = tokens.index("}", index)
                labels = {tokens[at] for at in range(index + 2, end) if tokens[at + 1] in ("=", "!=", "=~", "!~")}
                index = end
            metrics.append((token, labels))
        index += 1
    return metrics, groups


def rules():
    return [each for group in yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["groups"] for each in group["rules"]]


def dashboards():
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted((MONITORING / "dashboards").glob("*.json"))}


def queries():
    """Yields (place, query, text with label names) of each rule, panel and variable."""
    for rule in rules():
        text = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], " ".join(re.findall(r"\$labels\.(\w+)", text))
    for name, board in dashboards().items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"], " ".join(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                yield f"{name}: ${variable['name']}", metric, label


def check_names(report):
    known = product_metrics()
    count = 0
    for place, query, shown in queries():
        metrics, groups = used(query)
        report.check(f"{place}: it has a metric", metrics, query)
        of_query = set(TARGET)
        for metric, labels in metrics:
            count += 1
            if report.check(f"{place}: {metric} is a metric of the guide", metric in known):
                of_query |= known[metric]
                report.check(f"{place}: {metric} has these labels", labels <= known[metric] | TARGET, labels - known[metric])
        report.check(f"{place}: labels of groups and legends are labels of its metrics", groups | set(shown.split()) <= of_query,
                     (groups | set(shown.split())) - of_query)
    joined = [place for place, query, _ in queries() if "DCGM_" in query and re.search(r"on \(UUID\)|by \(UUID\)", query)]
    report.check("queries are joined with dcgm-exporter's by UUID", len(joined) >= 4, joined)
    report.check("many metrics are used", count > 60, count)


def check_registry(report):
    """The guide's page has the metrics of the sources, with labels that the sources set."""
    root = tools.ROOT / "controller"
    registry = (root / "server/operations/prometheus_metrics.cpp").read_text(encoding="utf-8")
    helps = set(re.findall(r'^\s*\{"(\w+)",', registry, re.M))
    page = product_metrics()
    names = {each for each in page if not re.search(r"_(bucket|sum|count)$", each)} - set(FOREIGN)
    report.check("metrics.md has each metric of the sources and no other", names == helps, names ^ helps)
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*.cpp") if path.name != "prometheus_metrics.cpp"]
    for name in sorted(names):
        users = "".join(text for text in texts if f'"{name}"' in text)
        # The work queue's and the call's labels are set where the object is constructed.
        missing = {label for label in page[name] if f'"{label}"' not in users}
        report.check(f"{name}: a file that sets it names the labels", users and not missing, missing)


def check_runbooks(report):
    for rule in rules():
        notes = rule["annotations"]
        report.check(f"{rule['alert']}: summary, description and severity", notes.get("summary") and notes.get("description") and
                     rule["labels"].get("severity") in ("critical", "warning", "info"), rule)
        path, _, anchor = notes.get("runbook_url", "").partition("#")
        text = (tools.ROOT / path).read_text(encoding="utf-8") if path else ""
        report.check(f"{rule['alert']}: its runbook exists", anchor == rule["alert"].lower() and re.search(rf"^#+ {rule['alert']}$", text, re.M), notes)
    headings = set(re.findall(r"^#+ (ElasticGPU\w+)$", "".join((GUIDE / each).read_text(encoding="utf-8") for each in ("runbooks.md", "runbooks-cards.md")), re.M))
    names = {rule["alert"] for rule in rules()}
    report.check("each runbook has its alert", headings == names, headings ^ names)
    report.check(f"at least {MIN_ALERTS} alerts", len(names) >= MIN_ALERTS, len(names))


def check_dashboards(report):
    found = dashboards()
    report.check("capacity, shares, queue, health and quota", {"capacity.json", "shares.json", "queue.json", "health.json", "quota.json"} <= set(found))
    report.check("uids are distinct", len({each["uid"] for each in found.values()}) == len(found))
    for name, board in found.items():
        ids = [each["id"] for each in board["panels"]]
        report.check(f"{name}: ids are distinct", len(set(ids)) == len(ids))
        cells = [(x, y) for each in board["panels"] for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
                 for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])]
        report.check(f"{name}: panels are within the grid and do not overlap", len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24)
        variables = {each["name"] for each in board["templating"]["list"]}
        asked = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board["panels"])))
        report.check(f"{name}: its variables are defined", asked <= variables, asked - variables)


def check_current(report):
    status, output, error = tools.run(sys.executable, MONITORING / "generate.py", "--check")
    report.check("dashboards and prometheusrule.yaml are current", status == 0, output + error)


def promtool(folder, *arguments):
    return tools.run(tools.tool("promtool"), *arguments, cwd=folder)


def check_queries(report, folder):
    """Each query of the dashboards is parsed, as the expression of a recording rule."""
    bodies = []
    for number, (place, query, _) in enumerate(queries()):
        bodies.append({"record": f"query:{number}", "expr": re.sub(r"\$__rate_interval", "5m", query), "labels": {"place": place}})
    (folder / "queries.yaml").write_text(json.dumps({"groups": [{"name": "queries", "rules": bodies}]}), encoding="utf-8")
    status, output, error = promtool(folder, "check", "rules", "--lint=none", "queries.yaml")
    report.check("promtool parses each query", status == 0 and f"{len(bodies)} rules found" in output + error, output + error)
    (folder / "broken.yaml").write_text(json.dumps({"groups": [{"name": "q", "rules": [{"record": "a", "expr": "sum(rate(x[5m])"}]}]}), encoding="utf-8")
    report.check("promtool would find a wrong one", promtool(folder, "check", "rules", "broken.yaml")[0] != 0)
    status, output, error = promtool(folder, "check", "rules", "--lint=all", "--lint-fatal", MONITORING / "rules.yaml")
    report.check("promtool accepts the rules and their templates", status == 0 and f"{len(rules())} rules found" in output + error, output + error)


def unit_test(case, healthy, severities):
    """Returns a test of promtool: at the minute `quiet` nothing fires; at the minute `fires` only this alert."""
    series = [{"series": name, "values": case["series"].get(name) or f"{each}x{case['fires'] + 5}"} for name, each in healthy.items()]
    series += [{"series": name, "values": values} for name, values in case["series"].items() if name not in healthy]
    expected = [{"exp_labels": {**labels, "severity": severities[case["alert"]]}} for labels in case["labels"]]
    return {"interval": "1m", "input_series": series, "alert_rule_test": [
        {"eval_time": f"{case[moment]}m", "alertname": name, "exp_alerts": expected if moment == "fires" and name == case["alert"] else []}
        for moment in ("quiet", "fires") for name in severities]}


def check_alerts(report, folder):
    text = yaml.safe_load((HERE / "alerts.yaml").read_text(encoding="utf-8"))
    severities = {each["alert"]: each["labels"]["severity"] for each in rules()}
    report.check("each alert has a case", {each["alert"] for each in text["cases"]} == set(severities), set(severities) ^ {each["alert"] for each in text["cases"]})
    # Without annotations, which promtool would compare as texts.
    document = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))
    for group in document["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (folder / "rules.yaml").write_text(json.dumps(document), encoding="utf-8")
    tests = [unit_test(each, text["healthy"], severities) for each in text["cases"]]
    (folder / "tests.yaml").write_text(json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}), encoding="utf-8")
    status, output, error = promtool(folder, "test", "rules", "tests.yaml")
    report.check(f"{len(tests)} cases: each alert fires in its case alone", status == 0 and "SUCCESS" in output + error, (output + error)[:4000])
    # The same cases against rules that never fire.
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = "vector(1) > 2"
    (folder / "rules.yaml").write_text(json.dumps(document), encoding="utf-8")
    status, output, error = promtool(folder, "test", "rules", "tests.yaml")
    silent = set(re.findall(r"alertname:? ?(ElasticGPU\w+)", output + error))
    report.check("each case would find an alert that does not fire", status != 0 and silent == set(severities), set(severities) ^ silent)


def check_served(report, address):
    """The metrics of a running program have the labels of the guide, and no others."""
    with urllib.request.urlopen(f"http://{address.removeprefix('http://')}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    known, seen = product_metrics(), set()
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        seen.add(name)
        names = set(re.findall(r'(\w+)="', labels))
        report.check(f"{name} has the labels of the guide", name in known and names == known[name], (names, known.get(name)))
    report.check("many metrics were read", len(seen) > 30, sorted(seen))


def standalone():
    report = Report()
    with tempfile.TemporaryDirectory(prefix="egpu-metrics-") as name:
        address = pathlib.Path(name) / "address"
        with open(pathlib.Path(name) / "log", "wb") as log, subprocess.Popen(
                [pathlib.Path(sys.argv[2]) / "elastic-gpu-standalone", f"--nodes={tools.MANIFESTS}/samples/nodes/h100.yaml", "--listen=127.0.0.1:0",
                 "--ops-listen=127.0.0.1:0", f"--write-ops-address={address}"], stdout=log, stderr=log) as process:
            try:
                until("it is ready", lambda: process.poll() is not None or (address.exists() and address.read_text()))
                if report.check("it runs", process.poll() is None, (pathlib.Path(name) / "log").read_text()[-2000:]):
                    check_served(report, address.read_text().strip())
            finally:
                process.terminate()
    return report.close()


def static():
    report = Report()
    for check in (check_current, check_names, check_registry, check_runbooks, check_dashboards):
        check(report)
    return report.close()


def with_promtool():
    report = Report()
    tools.tool("promtool")
    with tempfile.TemporaryDirectory(prefix="egpu-promtool-") as name:
        check_queries(report, pathlib.Path(name))
        check_alerts(report, pathlib.Path(name))
    return report.close()


if __name__ == "__main__":
    sys.exit(guarded({"static": static, "promtool": with_promtool, "standalone": standalone}[sys.argv[1]]))
