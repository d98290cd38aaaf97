"""Generates the exports of NVML that the fake does not implement: they return NVML_ERROR_NOT_SUPPORTED, as for a sensor that a card lacks.

  generate.py EXPORTS OUTPUT

EXPORTS: provisioners/gpushare/limiter/tables/nvml_exports.tsv"""
import sys

NOT_SUPPORTED = 3


def main(exports, output):
    with open(exports, encoding="ascii") as file:
        names = [line.split("\t")[0] for line in file if line.strip() and not line.startswith("#")]
    with open(output, "w", encoding="ascii") as file:
        file.write('extern "C" {\n')
        for name in names:
            file.write(f'__attribute__((weak, visibility("default"))) int {name}() {{ return {NOT_SUPPORTED}; }}\n')
        file.write("}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
