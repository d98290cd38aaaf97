#!/bin/sh
# driver_limits_symbols.sh OBJDUMP PROGRAM: the program runs on hosts of any distribution, so it may need only libraries
# that each of them has, and no symbol after glibc 2.34.
set -eu
symbols=$("$1" -T "$2" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV)
[ -n "$symbols" ] || { echo "no symbols of glibc found in $2"; exit 1; }
newest=$(echo "$symbols" | tail -n 1)
[ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.34 ] || { echo "needs $newest"; exit 1; }
others=$("$1" -p "$2" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux.*)$' || true)
[ -z "$others" ] || { echo "needs $others"; exit 1; }
