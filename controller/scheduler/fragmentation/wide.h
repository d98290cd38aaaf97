// EGPU_WIDE before a function: it is compiled for AVX2 as well, and the processor chooses when the program starts.
// Results are the same bit for bit: the lanes and the order of additions are fixed by the code, and AVX2 alone brings
// no fused multiply-add. Left out where the loader can't choose (no glibc) or sanitizers would run before they are set
// up.
#pragma once

#include <cstdlib>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define EGPU_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define EGPU_WIDE
#endif
