#!/usr/bin/env python3
"""Replays every openb trace under several policies and prints the table, next to the published figures.

openb_table.py BIN_DIR [--data DIR] [--seeds 42,43] [--traces default,...] [--picture FILE.svg]

DIR holds nodes.csv, pods_TRACE.csv and orders/TRACE_SEED; by default $EGPU_OPENB, else ../shared/openb beside the
source tree. --picture writes allocated % over arrived % of the first trace and seed. Standard library only.
"""
import argparse
import json
import os
import subprocess
import sys

# Means of ten seeds, allocated % at arrived 100 / 130 (Weng et al., USENIX ATC '23, published with its simulator).
PUBLISHED = {
    "default": ("86.3/87.5", "90.6/90.9", "91.7/91.9", "91.8/92.0", "92.86/93.08", "95.23/95.39"),
    "cpu100": ("87.4/89.1", "91.7/92.0", "92.4/92.6", "92.5/92.7", "93.3/93.4", "95.21/95.35"),
    "gpushare40": ("84.9/86.0", "89.3/89.6", "89.8/90.0", "89.8/90.0", "91.4/91.7", "93.96/94.15"),
    "gpushare100": ("78.9/79.4", "82.0/82.4", "82.2/82.7", "82.1/82.6", "84.6/85.0", "86.64/86.90"),
    "gpuspec33": ("83.9/86.5", "79.8/89.1", "81.1/92.1", "82.2/93.2", "80.4/93.1", "87.84/94.55"),
    "multigpu20": ("86.9/88.7", "91.9/92.1", "93.3/93.6", "93.5/93.7", "93.7/93.9", "95.53/95.65"),
    "multigpu50": ("81.3/90.3", "94.7/94.9", "95.7/95.8", "96.1/96.2", "95.6/95.7", "97.09/97.18"),
}
PUBLISHED_NAMES = ("Random", "DotProd", "Clustering", "Packing", "BestFit", "FGD")
# Name in the table, policy and further options of each run.
RUNS = (
    ("fragmentation", "fragmentation", []),
    ("fragmentation, trace's classes", "fragmentation", ["--classes", "trace"]),
    ("fgd", "fgd", []),
    ("binpack", "binpack", []),
    ("compact-first", "compact-first", []),
    ("spread", "spread", []),
)
COLOURS = {"fragmentation": "#0a6e31", "fgd": "#c2410c", "binpack": "#1d4ed8", "compact-first": "#7e22ce",
           "spread": "#6b7280"}
SIZES = ("cpu", "share", "1", "2", "4", "8")


def replay(binary, data, trace, seed, policy, options):
    command = [binary, "--nodes", f"{data}/nodes.csv", "--pods", f"{data}/pods_{trace}.csv",
               "--order", f"{data}/orders/{trace}_{seed}", "--policy", policy, "--curve", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")


def table(results, traces, seeds):
    seed_names = ", ".join(map(str, seeds))
    print(f"\nAllocated % at arrived 95 / 100 / 130, arrived % at the first failure, failures by size; means of seeds {seed_names}\n")
    print(f"{'trace':<12} {'policy':<31} {'at 95':>7} {'at 100':>7} {'at 130':>7} {'first':>6}  "
          + " ".join(f"{size:>6}" for size in SIZES) + f" {'decisions/s':>12}")
    for trace in traces:
        for name, _, _ in RUNS:
            runs = results[trace, name]
            points = " ".join(f"{mean([run[key] for run in runs]):7.2f}" for key in ("alloc95", "alloc100", "alloc130"))
            failed = " ".join(f"{mean([run['failed'][size] for run in runs]):6.1f}" for size in SIZES)
            speed = sorted(run["decisions_per_s"] for run in runs)[len(runs) // 2]
            first = mean([run["first_failure"] for run in runs])
            print(f"{trace:<12} {name:<31} {points} {first:6.1f}  {failed} {speed:12,}")
    print("\nPublished, means of ten seeds, allocated % at arrived 100 / 130\n")
    print(f"{'trace':<12} " + " ".join(f"{name:>12}" for name in PUBLISHED_NAMES))
    for trace in traces:
        if trace in PUBLISHED:
            print(f"{trace:<12} " + " ".join(f"{figure:>12}" for figure in PUBLISHED[trace]))


def picture(curves, title):
    """Draws allocated % over arrived %, 80 … 130. Below 80 nearly everything fits under every policy."""
    width, height, left, top, right, bottom = 760, 440, 56, 44, 170, 48
    x0, x1, y0, y1 = 80, 130, 78, 98
    inner_width, inner_height = width - left - right, height - top - bottom

    def x_of(x):
        return left + (x - x0) / (x1 - x0) * inner_width

    def y_of(y):
        return top + (y1 - y) / (y1 - y0) * inner_height

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{left}" y="24" font-size="15" fill="#111827">{title}</text>']
    for y in range(y0, y1 + 1, 4):
        out.append(f'<line x1="{left}" y1="{y_of(y):.1f}" x2="{left + inner_width}" y2="{y_of(y):.1f}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{left - 8}" y="{y_of(y) + 4:.1f}" text-anchor="end" fill="#374151">{y}</text>')
    for x in range(x0, x1 + 1, 10):
        out.append(f'<line x1="{x_of(x):.1f}" y1="{top}" x2="{x_of(x):.1f}" y2="{top + inner_height}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{x_of(x):.1f}" y="{top + inner_height + 18}" text-anchor="middle" fill="#374151">{x}</text>')
    out.append(f'<text x="{left + inner_width / 2:.0f}" y="{height - 10}" text-anchor="middle" fill="#111827">'
               'arrived, % of all cards</text>')
    middle = top + inner_height / 2
    out.append(f'<text x="16" y="{middle:.0f}" text-anchor="middle" fill="#111827" '
               f'transform="rotate(-90 16 {middle:.0f})">allocated, % of all cards</text>')
    out.append(f'<line x1="{x_of(x0):.1f}" y1="{y_of(x0):.1f}" x2="{x_of(y1):.1f}" y2="{y_of(y1):.1f}" '
               'stroke="#9ca3af" stroke-dasharray="4 4"/>')
    out.append(f'<text x="{x_of(92):.1f}" y="{y_of(95.2):.1f}" text-anchor="end" fill="#6b7280">everything fits</text>')
    labels = []
    for name, curve in curves.items():
        points = [(x, curve[x]) for x in range(x0, x1 + 1) if curve[x] is not None and y0 <= curve[x] <= y1]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        labels.append([y_of(points[-1][1]), name, points[-1][1]])
    labels.sort()
    for i in range(1, len(labels)):  # keeps labels from overlapping
        labels[i][0] = max(labels[i][0], labels[i - 1][0] + 16)
    for y, name, last in labels:
        out.append(f'<text x="{left + inner_width + 8}" y="{y + 4:.1f}" fill="{COLOURS[name]}">{name} {last:.1f}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--data", default=os.environ.get("EGPU_OPENB") or os.path.join(here, "..", "..", "shared", "openb"))
    parser.add_argument("--seeds", default="42,43,44,45,46")
    parser.add_argument("--traces", default=",".join(PUBLISHED))
    parser.add_argument("--picture")
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.data, "nodes.csv")):
        print(f"openb: no traces in {args.data} (nodes.csv, pods_*.csv, orders/): skipped. Name their folder in EGPU_OPENB.")
        return
    traces, seeds = args.traces.split(","), [int(seed) for seed in args.seeds.split(",")]
    results = {(trace, name): [replay(os.path.join(args.bin_dir, "openb"), args.data, trace, seed, policy, options)
                               for seed in seeds]
               for trace in traces for name, policy, options in RUNS}
    table(results, traces, seeds)
    if args.picture:
        curves = {name: results[traces[0], name][0]["curve"] for name in COLOURS}
        with open(args.picture, "w", encoding="utf-8") as svg:
            svg.write(picture(curves, f"openb, trace {traces[0]}, order {seeds[0]}"))
        print(f"\nwrote {args.picture}")


if __name__ == "__main__":
    main()
