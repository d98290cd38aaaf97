// The NVIDIA cards of this machine, and how they reach each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::nvidia {

inline constexpr unsigned kMostCards = 64;

struct Link {
  std::string peer, type;  ///< as egpu_link
  int64_t count = 0;
};

struct Process {
  int64_t pid = 0;
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< -1 = unknown
};

/// A card that works; its members are those of egpu_gpu, in its units.
struct Card {
  std::string uuid, model;
  int64_t index = -1, memory = 0, smCount = 0, numaNode = -1;
  std::string pci;
  int64_t milliTflops = 0;
  std::vector<Link> links;
  std::vector<std::pair<std::string, std::string>> attributes;
  bool mig = false;
  std::vector<Process> processes;  ///< that compute on it
  bool processesKnown = false;
  int64_t memoryUsed = -1;      ///< bytes, -1 = unknown
  int64_t smPercent = -1;       ///< -1 = unknown
  int64_t switchLinks = 0;      ///< active NVLinks to switches
  int64_t recoveryAction = -1;  ///< that the driver asks for, NVML's number; -1 = unknown
  std::string illness;          ///< why no claim may get it, a health message, "RowRemapFailed: …"; empty = none
  std::string event;            ///< health message of an XID beside another illness; empty = none
  std::string notice;           ///< what is to be done about a card that works, likewise, "MemoryRepairPending: …"
};

/// A card that the kernel has, but NVML does not reach.
struct LostCard {
  std::string uuid;
  std::string why;
  std::string event;  ///< health message of an XID, "Xid79: …"; empty = none
};

struct Node {
  std::vector<Card> cards;  ///< in NVML's order
  std::vector<LostCard> lost;
  std::vector<std::string> remarks;  ///< what is wrong, a sentence each
};

/// Reads all. OK with an empty node where there is no driver; unavailable, when the driver is there but does not answer,
/// its library is missing while the kernel has cards, or `cancelled` says that nobody waits any more: half a list would
/// look as if the others were gone.
/// Any thread.
sdk::Status readNode(const std::function<bool()>& cancelled, Node& out);

/// The slots of that name, for the plugins of NVIDIA's cards.
sdk::Status discover(sdk::Call& call);
sdk::Status health(sdk::Call& call);

}  // namespace egpu::nvidia
