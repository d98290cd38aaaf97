// The allocation map: which device has what of which card. For people, for metrics and for the auditor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/cache/stores.h"

namespace egpu::allocator {

struct AllocatorState;
struct CardState;

/// Allocation of a card to one device, for the allocation map. Amounts are charged amounts.
struct MapAllocation {
  std::string device;     ///< object name; empty if the allocation is only assumed
  std::string deviceUid;  ///< or "claim/<claim uid>"
  std::string claim;      ///< "namespace/name"
  std::string phase;      ///< phase of the device; "Pending" if the allocation is only assumed
  int64_t core = 0;
  int64_t memory = 0;
  v1alpha::Slots slots{};  ///< slots of its MIG instances
  std::string profile{};   ///< profile of its MIG instances; empty if it has none, or the allocation is only assumed
  std::optional<v1alpha::DeviceUsage> usage{};  ///< by running processes, if the card's agent reports it
  bool adminAccess() const { return core == 0 && memory == 0; }
};
struct MapCard {
  std::string name, uuid, model;
  int64_t index = 0;
  int64_t core = 0, memory = 0;          ///< capacity
  int64_t usedCore = 0, usedMemory = 0;  ///< Σ allocations
  bool offered = true;
  std::string why;   ///< why the card is not schedulable; empty if it is
  std::string mode;  ///< isolation mode of its shares; empty if it has none
  std::vector<MapAllocation> allocations;
  core::HeapOptional<v1alpha::CardUsage> usage{};  ///< as the card's agent reports it
};
struct MapNode {
  std::string name;
  bool schedulable = true;
  std::vector<MapCard> cards;
  /// True if a claim holds an amount on the node. Claims with admin access hold none.
  bool isUsed() const;
};
/// A device without cards: a remote GPU.
struct MapRemoteDevice {
  std::string device;     ///< object name
  std::string claim;      ///< "namespace/name"; empty = none
  std::string phase;      ///< of the device
  std::string className;  ///< its class
  std::string pool;       ///< address of its pool, without secrets; empty: an administrator created the device
  std::string endpoint;   ///< its address, without secrets; empty = not known yet
};
struct AllocationMap {
  std::vector<MapNode> nodes;             ///< by name; the cards of a node by index
  std::vector<MapRemoteDevice> remote{};  ///< by name; only on the first page of all nodes
  std::string next{};                     ///< last node of this page if another page follows; otherwise empty
};
/// Selects nodes of the map.
struct MapPage {
  std::string node{};     ///< only this node; empty = all
  std::string after{};    ///< only nodes with greater names; empty = from the first on
  std::size_t limit = 0;  ///< maximum number of nodes; 0 = no limit
  bool idle = false;      ///< only nodes on which no claim holds an amount
};

struct ClusterTotals {
  int64_t nodes = 0, cards = 0, offered = 0, quarantined = 0, allocations = 0;
  int64_t free = 0, partly = 0, full = 0;  ///< schedulable cards: no allocations; some; no core or no memory left
  int64_t core = 0, usedCore = 0, memory = 0, usedMemory = 0;
};

/// Differences between a card's allocations and its ledger. The auditor finds the cause.
struct CardAudit {
  bool known = false;
  int64_t core = 0, memory = 0;                 ///< capacity
  int64_t ledgerCore = 0, ledgerMemory = 0;     ///< Σ entries
  int64_t usedCore = 0, usedMemory = 0;         ///< allocated according to the scheduler
  std::vector<std::string> entryWithoutDevice;  ///< uids in the ledger without a cached device that names the card
  std::vector<std::string> deviceWithoutEntry;  ///< names of committed devices without an entry in the ledger
};

/// Reads the allocations of the allocator. Thread-safe.
class AllocationMapReader {
 public:
  explicit AllocationMapReader(AllocatorState& state) : state_(state) {}

  /// Returns the allocation map, or a page of it. Releases the lock between nodes: each node's state is consistent, two
  /// nodes may be of different moments. Costs the nodes of the page and, with `idle`, the nodes between them.
  AllocationMap map(const MapPage& page = {}) const;
  /// Totals over all cards. Releases the lock in between.
  ClusterTotals totals() const;
  CardAudit audit(std::string_view card) const;
  /// Reason why the card is not schedulable, or "not known"; empty if it is schedulable.
  std::string quarantineReason(std::string_view card) const;

 private:
  /// Sorted names of the nodes from the start of the page on; the empty name stands for cards without a node.
  std::vector<std::string> nodesOf(const MapPage& page) const;
  /// Adds the fields that come from the objects of cards and devices. Call without the lock.
  void describe(MapCard& card) const;
  std::vector<MapRemoteDevice> remoteDevices() const;
  void describe(MapAllocation& allocation) const;

  AllocatorState& state_;
};

}  // namespace egpu::allocator
