// Declarations of the used part of NVIDIA's management library (NVML, libnvidia-ml.so.1), written from its documented
// ABI, so that the build needs no package of NVIDIA. Names, values and layouts are NVML's and never change.
#pragma once

namespace egpu::nvidia {

/// nvmlReturn_t: return value of a function. Other values exist.
using Return = int;
inline constexpr Return kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNoPermission = 4,
                        kNotFound = 6, kInsufficientSize = 7, kInsufficientPower = 8, kDriverNotLoaded = 9,
                        kTimeout = 10, kIrqIssue = 11, kFunctionNotFound = 13, kCorruptedInforom = 14, kGpuIsLost = 15,
                        kResetRequired = 16, kOperatingSystem = 17, kVersionMismatch = 18, kUnknown = 999;

/// nvmlDevice_t. Owned by NVML; valid from nvmlInit_v2 to nvmlShutdown.
using Device = struct OpaqueDevice*;

/// nvmlPciInfo_t.
struct PciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device;
  unsigned deviceId, subSystemId;
  char busId[32];
};

/// nvmlMemory_t, bytes.
struct Memory {
  unsigned long long total, free, used;
};

/// nvmlMemory_v2_t, bytes. The caller must set the version.
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
inline constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | 2u << 24;

/// nvmlGpuInstanceProfileInfo_t.
struct InstanceProfile {
  unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
      encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
};
inline constexpr unsigned kWholeCardProfile = 4;  ///< NVML_GPU_INSTANCE_PROFILE_7_SLICE

/// nvmlProcessInfo_v2_t.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;  ///< bytes; kUnknownMemory if the driver does not report it
  unsigned gpuInstance, computeInstance;
};
inline constexpr unsigned long long kUnknownMemory = ~0ULL;  ///< NVML_VALUE_NOT_AVAILABLE

/// nvmlUtilization_t: percent of the last sample period (1/6 s to 1 s) in which a program ran.
struct Utilization {
  unsigned gpu, memory;
};

/// nvmlProcessUtilizationSample_t.
struct ProcessSample {
  unsigned pid;
  unsigned long long time;                ///< microseconds since 1970
  unsigned sm, memory, encoder, decoder;  ///< percent
};

/// nvmlEventSet_t. Owned by NVML; valid until nvmlEventSetFree.
using EventSet = struct OpaqueEventSet*;

/// nvmlEventData_t.
struct EventData {
  Device device;
  unsigned long long type, data;  ///< data of a kXidEvent: the XID
  unsigned gpuInstance, computeInstance;
};
inline constexpr unsigned long long kXidEvent = 8;  ///< nvmlEventTypeXidCriticalError
inline constexpr unsigned kUncorrected = 1;         ///< NVML_MEMORY_ERROR_TYPE_UNCORRECTED
inline constexpr unsigned kVolatile = 0;            ///< NVML_VOLATILE_ECC: since the driver was loaded

/// nvmlFieldValue_t with its nvmlValue_t as bytes. The caller must set the field's number.
struct FieldValue {
  unsigned field, scope;
  long long time, latency;
  unsigned valueType;
  Return answer;
  unsigned long long value;  ///< kUnsigned uses the lower half
};
inline constexpr unsigned kRecoveryAction = 230;  ///< NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; drivers since 570
inline constexpr unsigned kUnsigned = 1;          ///< NVML_VALUE_TYPE_UNSIGNED_INT

/// nvmlDeviceGpuRecoveryAction_t.
inline constexpr unsigned kRecoveryNone = 0, kRecoveryReset = 1, kRecoveryReboot = 2, kRecoveryDrainPeers = 3,
                          kRecoveryDrainAndReset = 4, kRecoveryBusReset = 5;

inline constexpr unsigned kMaxLinks = 36;   ///< NVML_NVLINK_MAX_LINKS
inline constexpr unsigned kTextSize = 96;   ///< size of the longest text, with its NUL
inline constexpr unsigned kSmClock = 1;     ///< NVML_CLOCK_SM
inline constexpr unsigned kMigEnabled = 1;  ///< NVML_DEVICE_MIG_ENABLE
/// nvmlComputeMode_t.
inline constexpr unsigned kComputeDefault = 0, kComputeExclusiveThread = 1, kComputeProhibited = 2,
                          kComputeExclusiveProcess = 3;
inline constexpr unsigned kNvlinkCapability = 2;  ///< NVML_P2P_CAPS_INDEX_NVLINK
inline constexpr unsigned kP2pOk = 0;             ///< NVML_P2P_STATUS_OK

/// nvmlIntNvLinkDeviceType_t: device at the other end of a link.
inline constexpr unsigned kLinkToGpu = 0, kLinkToSwitch = 2, kLinkToUnknown = 255;

/// nvmlGpuTopologyLevel_t: the PCIe path between two cards.
inline constexpr unsigned kSameBoard = 0, kOneSwitch = 10, kSeveralSwitches = 20, kSameHostBridge = 30, kSameNode = 40,
                          kAcrossSystem = 50;

}  // namespace egpu::nvidia

/// All used functions with their parameters.
#define EGPU_NVML_FUNCTIONS(F)                                                                                \
  F(nvmlInit_v2, ())                                                                                          \
  F(nvmlShutdown, ())                                                                                         \
  F(nvmlSystemGetDriverVersion, (char* version, unsigned length))                                             \
  F(nvmlSystemGetCudaDriverVersion_v2, (int* version))                                                        \
  F(nvmlDeviceGetCount_v2, (unsigned* count))                                                                 \
  F(nvmlDeviceGetHandleByIndex_v2, (unsigned index, Device* device))                                          \
  F(nvmlDeviceGetUUID, (Device device, char* uuid, unsigned length))                                          \
  F(nvmlDeviceGetName, (Device device, char* name, unsigned length))                                          \
  F(nvmlDeviceGetMinorNumber, (Device device, unsigned* minor))                                               \
  F(nvmlDeviceGetMemoryInfo, (Device device, Memory * memory))                                                \
  F(nvmlDeviceGetMemoryInfo_v2, (Device device, MemoryV2 * memory))                                           \
  F(nvmlDeviceGetPciInfo_v3, (Device device, PciInfo * pci))                                                  \
  F(nvmlDeviceGetCudaComputeCapability, (Device device, int* major, int* minor))                              \
  F(nvmlDeviceGetNumGpuCores, (Device device, unsigned* cores))                                               \
  F(nvmlDeviceGetMaxClockInfo, (Device device, unsigned domain, unsigned* mhz))                               \
  F(nvmlDeviceGetComputeMode, (Device device, unsigned* mode))                                                \
  F(nvmlDeviceGetMigMode, (Device device, unsigned* current, unsigned* pending))                              \
  F(nvmlDeviceGetGpuInstanceProfileInfo, (Device device, unsigned profile, InstanceProfile* info))            \
  F(nvmlDeviceGetTopologyCommonAncestor, (Device a, Device b, unsigned* level))                               \
  F(nvmlDeviceGetP2PStatus, (Device a, Device b, unsigned capability, unsigned* status))                      \
  F(nvmlDeviceGetNvLinkState, (Device device, unsigned link, unsigned* active))                               \
  F(nvmlDeviceGetNvLinkRemoteDeviceType, (Device device, unsigned link, unsigned* type))                      \
  F(nvmlDeviceGetNvLinkRemotePciInfo_v2, (Device device, unsigned link, PciInfo* pci))                        \
  F(nvmlDeviceGetTotalEccErrors, (Device device, unsigned type, unsigned counter, unsigned long long* count)) \
  F(nvmlDeviceGetRemappedRows,                                                                                \
    (Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed))         \
  F(nvmlDeviceGetRetiredPagesPendingStatus, (Device device, unsigned* pending))                               \
  F(nvmlDeviceGetFieldValues, (Device device, int count, FieldValue* values))                                 \
  F(nvmlDeviceGetComputeRunningProcesses_v2, (Device device, unsigned* count, ProcessInfo* processes))        \
  F(nvmlDeviceGetComputeRunningProcesses_v3, (Device device, unsigned* count, ProcessInfo* processes))        \
  F(nvmlDeviceGetMPSComputeRunningProcesses_v2, (Device device, unsigned* count, ProcessInfo* processes))     \
  F(nvmlDeviceGetMPSComputeRunningProcesses_v3, (Device device, unsigned* count, ProcessInfo* processes))     \
  F(nvmlDeviceGetUtilizationRates, (Device device, Utilization * utilization))                                \
  F(nvmlDeviceGetProcessUtilization,                                                                          \
    (Device device, ProcessSample * samples, unsigned* count, unsigned long long since))                      \
  F(nvmlEventSetCreate, (EventSet * set))                                                                     \
  F(nvmlEventSetFree, (EventSet set))                                                                         \
  F(nvmlDeviceRegisterEvents, (Device device, unsigned long long types, EventSet set))                        \
  F(nvmlEventSetWait_v2, (EventSet set, EventData * event, unsigned milliseconds))
