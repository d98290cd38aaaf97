"""Proves that documents agree with the tree: links resolve, the pages of manifests/guide are short, and each command, flag, metric, key, condition and
sample in them exists.  documents_test.py SOURCE_DIR

Commands are not run here: each is compared with the programs' flags, the kinds, the files and the subcommands that it names."""
import os
import re
import shlex
import sys

import yaml

root = os.path.realpath(sys.argv[1])
GUIDE = "manifests/guide"
MAX_WORDS = 900  # per page of the guide
MAX_INDEX_WORDS = 600
bad, counted = [], {"links": 0, "commands": 0, "names": 0, "samples": 0}


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def files(*suffixes, below=()):
    for top in below or sorted(os.listdir(root)):
        if top in ("build", "shared") or top.startswith("."):
            continue
        at = os.path.join(root, top)
        for folder, folders, names in os.walk(at) if os.path.isdir(at) else [(root, [], [top])]:
            folders[:] = [each for each in folders if each != "__pycache__"]
            yield from (os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(suffixes))


def sections(text):
    """Yields (language, line, lines) of each fenced block."""
    block, begin, language = None, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            if block is None:
                block, begin, language = [], number, line.strip("` ")
            else:
                yield language, begin, block
                block = None
        elif block is not None:
            block.append(line)


def without_blocks(text):
    prose_lines, inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        prose_lines.append("" if inside or line.lstrip().startswith("```") else line)
    return prose_lines


def anchors(text):
    """Yields the anchors of the headings, as GitHub generates them."""
    for line in without_blocks(text):
        if m := re.match(r"#+ (.*)", line):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", m.group(1)).replace("`", "")
            yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Links and paths.
documents = sorted(files(".md"))
for path in documents:
    for number, line in enumerate(without_blocks(read(path)), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            counted["links"] += 1
            file, _, anchor = target.partition("#")
            found = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(os.path.join(root, found)):
                bad.append(f"{path}:{number}: {target} leads nowhere")
            elif anchor and anchor not in set(anchors(read(found))):
                bad.append(f"{path}:{number}: {found} has no heading #{anchor}")
for path in files(".md", ".yaml", ".h", ".cpp", ".py", ".txt", ".sh", "Makefile", "Containerfile"):
    for name in re.findall(r"\bmanifests/guide/[a-z-]+\.md|\bmanifests/README\.md", read(path)):
        counted["links"] += 1
        if not os.path.exists(os.path.join(root, name)):
            bad.append(f"{path}: there is no {name}")

for path in documents:
    for number, line in enumerate(without_blocks(read(path)), 1):
        for file in re.findall(r"`((?:api|bench|controller|provisioners|tests|manifests)/[\w./-]*)`", line):
            counted["links"] += 1
            if not os.path.exists(os.path.join(root, file)):
                bad.append(f"{path}:{number}: there is no {file}")

# Source files that documents quote and comments name, by the end of their path: `scheduler/explain.h`.
endings = set()
for file in files(".h", ".hpp", ".c", ".cpp", ".inc", ".proto"):
    parts = file.split(os.sep)
    endings.update("/".join(parts[begin:]) for begin in range(len(parts)))
FOREIGN_FILES = {"cuda.h", "cudaTypedefs.h", "nvml.h", "OpenAPIv2.proto", "hello.cpp"}  # files of other projects, and examples


def source_files(path, number, text):
    for file in re.findall(r"(?<![\w./<>-])((?:\.\./)*(?:[\w-]+/)*[a-zA-Z]\w*\.(?:h|hpp|cpp|proto))\b(?![\w*])", text):
        file = file.replace("../", "")
        counted["links"] += 1
        if file not in endings | FOREIGN_FILES and not file.startswith(("sys/", "linux/")):
            bad.append(f"{path}:{number}: there is no source file {file}")


for path in documents:
    for number, line in enumerate(without_blocks(read(path)), 1):
        for quoted in re.findall(r"`([^`]+)`", line):
            source_files(path, number, quoted)
for path in files(".h", ".hpp", ".cpp", below=("api", "controller", "provisioners", "tests", "bench")):
    for number, line in enumerate(read(path).splitlines(), 1):
        if (at := re.search(r"(?:^|\s)//", line)) and "#include" not in line:
            source_files(path, number, line[at.end():])

# Lengths, and the index.
pages = sorted(each for each in documents if each.startswith(GUIDE + "/"))
for path, limit in [(each, MAX_WORDS) for each in pages] + [("manifests/README.md", MAX_INDEX_WORDS)]:
    words = len(read(path).split())
    if words > limit:
        bad.append(f"{path}: {words} words; at most {limit}")
for path in pages:
    # A folder has its own index, which manifests/README.md names.
    folder, name = os.path.split(os.path.relpath(path, GUIDE))
    in_folder = folder and name != "index.md"
    where = f"{GUIDE}/{folder}/index.md" if in_folder else "manifests/README.md"
    target = name if in_folder else os.path.join("guide", folder, name)
    if f"]({target})" not in read(where):
        bad.append(f"{where} does not name {path}")

# Known names.
sources = {each: read(each) for each in files(".h", ".cpp", ".c", ".inc", below=("api", "controller", "provisioners"))}
code = "\n".join(sources.values())
installed = "\n".join(read(each) for each in files(".yaml", "Kustomization", below=("manifests",)))
metrics = set(re.findall(r'"(elasticgpu_\w+)"', code))
flags = set(re.findall(r'"(?:-\w,)?(--[a-z-]+)', code))
commands = set(re.findall(r'add_subcommand\("(\w+)"|addQuestion\(\w+, "(\w+)"', code))
commands = {each for pair in commands for each in pair if each} | set(re.findall(r'^\| `([a-z, `]+)` \|', read("controller/cmd/README.md"), re.M))
commands = {each.strip(" `") for several in commands for each in several.split(",")}
egpu_verbs = set(re.findall(r'(?:addVerb\(app, |add_subcommand\()"([a-z-]+)"', read("controller/cmd/kubectl/main.cpp")))
kinds = {}
for name in sorted(os.listdir(os.path.join(root, "manifests/crd"))):
    if name.startswith("elasticgpu.io_"):
        crd = yaml.safe_load(read(f"manifests/crd/{name}"))["spec"]
        schema = next(each["schema"]["openAPIV3Schema"] for each in crd["versions"] if each["name"] == "v1alpha")
        kinds[crd["names"]["kind"]] = schema
        for each in (crd["names"]["plural"], *crd["names"].get("shortNames", [])):
            kinds[each] = schema
BUILTIN = {"lease", "node", "nodes", "pod", "pods", "namespace", "deployment", "daemonset", "events", "configmap"}
# Flags of Kubernetes' own programs and of other tools.
FOREIGN_FLAGS = {"--build-arg", "--dry-run", "--runtime-config", "--authorization-config", "--root-dir", "--gpu-reset", "--set", "--force-conflicts", "--bump-revision",
                 "--mark-compacted", "--install", "--gpu-memory-utilization"}
# Words of other systems and of Kubernetes that are not identifiers of this tree.
FOREIGN_WORDS = {"AuthorizeWithSelectors", "GenericWorkload", "ResourceHealthStatus", "DeviceTaintRules", "SchedulingGated", "ContainerCreating"}
VERBS = {"annotate", "apply", "auth", "cp", "create", "debug", "delete", "describe", "drain", "get", "kustomize", "label", "logs", "patch", "port-forward", "rollout", "uncordon", "wait"}


def is_key(key):
    """Returns true if the sources or the manifests contain this label, annotation, finalizer or resource; for a resource, its last part suffices."""
    return re.search(re.escape(key) + r"(?![\w-])", code + installed) or f'"{key.split("/")[1]}"' in code


def names(path, number, text):
    """Checks metrics, flags, keys and CamelCase words in backticks."""
    for quoted in re.findall(r"`([^`]+)`", text):
        for metric in re.findall(r"\belasticgpu_\w+", quoted):
            counted["names"] += 1
            if metric not in metrics:
                bad.append(f"{path}:{number}: there is no metric {metric}")
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", quoted):
            counted["names"] += 1
            if flag not in flags | FOREIGN_FLAGS and not quoted.startswith("kubectl"):
                bad.append(f"{path}:{number}: there is no flag {flag}")
        for key in re.findall(r"\b((?:[a-z]+\.)?elasticgpu\.io/[a-z][a-z-]*[a-z])", quoted):
            counted["names"] += 1
            if not is_key(key):
                bad.append(f"{path}:{number}: {key} stands neither in the sources nor in the manifests")
        if re.fullmatch(r"[A-Z][a-z]+[A-Za-z0-9]*", quoted) and quoted not in FOREIGN_WORDS:
            counted["names"] += 1
            if not re.search(rf"\b{quoted}\b", code + installed) and not (quoted.startswith("Xid") and '"Xid' in code):
                bad.append(f"{path}:{number}: {quoted} stands neither in the sources nor in the manifests")


def command(path, number, words):
    """Checks a command of the project's programs, kubectl or make."""
    counted["commands"] += 1
    program, rest = words[0], words[1:]
    where = f"{path}:{number}: {' '.join(words)[:80]}"
    if program == "make":
        for target in rest:
            if "=" not in target and not re.search(rf"^{target}\b.*:", read("Makefile"), re.M):
                bad.append(f"{where}: there is no target {target}")
        return
    plain = [each for each in rest if not each.startswith("-")]
    for flag in (each.split("=")[0] for each in rest if each.startswith("--")):
        if program.startswith("elastic-gpu-") and flag not in flags:
            bad.append(f"{where}: there is no flag {flag}")
    if program == "elastic-gpu-controller" and plain[0] not in commands:
        bad.append(f"{where}: there is no command {plain[0]}")
    if program != "kubectl":
        return
    skip = {rest[i + 1] for i, each in enumerate(rest[:-1]) if each in ("-n", "-l", "-f", "-k", "-o", "--type", "--field-selector", "-p")}
    plain = [each for each in plain if each not in skip]
    if plain[0] == "egpu":
        for flag in (each.split("=")[0] for each in rest if each.startswith("--")):
            if flag not in flags:
                bad.append(f"{where}: there is no flag {flag}")
        if len(plain) > 1 and plain[1] not in egpu_verbs | {"completion"}:
            bad.append(f"{where}: kubectl egpu has no verb {' '.join(plain[1:2])}")
        return
    if plain[0] not in VERBS:
        bad.append(f"{where}: kubectl has no command {plain[0]}, or the test does not know it")
    for option, file in zip(rest, rest[1:]):
        if option in ("-f", "-k") and file.startswith("manifests"):
            found = os.path.join(root, file)
            whole = any(os.path.exists(os.path.join(found, each)) for each in ("Kustomization", "kustomization.yaml"))
            if not (os.path.isfile(found) if option == "-f" and not file.endswith("/") else whole):
                bad.append(f"{where}: {file} can't be applied by {option}")
    if plain[0] in ("get", "describe", "delete", "label", "annotate", "patch", "wait") and len(plain) > 1:
        for kind in plain[1].split(","):
            if kind not in kinds and kind not in BUILTIN:
                bad.append(f"{where}: there is no kind {kind}")
    if plain[0] in ("patch", "annotate", "label"):
        for key in re.findall(r"\b[a-z.]*elasticgpu\.io/[a-z-]*[a-z]", " ".join(rest)):
            if not is_key(key):
                bad.append(f"{where}: there is no key {key}")


def fields(where, schema, value):
    """Reports fields of the sample that its CRD does not have."""
    if isinstance(value, list):
        for each in value:
            fields(where, schema.get("items", {}), each)
    elif isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            if key not in schema["properties"]:
                bad.append(f"{where}: the CRD has no field {key}")
            elif key != "metadata":
                fields(where, schema["properties"][key], inner)


def sample(path, number, text):
    try:
        objects = list(yaml.safe_load_all(text))
    except yaml.YAMLError as e:
        bad.append(f"{path}:{number}: {e}")
        return
    for each in objects:
        counted["samples"] += 1
        if str(each.get("apiVersion", "")).startswith("elasticgpu.io/"):
            fields(f"{path}:{number}", kinds[each["kind"]], each)
        if each.get("kind") == "ResourceClaimTemplate":
            for config in each["spec"]["spec"]["devices"]["config"]:
                fields(f"{path}:{number}", kinds["ElasticGPUClaim"]["properties"]["spec"], config["opaque"]["parameters"])
        for key in (each.get("metadata", {}).get("annotations") or {}):
            names(path, number, f"`{key}`")


for path in pages + ["manifests/README.md"]:
    text = read(path)
    for number, line in enumerate(without_blocks(text), 1):
        names(path, number, line)
        for quoted in re.findall(r"`((?:kubectl|elastic-gpu-controller) [^`]+)`", line):
            command(path, number, shlex.split(quoted))
        for file in re.findall(r"`((?:samples|overlays|admission|migrate|deploy|rbac|crd|extender)/[\w./-]*)`", line):
            if not os.path.exists(os.path.join(root, "manifests", file)):
                bad.append(f"{path}:{number}: there is no manifests/{file}")
    for language, number, block in sections(text):
        if language == "yaml":
            sample(path, number, "\n".join(block))
        elif language == "sh":
            for offset, line in enumerate(block, 1):
                if words := shlex.split(re.sub(r"\$\(.*\)", "VALUE", line), comments=True):
                    command(path, number + offset, words)
                for inner in re.findall(r"\$\((kubectl [^$()]*)", line):
                    command(path, number + offset, shlex.split(inner))
        elif language == "promql":
            names(path, number, "`" + " ".join(block) + "`")

# Constants, classes and functions that CONTRIBUTING.md names.
for number, line in enumerate(without_blocks(read("CONTRIBUTING.md")), 1):
    for symbol in re.findall(r"`(?:\w+::)?(k[A-Z]\w+|[a-z]+[A-Z]\w+)`", line):
        counted["names"] += 1
        if not re.search(rf"\b{symbol}\b", code + installed):
            bad.append(f"CONTRIBUTING.md:{number}: {symbol} does not stand in the sources")

for each in bad:
    print(each)
print(f"{len(documents)} documents, {len(pages)} pages, " + ", ".join(f"{n} {what}" for what, n in counted.items()) + f", {len(bad)} wrong")
sys.exit(1 if bad or len(pages) < 10 or min(counted.values()) < 5 else 0)
