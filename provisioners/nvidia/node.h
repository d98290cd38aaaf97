// NVIDIA cards of this machine, and the links between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/nvidia/mig/profiles.h"

namespace egpu::nvidia {

inline constexpr unsigned kMaxCards = 64;

struct Link {
  std::string peer, type;  ///< as in egpu_link
  int64_t count = 0;
};

struct Process {
  int64_t pid = 0;
  int64_t memory = -1;     ///< bytes; -1 = unknown
  int64_t smPercent = -1;  ///< -1 = unknown
};

/// A card that NVML can read; members named as in egpu_gpu have the same units.
struct NvmlCard {
  std::string uuid, model;
  int64_t index = -1, memory = 0, smCount = 0, numaNode = -1;
  std::string pci;
  int64_t milliTflops = 0;
  std::vector<Link> links;
  std::vector<std::pair<std::string, std::string>> attributes;
  bool mig = false;                ///< in MIG mode
  std::vector<Profile> profiles;   ///< profiles of its instances; none if they can't be read
  std::vector<Process> processes;  ///< processes that compute on it
  bool processesKnown = false;
  int64_t memoryUsed = -1;      ///< bytes; -1 = unknown
  int64_t smPercent = -1;       ///< -1 = unknown
  int64_t switchLinks = 0;      ///< active NVLinks to switches
  int64_t recoveryAction = -1;  ///< recovery action that the driver requests, NVML's number; -1 = unknown
  std::string illness;          ///< health message that blocks claims, "RowRemapFailed: …"; empty = none
  std::string event;            ///< health message of an XID in addition to another illness; empty = none
  std::string notice;           ///< health message of a working card, "MemoryRepairPending: …"; empty = none
};

/// A card that the kernel lists, but NVML can't reach.
struct LostCard {
  std::string uuid;
  std::string why;
  std::string event;  ///< health message of an XID, "Xid79: …"; empty = none
};

struct NodeCards {
  std::vector<NvmlCard> cards;  ///< in NVML's order
  std::vector<LostCard> lost;
  std::vector<std::string> remarks;  ///< problems, one sentence each
};

/// Reads all cards. Returns OK with an empty node if there is no driver. Returns unavailable if the driver does not
/// answer, if its library is missing while the kernel has cards, or if `cancelled` returns true: an incomplete list
/// would make the other cards appear gone. Thread-safe.
sdk::Status readNode(const std::function<bool()>& cancelled, NodeCards& out);

/// Slots discover, health and processes for plugins of NVIDIA's cards. `more`: further attributes of every card.
sdk::Status discover(sdk::Call& call, const std::vector<std::pair<std::string, std::string>>& more = {});
sdk::Status health(sdk::Call& call);
sdk::Status processes(sdk::Call& call);

}  // namespace egpu::nvidia
