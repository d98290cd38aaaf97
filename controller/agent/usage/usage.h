// Attributes the usage of a node's cards to claims and pods. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/clock.h"
#include "controller/plugin/provisioner.h"

namespace egpu::agent::usage {

/// Usage of one of the node's cards as its plugin reports it.
struct Reading {
  std::string name;  ///< name of the card's object
  std::string uuid, model;
  int64_t memory = 0;  ///< capacity, bytes
  plugin::CardUse use;
  std::vector<plugin::CardProcess> processes;  ///< processes on this card
};

/// Share of a card granted to a prepared device, and the pods that use the device.
struct Share {
  std::string deviceUid;
  std::string namespace_, claim;
  std::string card;                         ///< uuid of the card
  int64_t core = 0, memory = 0;             ///< granted: milli-cards, bytes
  std::map<std::string, std::string> pods;  ///< names by uid
};

/// Memory that the driver counts for the containers of a pod with a device, bytes. It replaces the sum over processes.
struct Measured {
  std::string deviceUid, pod, card;  ///< uids of the device and of the pod, uuid of the card
  int64_t memory = 0;
};

/// Measured usage; -1 = unknown.
struct Used {
  int64_t memory = 0;     ///< bytes
  int64_t smPercent = 0;  ///< percent of time in which the card computes
  int64_t processes = 0;
  bool operator==(const Used&) const = default;
};

/// Usage of one card by one pod through one claim. `pod` is empty if no pod of the claim is known.
struct ClaimUse {
  std::string namespace_, claim, pod, card;
  Used used;
  int64_t core = 0, memory = 0;  ///< granted, as in Share
};
struct CardUse {
  std::string name, uuid, model;
  int64_t memory = 0;  ///< capacity, bytes
  Used used;
  struct Device {
    Used used;
    int64_t granted = 0;  ///< granted memory, bytes
  };
  std::map<std::string, Device> devices;  ///< all devices prepared on the card, by uid
};
struct Usage {
  std::vector<CardUse> cards;
  std::vector<ClaimUse> claims;     ///< sorted by namespace, claim, pod, card
  std::set<std::string> strangers;  ///< uids of pods that use a card without a known share
};

/// Uid of the process's pod; "" if it has none, nullopt if the process has ended.
using PodOf = std::function<std::optional<std::string>(int64_t pid)>;

/// Attributes each process to its pod's share of the card, or, without a share, to the card only. Of several shares,
/// the one with the smallest device uid gets the process. A value that is unknown for one process is unknown for its
/// claim. `measured`: replaces the memory of these shares.
Usage attribute(const std::vector<Reading>& readings, std::vector<Share> shares, const PodOf& podOf,
                const std::vector<Measured>& measured = {});

/// Sets `after` to the status of `now` (null: unknown), and returns true if it must replace `before` in the card's
/// status. A first usage is written immediately. Later ones require that the last write is at least `every` ago, and
/// that usage is unknown or moved noticeably: by a twentieth of the card or of a device's grant, or to or from zero.
bool shouldReport(const core::HeapOptional<v1alpha::CardUsage>& before, const CardUse* now, base::Clock::Wall wall,
                  std::chrono::milliseconds every, core::HeapOptional<v1alpha::CardUsage>& after);

}  // namespace egpu::agent::usage
