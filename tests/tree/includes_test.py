"""Proves that modules include only the modules permitted by the direction of data flow.  includes_test.py SOURCE_DIR

Each module may include itself and the modules in ALLOWED. A module that is not in the table fails: a new folder must first be added to the direction. The
checker checks itself on planted violations, so that it can't pass by finding nothing."""
import os
import re
import sys

# module -> modules it may include directly. Longest prefix wins. `scheduler` has no implicit api/base: it is pure.
COMMON = ["api/v1alpha", "api/core", "controller/base"]
ALLOWED = {
    "api/v1alpha": ["api/core"],
    "api/core": [],
    "api/plugin": [],
    "controller/base": [],
    "controller/codec": COMMON + ["controller/scheduler/request.h"],
    "controller/kube": COMMON + ["controller/codec"],
    "controller/cache": COMMON + ["controller/kube", "controller/scheduler"],
    "controller/allocator": COMMON + ["controller/cache", "controller/scheduler"],
    "controller/workqueue": COMMON,
    "controller/scheduler": ["api/v1alpha", "api/core", "controller/base/status.h"],
    "controller/plugin": COMMON + ["api/plugin"],
    "controller/reconcile": COMMON + ["controller/allocator", "controller/cache", "controller/kube", "controller/codec/patch.h", "controller/codec/claim_spec.h", "controller/codec/scheduling/binding.h", "controller/scheduler",
                                      "controller/workqueue", "controller/plugin"],
    "controller/journal": COMMON + ["controller/allocator", "controller/codec", "controller/scheduler"],
    "controller/billing": COMMON + ["controller/codec/journal_record.h", "controller/codec/json", "controller/journal/reading.h"],
    "controller/http": COMMON,
    "controller/whatif": COMMON + ["controller/http", "controller/allocator", "controller/cache", "controller/codec", "controller/scheduler", "controller/reconcile"],
    "controller/server": COMMON + ["controller/whatif", "controller/http", "controller/allocator", "controller/cache", "controller/codec", "controller/kube",
                                   "controller/scheduler", "controller/reconcile", "controller/billing", "controller/journal/files.h"],
    "controller/kubectl": COMMON + ["controller/server/allocation_map.h", "controller/server/claim_pods.h", "controller/whatif/service.h", "controller/http/http.h",
                                    "controller/allocator", "controller/billing", "controller/cache", "controller/codec", "controller/kube"],
    "controller/standalone/apiserver": COMMON + ["controller/codec", "controller/http"],
    "controller/standalone/sim": COMMON + ["controller/kube", "controller/cache", "controller/codec", "controller/plugin",
                                           "controller/agent/cdi", "controller/agent/prepare"],
    "controller/agent": COMMON + ["controller/kube", "controller/cache", "controller/codec", "controller/plugin"],
    # Layout of the files that the agent shares with the limiter's libraries in containers.
    "controller/agent/limiter": COMMON + ["controller/agent", "controller/kube", "controller/cache", "controller/codec", "controller/plugin",
                                          "provisioners/gpushare/limiter/page.h", "provisioners/gpushare/limiter/host_processes.h"],
    # Records that the agent shares with the program that limits containers through the driver.
    "controller/agent/memory_limits": COMMON + ["controller/agent", "controller/kube", "controller/cache", "controller/codec", "controller/plugin",
                                                "provisioners/gpushare/driver_limits/records.h", "provisioners/gpushare/driver_limits/container.h"],
    # Names that the agent and the plugin give to the sockets of MPS.
    "controller/agent/sharing": COMMON + ["controller/agent", "controller/kube", "controller/cache", "controller/codec", "controller/plugin",
                                          "provisioners/gpushare/mps_namespace.h"],
    "controller/cmd": ["api", "controller"],
    "provisioners": ["api/plugin"],
}
# Libraries that only these modules may include; <json> is any JSON library.
LIBRARY = {
    r"nlohmann/|simdjson": ["controller/codec", "controller/kubectl", "controller/whatif", "controller/standalone/apiserver", "provisioners/remote"],
    r"spdlog/": ["controller/base"],
    r"curl/": ["controller/kube", "provisioners/remote"],
    r"httplib\.h": ["controller/http"],
    r"sqlite3\.h": ["controller/standalone/apiserver"],
    r"prometheus/": ["controller/server"],
    r"CLI/": ["controller/cmd"],
    r"grpc|google/protobuf/": ["controller/agent/dra"],
    r"seccomp\.h": ["controller/plugin/host"],
    r"yaml-cpp/": ["controller/codec", "controller/kube/config", "controller/standalone/sim", "provisioners/nvidia"],
}
IMPURE = re.compile(r"<(thread|mutex|shared_mutex|condition_variable|atomic|chrono|random|iostream|fstream|ctime|filesystem|future)>")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def module_of(path):
    best = ""
    for m in ALLOWED:
        if (path == m or path.startswith(m + "/")) and len(m) > len(best):
            best = m
    return best


def within(path, prefixes):
    return any(path == p or path.startswith(p + "/") for p in prefixes)


def check(path, text):
    """Returns the violations of one file, as lines."""
    module = module_of(path)
    if not module:
        return [f"{path}: its folder is in no module of tests/tree/includes_test.py"]
    found = []
    for kind, name in INCLUDE.findall(text):
        if kind == '"':
            if not within(name, ["api", "controller", "provisioners"]):
                if module == "provisioners" and not name.startswith("."):
                    continue  # a plugin's own headers beside its sources
                found.append(f'{path}: "{name}" is not rooted at the repository')
            elif not within(name, [module] + ALLOWED[module]):
                found.append(f"{path}: {module} may not include {name}")
        else:
            for pattern, where in LIBRARY.items():
                if re.match(pattern, name) and not within(path, where):
                    found.append(f"{path}: <{name}> belongs to {', '.join(where)}")
            if module == "controller/scheduler" and IMPURE.match(f"<{name}>"):
                found.append(f"{path}: the scheduler is pure, <{name}> is not")
            if module.startswith("api/") and "/" in name and not name.startswith("sys/"):
                found.append(f"{path}: api/ is standard library only, not <{name}>")
    return found


def self_check():
    planted = [
        ("controller/scheduler/x.cpp", '#include "controller/kube/client.h"\n'),
        ("controller/scheduler/x.cpp", "#include <mutex>\n"),
        ("controller/scheduler/x.cpp", '#include "controller/base/clock.h"\n'),
        ("controller/standalone/apiserver/x.cpp", '#include "controller/kube/client.h"\n'),
        ("controller/reconcile/x.cpp", "#include <nlohmann/json.hpp>\n"),
        ("controller/reconcile/x.cpp", '#include "controller/codec/codec.h"\n'),
        ("provisioners/x/x.cpp", '#include "controller/base/status.h"\n'),
        ("controller/cache/x.h", '#include "controller/allocator/allocator.h"\n'),
        ("api/core/x.h", '#include "api/v1alpha/types.h"\n'),
        ("controller/newcomer/x.cpp", ""),
    ]
    for path, text in planted:
        if not check(path, text):
            sys.exit(f"includes_test: a planted violation was not seen: {path}: {text!r}")


def main(root):
    self_check()
    files = 0
    found = []
    for top in ("api", "controller", "provisioners"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for n in names:
                if n.endswith((".h", ".hpp", ".cpp", ".c")):
                    path = os.path.relpath(os.path.join(folder, n), root)
                    with open(os.path.join(folder, n), encoding="utf-8") as f:
                        found += check(path, f.read())
                    files += 1
    print("\n".join(found))
    print(f"{files} files, {len(found)} violations")
    sys.exit(1 if found or files < 20 else 0)


main(sys.argv[1])
