"""Generates sources of the fake libcuda.so.1 and of the tests from the limiter's tables.

  generate.py TABLES LIMITED FOLDER

Writes into FOLDER:
  fake_defaults.S         a weak function for each export, which returns CUDA_ERROR_NOT_SUPPORTED
  fake_versions.inc       EGPU_ROW("name", per thread, version, symbol) for each row of the version table
  limited_names.inc       EGPU_LIMITED_NAME("name") for each limited function
  echo_<driver>.S         a library with exactly the exports of a driver. Each stores its arguments in egpuEchoed and
                          returns 1000 + its place in the table
  echo_names.inc          EGPU_ECHO("name", place, "drivers")"""
import os
import sys

DRIVERS = ("470", "535", "550", "555", "580", "cuda13")


def rows(path):
    with open(path, encoding="ascii") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)


def echo(names, places):
    out = [".text"]
    for name in names:
        out.append(f".globl {name}\n.type {name}, @function\n{name}: movl ${1000 + places[name]}, %eax\n  jmp store")
    out.append("store:")
    for i, register in enumerate(("rdi", "rsi", "rdx", "rcx", "r8", "r9")):
        out.append(f"  movq %{register}, egpuEchoed+{8 * i}(%rip)")
    out.append("  movq 8(%rsp), %r11\n  movq %r11, egpuEchoed+48(%rip)\n  movsd %xmm0, egpuEchoed+56(%rip)\n  ret")
    out.append(".bss\n.globl egpuEchoed\n.hidden egpuEchoed\n.balign 8\negpuEchoed: .space 64")
    out.append(".text\n.globl egpuEcho\n.type egpuEcho, @function\negpuEcho: leaq egpuEchoed(%rip), %rax\n  ret")
    out.append('.section .note.GNU-stack, "", @progbits')
    return "\n".join(out) + "\n"


def has(row, driver):
    """True if a driver has an export. CUDA 13.5 has all."""
    return driver == "cuda13" or driver in row[2].split(",")


def main(tables, limited, folder):
    exports = rows(os.path.join(tables, "cuda_exports.tsv"))
    places = {row[0]: i for i, row in enumerate(exports)}
    defaults = [".text"] + [f".weak {row[0]}\n.type {row[0]}, @function\n{row[0]}: movl $801, %eax\n  ret" for row in exports]
    write(folder, "fake_defaults.S", "\n".join(defaults) + '\n.section .note.GNU-stack, "", @progbits\n')
    versions = rows(os.path.join(tables, "cuda_versions.tsv"))
    write(folder, "fake_versions.inc", "".join(f'EGPU_ROW("{n}", {t}, {v}, {s})\n' for n, t, v, s in versions))
    with open(limited, encoding="ascii") as file:
        names = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    write(folder, "limited_names.inc", "".join(f'EGPU_LIMITED_NAME("{name}")\n' for name in names))
    for driver in DRIVERS:
        write(folder, f"echo_{driver}.S", echo([row[0] for row in exports if has(row, driver)], places))
    write(folder, "echo_names.inc", "".join(
        f'EGPU_ECHO("{row[0]}", {i}, "{" ".join(d for d in DRIVERS if has(row, d))}")\n' for i, row in enumerate(exports)))


if __name__ == "__main__":
    main(*sys.argv[1:])
