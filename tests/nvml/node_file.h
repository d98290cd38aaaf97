// The file that says what the fake NVML answers; README.md has its form.
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
  int64_t sm = -1;  ///< percent; -1 = no sample tells of it
};

struct FakeDevice {
  std::string uuid, name, pci;
  std::vector<std::string> path;  ///< PCIe from the root complex down: what two cards have in common is their path
  int64_t numa = -1;
  uint64_t minor = 0, memory = 0, reserved = 0, cores = 0, clock = 0;
  int64_t computeMajor = 0, computeMinor = 0;
  int64_t mig = -1, pendingMig = -1, migSms = 0;  ///< -1 = the card has no MIG
  std::vector<FakeLink> links;
  bool lost = false;
  uint64_t ecc = 0;  ///< errors not corrected since the driver was loaded
  bool remapPending = false, remapFailed = false;
  int64_t retiredPending = -1;  ///< 0 or 1; -1 = the card remaps rows instead
  int64_t recoveryAction = -1;  ///< NVML's number; -1 = the driver is older than the field
  std::size_t linksDown = 0;    ///< the first so many
  std::vector<FakeProcess> processes, mpsProcesses, graphicsProcesses;
  uint64_t computeMode = 0;     ///< nvmlComputeMode_t
  bool persistence = false;
  int64_t used = -1;           ///< bytes; -1 = what the processes have
  int64_t sm = -1;             ///< percent; -1 = the card has no counter
  std::vector<uint64_t> xids;  ///< so far; who registered before one was added is told of it
  Answers errors;
};

/// A file as it was read at one time. Constant.
struct FakeNode {
  std::string driver;
  int64_t cuda = 0;
  int64_t count = -1;              ///< -1 = as many as there are devices
  std::vector<std::string> opens;  ///< what nvmlInit_v2 opens: devices to write, all else to read
  std::set<std::string> missing;   ///< symbols that the library lacks
  Answers errors;                  ///< what functions answer instead
  Answers slow;                    ///< how long functions take, in milliseconds
  bool unterminated = false;       ///< texts fill all the room they get, without NUL
  std::vector<FakeDevice> devices;
};

/// Throws YAML::Exception.
FakeNode readFakeNode(const std::string& path);

/// The file of $ELASTICGPU_FAKE_NVML, read anew when it has changed; null if there is none or it cannot be read, which
/// is said on stderr. Any thread.
std::shared_ptr<const FakeNode> currentNode();

}  // namespace egpu::nvidia::testing
