"""Generates the stubs of a stand-in from its table of exports.

  generate.py EXPORTS LIMITED PREFIX FOLDER [VERSIONS]

EXPORTS   table whose first column is the name of an export
LIMITED   text file with the name of a limited function per line; '#' begins a comment
PREFIX    cuda or nvml, begins the names of the generated files
FOLDER    receives PREFIX_stubs.S, PREFIX_exports.h (an index per export), PREFIX_exports.c and PREFIX.map, and with
VERSIONS  (tables/cuda_versions.tsv) cuda_versions.inc, the newest version of each limited name

The function that replaces an export NAME is limited_NAME."""
import os
import sys

# Saves the registers that contain arguments, asks egpuResolve, and jumps to its answer. The stack is aligned to 16
# bytes at the call: return address, index, seven registers, and 136 bytes.
RESOLVER = """
resolveFirst:
  pushq %rax; pushq %rdi; pushq %rsi; pushq %rdx; pushq %rcx; pushq %r8; pushq %r9
  movq 56(%rsp), %rdi
  subq $136, %rsp
  movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)
  call egpuResolve
  movq %rax, %r11
  movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7
  addq $136, %rsp
  popq %r9; popq %r8; popq %rcx; popq %rdx; popq %rsi; popq %rdi; popq %rax
  addq $8, %rsp
  jmp *%r11
"""


def lines(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            if text := line.split("#")[0].strip():
                yield text


def stubs(names):
    out = [".text"]
    for i, name in enumerate(names):
        out.append(f".globl {name}\n.type {name}, @function\n.p2align 4\n{name}: jmp *egpuSlots+{8 * i}(%rip)\n.size {name}, .-{name}")
    for i in range(len(names)):
        out.append(f"first{i}: pushq ${i}\n  jmp resolveFirst")
    out.append(RESOLVER)
    out.append('.section .data.rel.ro, "aw"\n.p2align 3\n.globl egpuStubs\n.hidden egpuStubs\negpuStubs:')
    out += [f"  .quad {name}" for name in names]
    out.append(".data\n.p2align 6\n.globl egpuSlots\n.hidden egpuSlots\negpuSlots:")
    out += [f"  .quad first{i}" for i in range(len(names))]
    out.append('.section .note.GNU-stack, "", @progbits')
    return "\n".join(out) + "\n"


def exports_source(names, limited, prefix):
    out = [f'#include "provisioners/gpushare/limiter/forward.h"\n#include "{prefix}_exports.h"\n']
    out += [f"extern int limited_{name}(void) EGPU_HIDDEN;" for name in names if name in limited]
    out.append("const struct Export kExports[] = {")
    out += [f'  {{"{name}", {f"(void*)limited_{name}" if name in limited else "0"}}},' for name in names]
    out.append(f"}};\nconst unsigned kExportCount = {len(names)};\nvoid* egpuReal[{len(names)}] EGPU_HIDDEN;\n")
    return "\n".join(out)


def versions_source(path, limited):
    """The newest version of each name with a limited symbol, as EGPU_VERSION("name", version)."""
    newest = {}
    for line in lines(path):
        name, _, version, symbol = line.split("\t")
        if symbol in limited:
            newest[name] = max(newest.get(name, 0), int(version))
    return "".join(f'EGPU_VERSION("{name}", {version})\n' for name, version in sorted(newest.items()))


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def main(exports, limited_file, prefix, folder, versions=None):
    names = sorted(line.split("\t")[0] for line in lines(exports))
    limited = set(lines(limited_file))
    if unknown := limited - set(names):
        sys.exit(f"generate.py: {limited_file} names functions that {exports} lacks: {', '.join(sorted(unknown))}")
    write(folder, f"{prefix}_stubs.S", stubs(names))
    header = "enum {\n" + "".join(f"  kExport_{name} = {i},\n" for i, name in enumerate(names)) + "};\n"
    write(folder, f"{prefix}_exports.h", header)
    write(folder, f"{prefix}_exports.c", exports_source(names, limited, prefix))
    write(folder, f"{prefix}.map", "{ global: " + "; ".join(names) + "; local: *; };\n")
    if versions:
        write(folder, "cuda_versions.inc", versions_source(versions, limited))


if __name__ == "__main__":
    main(*sys.argv[1:])
