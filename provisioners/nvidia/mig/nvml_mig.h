// Declarations of the part of NVML that is about MIG, written from its documented ABI, as nvml.h.
#pragma once

namespace egpu::nvidia {

using Return = int;
using Device = struct OpaqueDevice*;

inline constexpr Return kInUse = 19;                  ///< NVML_ERROR_IN_USE
inline constexpr Return kInsufficientResources = 23;  ///< NVML_ERROR_INSUFFICIENT_RESOURCES

/// nvmlGpuInstance_t, nvmlComputeInstance_t. Owned by NVML; valid until the instance is destroyed.
using GpuInstance = struct OpaqueGpuInstance*;
using ComputeInstance = struct OpaqueComputeInstance*;

/// nvmlGpuInstanceProfileInfo_v2_t. The caller must set the version.
struct NamedInstanceProfile {
  unsigned version;
  unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
      encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char name[96];  ///< "MIG 1g.5gb"
};
inline constexpr unsigned kNamedInstanceProfile = sizeof(NamedInstanceProfile) | 2u << 24;

/// Numbers of the functions that describe profiles: 0, 1, … NVML_GPU_INSTANCE_PROFILE_COUNT is 17 in drivers of 2025;
/// later drivers may have more.
inline constexpr unsigned kMaxInstanceProfiles = 32;
/// NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 and _2_SLICE_REV1: with the media engines.
inline constexpr unsigned kOneSliceWithMedia = 7, kTwoSlicesWithMedia = 8;
/// Numbers of the profiles of compute instances: NVML_COMPUTE_INSTANCE_PROFILE_COUNT is 8.
inline constexpr unsigned kMaxComputeProfiles = 16;
inline constexpr unsigned kSharedEngines = 0;  ///< NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED

/// nvmlGpuInstancePlacement_t: memory slots.
struct InstancePlacement {
  unsigned start, size;
};

/// nvmlGpuInstanceInfo_t.
struct GpuInstanceInfo {
  Device device;
  unsigned id, profileId;
  InstancePlacement placement;
};

/// nvmlComputeInstanceProfileInfo_t.
struct ComputeProfile {
  unsigned id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount,
      sharedEncoderCount, sharedJpegCount, sharedOfaCount;
};

/// nvmlComputeInstanceInfo_t.
struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpuInstance;
  unsigned id, profileId;
  InstancePlacement placement;
};

}  // namespace egpu::nvidia

/// The used functions with their parameters. nvml.h has InstanceProfile and nvmlDeviceGetGpuInstanceProfileInfo.
#define EGPU_NVML_MIG_FUNCTIONS(F)                                                                           \
  F(nvmlDeviceGetGpuInstanceProfileInfoV, (Device device, unsigned profile, NamedInstanceProfile* info))     \
  F(nvmlDeviceGetGpuInstancePossiblePlacements_v2,                                                           \
    (Device device, unsigned profileId, InstancePlacement* placements, unsigned* count))                     \
  F(nvmlDeviceCreateGpuInstanceWithPlacement,                                                                \
    (Device device, unsigned profileId, const InstancePlacement* placement, GpuInstance* instance))          \
  F(nvmlGpuInstanceDestroy, (GpuInstance instance))                                                          \
  F(nvmlDeviceGetGpuInstances, (Device device, unsigned profileId, GpuInstance* instances, unsigned* count)) \
  F(nvmlGpuInstanceGetInfo, (GpuInstance instance, GpuInstanceInfo * info))                                  \
  F(nvmlGpuInstanceGetComputeInstanceProfileInfo,                                                            \
    (GpuInstance instance, unsigned profile, unsigned engineProfile, ComputeProfile* info))                  \
  F(nvmlGpuInstanceCreateComputeInstance, (GpuInstance instance, unsigned profileId, ComputeInstance* out))  \
  F(nvmlComputeInstanceDestroy, (ComputeInstance instance))                                                  \
  F(nvmlGpuInstanceGetComputeInstances,                                                                      \
    (GpuInstance instance, unsigned profileId, ComputeInstance* instances, unsigned* count))                 \
  F(nvmlComputeInstanceGetInfo_v2, (ComputeInstance instance, ComputeInstanceInfo * info))                   \
  F(nvmlDeviceGetMaxMigDeviceCount, (Device device, unsigned* count))                                        \
  F(nvmlDeviceGetMigDeviceHandleByIndex, (Device device, unsigned index, Device* migDevice))                 \
  F(nvmlDeviceGetGpuInstanceId, (Device migDevice, unsigned* id))                                            \
  F(nvmlDeviceGetComputeInstanceId, (Device migDevice, unsigned* id))
