// The file that defines the answers of the fake NVML; README.md describes its format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace egpu::nvidia::testing {

using Answers = std::map<std::string, int64_t>;  ///< by function

struct FakeLink {
  int64_t card = -1;  ///< the other card's place; -1 = a switch
};

struct FakeProcess {
  uint64_t pid = 0, memory = 0;
  int64_t sm = -1;           ///< percent; -1 = no sample for this process
  int64_t gpuInstance = -1;  ///< MIG instance that it runs in; -1 = none
};

/// A profile of MIG instances.
struct FakeProfile {
  std::string name;  ///< without "MIG "
  uint64_t number = 0, id = 0, slices = 0, size = 0, count = 0, memoryMib = 0, sms = 0, ofa = 0;
  std::vector<uint64_t> starts;
};

struct FakeDevice {
  std::string uuid, name, pci;
  /// PCIe path from the root complex down; the common prefix of two cards' paths determines their distance
  std::vector<std::string> path;
  int64_t numa = -1;
  uint64_t minor = 0, memory = 0, reserved = 0, cores = 0, clock = 0;
  int64_t computeMajor = 0, computeMinor = 0;
  int64_t mig = -1, pendingMig = -1;  ///< -1 = the card has no MIG
  std::vector<FakeProfile> profiles;
  uint64_t computeSlices = 7;  ///< compute slices of all its MIG instances together
  std::vector<FakeLink> links;
  bool lost = false;
  uint64_t ecc = 0;  ///< errors not corrected since the driver was loaded
  bool remapPending = false, remapFailed = false;
  int64_t retiredPending = -1;  ///< 0 or 1; -1 = the card remaps rows instead
  int64_t recoveryAction = -1;  ///< NVML's number; -1 = the driver is older than the field
  std::size_t linksDown = 0;    ///< number of links that are down, counted from the first
  std::vector<FakeProcess> processes, mpsProcesses, graphicsProcesses;
  uint64_t computeMode = 0;  ///< nvmlComputeMode_t
  bool persistence = false;
  int64_t used = -1;           ///< bytes; -1 = the sum over the processes
  int64_t sm = -1;             ///< percent; -1 = the card has no counter
  std::vector<uint64_t> xids;  ///< so far; a client gets those that are added after its registration
  Answers errors;
};

/// The contents of a file at the time of reading. Immutable.
struct FakeNode {
  std::string driver;
  int64_t cuda = 0;
  int64_t count = -1;              ///< -1 = the number of devices
  std::vector<std::string> opens;  ///< files that nvmlInit_v2 opens: devices for writing, others for reading
  std::set<std::string> missing;   ///< symbols that the library lacks
  Answers errors;                  ///< errors that functions return
  Answers slow;                    ///< delays of functions, in milliseconds
  std::string memoryLimits;        ///< back end of the memory limits: dmem or misc; "" = none
  bool unterminated = false;       ///< texts fill the whole buffer, without NUL
  std::string capabilities;        ///< file with the minor numbers of MIG's device nodes
  bool deviceNodes = false;        ///< a process sees only cards with a device node that it may open
  std::vector<FakeDevice> devices;
};

/// Throws YAML::Exception.
FakeNode readFakeNode(const std::string& path);

/// Returns the file of $ELASTICGPU_FAKE_NVML, read again if it has changed. Returns null and writes the reason to
/// stderr if it is missing or cannot be read. Thread-safe.
std::shared_ptr<const FakeNode> currentNode();

/// Returns true if this process could open the device node: it exists, and the cgroup of the process permits it. A node
/// without a driver, as on machines without a GPU, counts as well.
bool isReachable(const std::string& path);

/// Returns the places of the cards that this process sees, in NVML's order.
std::vector<std::size_t> visiblePlaces(const FakeNode& node);

}  // namespace egpu::nvidia::testing
