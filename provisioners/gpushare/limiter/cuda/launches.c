// Launches of kernels.
#include "provisioners/gpushare/limiter/cuda/cards.h"
#include "provisioners/gpushare/limiter/cuda/prices.h"
#include "provisioners/gpushare/limiter/old_libc.h"
#include "provisioners/gpushare/limiter/usage.h"

#define EGPU_LIMITED(name) int EGPU_HIDDEN limited_##name

static uint64_t blocksOf(const unsigned* grid) { return (uint64_t)grid[0] * grid[1] * grid[2]; }

typedef int KernelLaunch(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                         void**);
typedef int CooperativeLaunch(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                              void**);
typedef int ConfiguredLaunch(const struct LaunchConfig*, Handle, void**, void**);

// Without a limit of compute, each wrapper is a jump to the driver. The metered launch is another function for that.

#define EGPU_LAUNCH_KERNEL(name, perThread)                                                                        \
  static __attribute__((noinline)) int metered_##name(Handle function, unsigned gx, unsigned gy, unsigned gz,      \
                                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,      \
                                                      Handle stream, void** parameters, void** extra) {            \
    struct Launch launch;                                                                                          \
    launchBegin(&launch, kernelKey(function, (uint64_t)gx* gy* gz), stream, perThread);                            \
    KernelLaunch* const real = (KernelLaunch*)egpuReal[kExport_##name];                                            \
    return launchEnd(&launch, real(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra));          \
  }                                                                                                                \
  EGPU_LIMITED(name)                                                                                               \
  (Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
   Handle stream, void** parameters, void** extra) {                                                               \
    KernelLaunch* const next = usageIsComputeFree() ? (KernelLaunch*)egpuReal[kExport_##name] : metered_##name;    \
    return next(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);                              \
  }
EGPU_LAUNCH_KERNEL(cuLaunchKernel, 0)
EGPU_LAUNCH_KERNEL(cuLaunchKernel_ptsz, 1)

#define EGPU_LAUNCH_COOPERATIVE(name, perThread)                                                                   \
  static __attribute__((noinline)) int metered_##name(Handle function, unsigned gx, unsigned gy, unsigned gz,      \
                                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,      \
                                                      Handle stream, void** parameters) {                          \
    struct Launch launch;                                                                                          \
    launchBegin(&launch, kernelKey(function, (uint64_t)gx* gy* gz), stream, perThread);                            \
    CooperativeLaunch* const real = (CooperativeLaunch*)egpuReal[kExport_##name];                                  \
    return launchEnd(&launch, real(function, gx, gy, gz, bx, by, bz, shared, stream, parameters));                 \
  }                                                                                                                \
  EGPU_LIMITED(name)                                                                                               \
  (Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
   Handle stream, void** parameters) {                                                                             \
    CooperativeLaunch* const next =                                                                                \
        usageIsComputeFree() ? (CooperativeLaunch*)egpuReal[kExport_##name] : metered_##name;                      \
    return next(function, gx, gy, gz, bx, by, bz, shared, stream, parameters);                                     \
  }
EGPU_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, 0)
EGPU_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, 1)

#define EGPU_LAUNCH_EX(name, perThread)                                                                               \
  static __attribute__((noinline)) int metered_##name(const struct LaunchConfig* config, Handle function,             \
                                                      void** parameters, void** extra) {                              \
    struct Launch launch = {.sample = NULL, .card = -1};                                                              \
    if (config != NULL) launchBegin(&launch, kernelKey(function, blocksOf(config->grid)), config->stream, perThread); \
    ConfiguredLaunch* const real = (ConfiguredLaunch*)egpuReal[kExport_##name];                                       \
    return launchEnd(&launch, real(config, function, parameters, extra));                                             \
  }                                                                                                                   \
  EGPU_LIMITED(name)(const struct LaunchConfig* config, Handle function, void** parameters, void** extra) {           \
    ConfiguredLaunch* const next =                                                                                    \
        usageIsComputeFree() ? (ConfiguredLaunch*)egpuReal[kExport_##name] : metered_##name;                          \
    return next(config, function, parameters, extra);                                                                 \
  }
EGPU_LAUNCH_EX(cuLaunchKernelEx, 0)
EGPU_LAUNCH_EX(cuLaunchKernelEx_ptsz, 1)

EGPU_LIMITED(cuLaunchCooperativeKernelMultiDevice)(struct MultiDeviceLaunch* list, unsigned count, unsigned flags) {
  for (unsigned i = 0; list != NULL && i < count; i++)
    launchUnmeasured(kernelKey(list[i].function, blocksOf(list[i].grid)), deviceOfStream(list[i].stream));
  return EGPU_REAL(cuLaunchCooperativeKernelMultiDevice, void*, unsigned, unsigned)(list, count, flags);
}

EGPU_LIMITED(cuLaunch)(Handle function) {
  struct Launch launch;
  launchBegin(&launch, kernelKey(function, 1), NULL, 0);
  return launchEnd(&launch, EGPU_REAL(cuLaunch, Handle)(function));
}

EGPU_LIMITED(cuLaunchGrid)(Handle function, int width, int height) {
  struct Launch launch;
  launchBegin(&launch, kernelKey(function, (uint64_t)(unsigned)width * (unsigned)height), NULL, 0);
  return launchEnd(&launch, EGPU_REAL(cuLaunchGrid, Handle, int, int)(function, width, height));
}

EGPU_LIMITED(cuLaunchGridAsync)(Handle function, int width, int height, Handle stream) {
  struct Launch launch;
  launchBegin(&launch, kernelKey(function, (uint64_t)(unsigned)width * (unsigned)height), stream, 0);
  return launchEnd(&launch, EGPU_REAL(cuLaunchGridAsync, Handle, int, int, Handle)(function, width, height, stream));
}
