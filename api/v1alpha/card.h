// Parts of an ElasticGPU (types.h): the card, an entry of its ledger, its usage, and the isolation of a device. Amounts
// are integers: core in milli-cards (1000 = one card), memory in bytes. Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/core/heap_optional.h"
#include "api/core/meta.h"
#include "api/core/sorted_map.h"
#include "api/v1alpha/mig.h"

namespace egpu::v1alpha {

using core::HeapOptional;
using core::SortedMap;
using core::StringMap;

/// One link from a card to a peer.
struct CardLink {
  std::string peer;  ///< uuid of the peer card
  std::string type;  ///< nvlink | nvswitch | single | multiple | hostbridge | cpu | system | board
  int64_t count = 0;
  bool operator==(const CardLink&) const = default;
};
struct CardTopology {
  int64_t numa = -1;  ///< NUMA node, -1 = unknown
  std::string pcie;   ///< PCI bus id
  std::vector<CardLink> links;
  bool operator==(const CardTopology&) const = default;
};
/// spec.card: a GPU card as published by its node's agent.
struct Card {
  std::string uuid;
  std::string nodeName;
  int64_t index = 0;
  std::string model;
  int64_t smCount = 0;
  int64_t milliTflops = 0;  ///< rating in thousandths of a TFLOPS (written as `tflops: 19.5`), 0 = unknown
  int64_t core = 1000;      ///< milli-cards
  int64_t memory = 0;       ///< bytes
  CardTopology topology;
  std::vector<MigProfile> mig{};  ///< profiles of its instances; empty = not in MIG mode
  StringMap attributes;  ///< further attributes from the vendor's plugin, by its names: driverVersion, migMode, …
  bool operator==(const Card&) const = default;
};

/// An entry of a card's ledger, keyed by device uid. Amounts are the charged ones.
struct LedgerEntry {
  std::string device;  ///< name of the device object
  std::string claim;   ///< "namespace/name"
  int64_t core = 0;
  int64_t memory = 0;  ///< bytes; 0 together with core 0 = admin access
  int64_t resize = 0;  ///< number of the device's target that it was written for; 0 = none yet
  Slots slots{};       ///< slots of its MIG instances; no two entries of a card have one in common
  bool operator==(const LedgerEntry&) const = default;
};

/// Isolation of a device's share, as its provisioner reports it. Each level is Enforced, Soft (only programs that work
/// around the mechanism exceed the share) or None.
struct Isolation {
  std::string mode;             ///< the mechanism, such as mps; "none" = none
  std::string memory;           ///< memory beyond the grant
  std::string compute;          ///< compute time beyond the grant while others want it
  std::string faults;           ///< a fault of one container stops containers of others
  std::string managedMemory{};  ///< CUDA managed memory beyond the grant; empty = as `memory`
  bool operator==(const Isolation&) const = default;
};
/// Usage of one card by one device.
struct DeviceUsage {
  int64_t memory = -1;     ///< bytes, -1 = unknown
  int64_t smPercent = -1;  ///< share of the whole card's time; -1 = unknown
  bool operator==(const DeviceUsage&) const = default;
};
/// Usage of a card as measured by its agent. Updated only after a noticeable change.
struct CardUsage {
  int64_t memory = -1;             ///< bytes, -1 = unknown
  int64_t smPercent = -1;          ///< 0…100, -1 = unknown
  SortedMap<DeviceUsage> devices;  ///< by device uid; devices without usage are omitted
  std::string time;                ///< time of the write
  bool operator==(const CardUsage&) const = default;
};
/// A program of a device's pod that evades the limiter, as the agent of its node sees it.
struct IsolationBypass {
  std::string pod;      ///< uid
  std::string message;  ///< sentence for people
  bool operator==(const IsolationBypass&) const = default;
};
/// Running programs of a device have lost their GPU, as the agent of their node sees it.
struct AccessLoss {
  std::string reason;   ///< reason of the claim's condition, such as MpsServerFault
  std::string message;  ///< sentence for people: what happened, and what to do
  std::string since;    ///< RFC 3339
  bool operator==(const AccessLoss&) const = default;
};

}  // namespace egpu::v1alpha
