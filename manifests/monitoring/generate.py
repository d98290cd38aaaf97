#!/usr/bin/env python3
"""Writes the Grafana dashboards, and the PrometheusRule with the rules of rules.yaml.

generate.py           write dashboards/*.json and prometheusrule.yaml
generate.py --check   print the files that are not current; exit status 1 if there are any

A dashboard is a list of rows, a row a list of panels. Grafana's grid has 24 columns.
"""

import json
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = 24
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "$__rate_interval"
# Usage of a claim beside its limit, for the claims that the variables select.
SHARE = '{namespace=~"$namespace",claim=~"$claim"}'


def panel(title, unit, *queries, kind="timeseries", description="", **limits):
    """queries: (PromQL, legend). limits: max, thresholds (value → color)."""
    steps = [{"color": "green", "value": None}, *({"color": color, "value": value} for value, color in limits.get("thresholds", {}).items())]
    defaults = {"unit": unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if "max" in limits:
        defaults["max"] = limits["max"]
    if kind == "timeseries":
        defaults["custom"] = {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never", "lineWidth": 1}
    instant = kind in ("stat", "table", "bargauge")
    return {"type": kind, "title": title, "description": description, "datasource": SOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}} if kind == "timeseries" else
                       {"reduceOptions": {"calcs": ["lastNotNull"]}},
            "targets": [{"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expr, "legendFormat": legend,
                         "instant": instant, "range": not instant, **({"format": "table"} if kind == "table" else {})}
                        for index, (expr, legend) in enumerate(queries)]}


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2,
            "includeAll": True, "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "sort": 1}


def dashboard(name, title, description, rows, variables=()):
    panels = []
    for index, row in enumerate(rows):
        width = COLUMNS // len(row)
        for column, each in enumerate(row):
            panels.append({"id": len(panels) + 1, "gridPos": {"x": column * width, "y": index * HEIGHT, "w": width, "h": HEIGHT}, **each})
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    return {"uid": f"elastic-gpu-{name}", "title": f"Elastic GPU / {title}", "description": description, "tags": ["elastic-gpu"],
            "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
            "time": {"from": "now-6h", "to": "now"}, "templating": {"list": [source, *variables]}, "panels": panels,
            "links": [{"type": "dashboards", "title": "Elastic GPU", "tags": ["elastic-gpu"], "asDropdown": True, "includeVars": True, "keepTime": True}]}


def quantile(of, metric, by, matcher=""):
    return f"histogram_quantile({of}, sum by (le, {by}) (rate({metric}_bucket{matcher}[{RATE}])))"


def capacity():
    cards = "max by (state) (elasticgpu_cards)"
    return dashboard("capacity", "Capacity", "Cards, claims, and further claims that would fit.", [
        [panel("Cards", "short", ("sum(max by (state) (elasticgpu_cards))", "cards"), kind="stat"),
         panel("Free cards", "short", ('max(elasticgpu_cards{state="free"})', "free"), kind="stat"),
         panel("Quarantined cards", "short", ('max(elasticgpu_cards{state="quarantined"})', "quarantined"), kind="stat", thresholds={1: "red"}),
         panel("Pending claims", "short", ('max(elasticgpu_claims{phase="Pending"})', "pending"), kind="stat", thresholds={1: "orange"})],
        [panel("Cards by state", "short", (cards, "{{state}}")),
         panel("Claims by phase", "short", ("max by (phase) (elasticgpu_claims)", "{{phase}}"))],
        [panel("Further claims that fit, by class", "short", ("max by (class) (elasticgpu_claims_that_fit)", "{{class}}"),
               description="Number of further claims of the class's usual size."),
         panel("Memory used on cards, of dcgm-exporter's total", "percentunit",
               ("sum(max by (UUID) (elasticgpu_card_memory_used_bytes)) / "
                "sum(1048576 * (max by (UUID) (DCGM_FI_DEV_FB_USED) + max by (UUID) (DCGM_FI_DEV_FB_FREE)))", "used"), max=1)],
        [panel("SM utilisation of cards in use", "percentunit",
               ("avg(elasticgpu_card_sm_utilisation_ratio and on (UUID) elasticgpu_claim_processes)", "with a claim"),
               ("avg(elasticgpu_card_sm_utilisation_ratio unless on (UUID) elasticgpu_claim_processes)", "without a claim"), max=1),
         panel("Milli-cards and bytes charged, by model (with --card-metrics)", "short",
               ("sum by (model) (max by (uuid, model) (elasticgpu_card_core_allocated_millicards))", "{{model}} milli-cards"),
               ("sum by (model) (max by (uuid, model) (elasticgpu_card_memory_allocated_bytes)) / 1073741824", "{{model}} GiB"))]])


def shares():
    by = "{{namespace}}/{{claim}} {{pod}}"
    return dashboard("shares", "Shares", "Usage of each claim beside its limit, with the temperature and power of its card from dcgm-exporter.", [
        [panel("Memory used of the limit", "percentunit",
               (f"elasticgpu_claim_memory_used_bytes{SHARE} / elasticgpu_claim_memory_limit_bytes{SHARE}", by), thresholds={1: "red"}),
         panel("Compute used of the limit", "percentunit",
               (f"elasticgpu_claim_sm_utilisation_ratio{SHARE} / elasticgpu_claim_core_limit_ratio{SHARE}", by), thresholds={1: "orange"})],
        [panel("Memory used", "bytes", (f"elasticgpu_claim_memory_used_bytes{SHARE}", by)),
         panel("Memory limit", "bytes", (f"elasticgpu_claim_memory_limit_bytes{SHARE}", by))],
        [panel("SM utilisation", "percentunit", (f"elasticgpu_claim_sm_utilisation_ratio{SHARE}", by), max=1),
         panel("Compute limit", "percentunit", (f"elasticgpu_claim_core_limit_ratio{SHARE}", by), max=1),
         panel("Processes", "short", (f"elasticgpu_claim_processes{SHARE}", by))],
        [panel("Temperature of the claim's card", "celsius",
               (f"elasticgpu_claim_processes{SHARE} * 0 + on (UUID) group_left () max by (UUID) (DCGM_FI_DEV_GPU_TEMP)", by + " {{UUID}}"),
               thresholds={85: "red"}),
         panel("Power by claim, in proportion to its SM time", "watt",
               (f"elasticgpu_claim_sm_utilisation_ratio{SHARE} * on (UUID) group_left () max by (UUID) (DCGM_FI_DEV_POWER_USAGE)", by))],
        [panel("Claims without use in the last hour", "short",
               (f"count by (namespace, claim, pod) (max_over_time(elasticgpu_claim_sm_utilisation_ratio{SHARE}[1h]) == 0)", by), kind="table")]],
        [variable("namespace", "Namespace", "label_values(elasticgpu_claim_processes, namespace)"),
         variable("claim", "Claim", 'label_values(elasticgpu_claim_processes{namespace=~"$namespace"}, claim)')])


def queue():
    return dashboard("queue", "Queue and latency", "Work queue, decisions, requests to the API server, plugins, prepare.", [
        [panel("Queue depth", "short", ("max by (queue) (elasticgpu_workqueue_depth)", "{{queue}}")),
         panel("Keys added and retried per second", "ops", (f"sum by (queue) (rate(elasticgpu_workqueue_adds_total[{RATE}]))", "{{queue}} added"),
               (f"sum by (queue) (rate(elasticgpu_workqueue_retries_total[{RATE}]))", "{{queue}} retried")),
         panel("Longest current step", "s", ("max by (instance) (elasticgpu_longest_step_seconds)", "{{instance}}"), thresholds={120: "red"})],
        [panel("Wait for a worker", "s", *((quantile(of, "elasticgpu_workqueue_queue_duration_seconds", "queue"), f"{{{{queue}}}} p{int(of * 100)}")
                                           for of in (0.5, 0.99))),
         panel("Work on one key", "s", *((quantile(of, "elasticgpu_workqueue_work_duration_seconds", "queue"), f"{{{{queue}}}} p{int(of * 100)}")
                                         for of in (0.5, 0.99)))],
        [panel("Decisions per second", "ops", (f"sum by (result) (rate(elasticgpu_decisions_total[{RATE}]))", "{{result}}")),
         panel("Duration of a decision", "s", *((f"histogram_quantile({of}, sum by (le) (rate(elasticgpu_decision_seconds_bucket[{RATE}])))",
                                                 f"p{int(of * 100)}") for of in (0.5, 0.99)), thresholds={0.3: "orange"})],
        [panel("Reconciles per second by result", "ops", (f"sum by (concern, result) (rate(elasticgpu_reconciles_total[{RATE}]))", "{{concern}} {{result}}")),
         panel("Duration of a reconcile, p99", "s", (quantile(0.99, "elasticgpu_reconcile_duration_seconds", "concern"), "{{concern}}"))],
        [panel("Requests to the API server per second", "ops", (f"sum by (verb, code) (rate(elasticgpu_api_requests_total[{RATE}]))", "{{verb}} {{code}}")),
         panel("Duration of a request, p99", "s", (quantile(0.99, "elasticgpu_api_request_duration_seconds", "verb"), "{{verb}}"))],
        [panel("Writes per second by resource", "ops", (f"sum by (verb, resource) (rate(elasticgpu_api_writes_total[{RATE}]))", "{{verb}} {{resource}}")),
         panel("Watch events per second", "ops", (f"sum by (resource) (rate(elasticgpu_reflector_events_total[{RATE}]))", "{{resource}}"))],
        [panel("Prepare and unprepare on nodes, p90", "s", (quantile(0.9, "elasticgpu_agent_prepare_seconds", "result"), "prepare {{result}}"),
               (quantile(0.9, "elasticgpu_agent_unprepare_seconds", "result"), "unprepare {{result}}")),
         panel("Answers to schedulers (extender), p99", "s", (quantile(0.99, "elasticgpu_extender_duration_seconds", "verb"), "{{verb}}"))]])


def health():
    return dashboard("health", "Health", "Leader, cards, ledger, plugins, agents, processes.", [
        [panel("Leaders", "short", ("sum(elasticgpu_leader)", "leaders"), kind="stat"),
         panel("Ledger drift in 24 h", "short", ("sum(increase(elasticgpu_ledger_drift_total[24h])) or vector(0)", "drift"), kind="stat", thresholds={1: "red"}),
         panel("Lost claims", "short", ('max(elasticgpu_claims{phase="Lost"})', "lost"), kind="stat", thresholds={1: "red"}),
         panel("Devices held without a claim", "short", ("max(elasticgpu_devices_held)", "held"), kind="stat", thresholds={1: "orange"})],
        [panel("Programs without a claim on cards", "short",
               ("max by (UUID, Hostname) (elasticgpu_card_processes) - on (UUID) group_left () "
                "(sum by (UUID) (elasticgpu_claim_processes) or 0 * max by (UUID) (elasticgpu_card_processes)) > 0", "{{Hostname}} {{UUID}}")),
         panel("Last XID of cards with claims (dcgm-exporter)", "short",
               ("max by (UUID) (DCGM_FI_DEV_XID_ERRORS) and on (UUID) elasticgpu_claim_processes", "{{UUID}}"), thresholds={1: "red"})],
        [panel("Plugin calls per second by outcome", "ops",
               (f"sum by (plugin, slot, outcome) (rate(elasticgpu_plugin_calls_total[{RATE}]))", "{{plugin}} {{slot}} {{outcome}}")),
         panel("Duration of plugin calls, p99", "s", (quantile(0.99, "elasticgpu_plugin_call_seconds", "plugin, slot"), "{{plugin}} {{slot}}")),
         panel("Exits of plugin hosts", "short", ("sum by (plugin) (increase(elasticgpu_plugin_downs_total[1h]))", "{{plugin}}"))],
        [panel("Failed prepares on nodes", "short", ('sum by (instance) (increase(elasticgpu_agent_prepare_seconds_count{result="failed"}[15m]))', "{{instance}}")),
         panel("Lease attempts per second", "ops", (f"sum by (instance, result) (rate(elasticgpu_lease_attempts_total[{RATE}]))", "{{instance}} {{result}}")),
         panel("Alternating statuses", "short", ("sum by (kind) (increase(elasticgpu_status_alternations_total[1h]))", "{{kind}}"))],
        [panel("Memory of the processes", "bytes", ('process_resident_memory_bytes{job=~"(.*/)?elastic-gpu-.*"}', "{{pod}}{{instance}}")),
         panel("Processor time per second", "short", (f'rate(process_cpu_seconds_total{{job=~"(.*/)?elastic-gpu-.*"}}[{RATE}])', "{{pod}}{{instance}}")),
         panel("Versions", "short", ("count by (version) (elasticgpu_build_info)", "{{version}}"))],
        [panel("Events by result per second", "ops", (f"sum by (result) (rate(elasticgpu_events_total[{RATE}]))", "{{result}}")),
         panel("Journal records per second", "ops", (f"sum(rate(elasticgpu_journal_records_total[{RATE}]))", "written"),
               (f"sum(rate(elasticgpu_journal_lost_total[{RATE}]))", "lost"))]])


def quota():
    chosen = '{namespace=~"$namespace"}'
    used = f"max by (namespace, quota, resource) (elasticgpu_quota_used{chosen})"
    hard = f"max by (namespace, quota, resource) (elasticgpu_quota_hard{chosen})"
    name = "{{namespace}}/{{quota}} {{resource}}"
    return dashboard("quota", "Quota", "Quotas of namespaces: usage beside the limit.", [
        [panel("Used part of each quota", "percentunit", (f"{used} / {hard}", name), kind="bargauge", max=1, thresholds={0.9: "orange", 1: "red"})],
        [panel("Used part over time", "percentunit", (f"{used} / {hard}", name), thresholds={1: "red"})],
        [panel("Used", "short", (used, name)), panel("Limit", "short", (hard, name))],
        [panel("Memory used by the claims of the namespace", "bytes",
               (f"sum by (namespace) (elasticgpu_claim_memory_used_bytes{chosen})", "{{namespace}} used"),
               (f"sum by (namespace) (elasticgpu_claim_memory_limit_bytes{chosen})", "{{namespace}} granted"))]],
        [variable("namespace", "Namespace", "label_values(elasticgpu_quota_hard, namespace)")])


def wanted():
    """Returns path → text."""
    found = {f"dashboards/{made['uid'].removeprefix('elastic-gpu-')}.json": json.dumps(made, indent=1, ensure_ascii=False) + "\n"
             for made in (capacity(), shares(), queue(), health(), quota())}
    rules = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "elastic-gpu", "namespace": "elastic-gpu-system"},
             "spec": yaml.safe_load((HERE / "rules.yaml").read_text(encoding="utf-8"))}
    found["prometheusrule.yaml"] = "# Written by generate.py from rules.yaml; edit that file.\n" + yaml.safe_dump(rules, sort_keys=False, width=160)
    return found


def main():
    want = wanted()
    have = {name: (HERE / name).read_text(encoding="utf-8") for name in want if (HERE / name).exists()}
    have |= {f"dashboards/{path.name}": "" for path in (HERE / "dashboards").glob("*") if f"dashboards/{path.name}" not in want}
    different = sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))
    if "--check" in sys.argv:
        for name in different:
            print(f"manifests/monitoring/{name} is not current: run manifests/monitoring/generate.py")
        print(f"{len(want)} files, {len(different)} not current")
        return 1 if different else 0
    for name in different:
        if name in want:
            (HERE / name).write_text(want[name], encoding="utf-8")
        else:
            (HERE / name).unlink()
    print(f"{len(different)} of {len(want)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
