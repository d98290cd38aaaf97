/* Graphs: priced at instantiation by their kernels, charged at their launch. Any thread. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_GRAPHS_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_CUDA_GRAPHS_H

#include "provisioners/gpushare/limiter/forward.h"

/** After a fork. */
void graphsForgetAll(void) EGPU_HIDDEN;

#endif
