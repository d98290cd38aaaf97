#!/usr/bin/env python3
"""Replays an openb trace with departures under several policies and loads, and prints how long pods wait.

churn_table.py BIN_DIR [--data DIR] [--seeds 42,43] [--loads 0.9,1.0,1.1] [--policies fragmentation,...] [--reserve-after S]

DIR: as openb_table.py's. A policy may carry options: fragmentation+moves, fragmentation+preempt+moves. Waits are
minutes, mean / 99th percentile (% starved). Standard library only.
"""
import argparse
import json
import os
import subprocess
import sys

POLICIES = ("fragmentation", "fgd", "bestfit", "binpack", "spread")
SIZES = ("cpu", "share", "1", "2", "4", "8")


def replay(binary, data, seed, policy, load, options):
    policy, *more = policy.split("+")
    options = [*options, *(f"--{each}" for each in more)]
    command = [binary, "--nodes", f"{data}/nodes.csv", "--pods", f"{data}/pods_default.csv",
               "--order", f"{data}/orders/default_{seed}", "--policy", policy, "--departures", "--load", load, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def row(runs):
    """Formats the waits of one policy at one load, as means over the runs."""
    cells = []
    for size in SIZES:
        waits = [run["waits"][size] for run in runs]
        starved = 100 * sum(of["starved"] for of in waits) / max(1, sum(of["pods"] for of in waits))
        cells.append(f"{mean(of['mean'] for of in waits) / 60:.0f}/{mean(of['p99'] for of in waits) / 60:.0f} ({starved:.0f})")
    first, last = (mean(run["hourly"][hour] for run in runs) for hour in (0, -1))
    return (f"{mean(run['offered'] for run in runs):8.2f} {mean(run['allocated'] for run in runs):10.2f} "
            f"{first:6.1f} {last:6.1f} {mean(run['lost'] for run in runs):5.2f} {mean(run['evicted'] + run['moved'] for run in runs):6.0f} " + " ".join(f"{cell:>16}" for cell in cells))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--data", default=os.environ.get("EGPU_OPENB") or os.path.join(here, "..", "..", "shared", "openb"))
    parser.add_argument("--seeds", default="42,43,44,45,46")
    parser.add_argument("--loads", default="0.9,1.0,1.1")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--reserve-after", help="seconds, or never; else as the program has it")
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.data, "nodes.csv")):
        print(f"openb: no traces in {args.data} (nodes.csv, pods_*.csv, orders/): skipped. Name their folder in EGPU_OPENB.")
        return
    options = ["--reserve-after", args.reserve_after] if args.reserve_after else []
    print(f"Waits in minutes, mean/p99 (% starved), by size; allocated % of the cards over all, and in the first and the last hour; "
          f"work lost, % of the cards' time, by pods begun anew; "
          f"means of orders {args.seeds}\n")
    print(f"{'load':>4} {'policy':<28} {'offered':>8} {'allocated':>10} {'first':>6} {'last':>6} {'lost':>5} {'begun':>6} "
          + " ".join(f"{size:>16}" for size in SIZES))
    for load in args.loads.split(","):
        for policy in args.policies.split(","):
            runs = [replay(os.path.join(args.bin_dir, "openb"), args.data, seed, policy, load, options)
                    for seed in args.seeds.split(",")]
            print(f"{load:>4} {policy:<28} {row(runs)}", flush=True)


if __name__ == "__main__":
    main()
