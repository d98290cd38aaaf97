#include "provisioners/gpushare/limiter/cuda/captures.h"

#include "provisioners/gpushare/limiter/old_libc.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

enum { kModeRelaxed = 2, kNoMode = -1 };

/// Atomic: a capture has begun since the start. Programs that never capture save the question per launch.
static int everCaptured;

static void noteCapture(void) { __atomic_store_n(&everCaptured, 1, __ATOMIC_RELAXED); }

int isCapturing(Handle stream, int perThread) {
  if (__builtin_expect(!__atomic_load_n(&everCaptured, __ATOMIC_RELAXED), 1)) return 0;
  int status = 0, result = kNotFound;
  if (perThread && EGPU_HAS_REAL(cuStreamIsCapturing_ptsz))
    result = EGPU_REAL(cuStreamIsCapturing_ptsz, Handle, int*)(stream, &status);
  else if (EGPU_HAS_REAL(cuStreamIsCapturing))
    result = EGPU_REAL(cuStreamIsCapturing, Handle, int*)(stream, &status);
  return result != kSuccess || status != 0;
}

int relaxCaptures(void) {
  if (!__atomic_load_n(&everCaptured, __ATOMIC_RELAXED) || !EGPU_HAS_REAL(cuThreadExchangeStreamCaptureMode))
    return kNoMode;
  int mode = kModeRelaxed;
  return EGPU_REAL(cuThreadExchangeStreamCaptureMode, int*)(&mode) == kSuccess ? mode : kNoMode;
}

void restoreCaptures(int mode) {
  if (mode != kNoMode) EGPU_REAL(cuThreadExchangeStreamCaptureMode, int*)(&mode);
}

EGPU_LIMITED(cuStreamBeginCapture)(Handle stream) {
  noteCapture();
  return EGPU_REAL(cuStreamBeginCapture, Handle)(stream);
}

EGPU_LIMITED(cuStreamBeginCapture_ptsz)(Handle stream) {
  noteCapture();
  return EGPU_REAL(cuStreamBeginCapture_ptsz, Handle)(stream);
}

EGPU_LIMITED(cuStreamBeginCapture_v2)(Handle stream, int mode) {
  noteCapture();
  return EGPU_REAL(cuStreamBeginCapture_v2, Handle, int)(stream, mode);
}

EGPU_LIMITED(cuStreamBeginCapture_v2_ptsz)(Handle stream, int mode) {
  noteCapture();
  return EGPU_REAL(cuStreamBeginCapture_v2_ptsz, Handle, int)(stream, mode);
}

#define EGPU_BEGIN_TO_GRAPH(name)                                                                                   \
  EGPU_LIMITED(name)(Handle stream, Handle graph, const Handle* nodes, const void* edges, size_t count, int mode) { \
    noteCapture();                                                                                                  \
    return EGPU_REAL(name, Handle, Handle, const Handle*, const void*, size_t, int)(stream, graph, nodes, edges,    \
                                                                                    count, mode);                   \
  }
EGPU_BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph)
EGPU_BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)

#define EGPU_BEGIN_TO_CIG(name)                                \
  EGPU_LIMITED(name)(Handle stream, void* parameters) {        \
    noteCapture();                                             \
    return EGPU_REAL(name, Handle, void*)(stream, parameters); \
  }
EGPU_BEGIN_TO_CIG(cuStreamBeginCaptureToCig)
EGPU_BEGIN_TO_CIG(cuStreamBeginCaptureToCig_ptsz)

#define EGPU_BEGIN_RECAPTURE(name)                                                                  \
  EGPU_LIMITED(name)(Handle stream, int mode, Handle graph, void* callback, void* data) {           \
    noteCapture();                                                                                  \
    return EGPU_REAL(name, Handle, int, Handle, void*, void*)(stream, mode, graph, callback, data); \
  }
EGPU_BEGIN_RECAPTURE(cuStreamBeginRecaptureToGraph)
EGPU_BEGIN_RECAPTURE(cuStreamBeginRecaptureToGraph_ptsz)
