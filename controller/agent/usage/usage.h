// What is used of a node's cards, and by whose pods. Pure.
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

/// What a plugin says of one of the node's cards.
struct Reading {
  std::string name;  ///< of the card's object
  std::string uuid, model;
  int64_t memory = 0;  ///< bytes that it has
  plugin::CardUse use;
  std::vector<plugin::CardProcess> processes;  ///< on this card
};

/// What a prepared device has of one card, and the pods that have the device.
struct Share {
  std::string deviceUid;
  std::string namespace_, claim;
  std::string card;                         ///< uuid
  int64_t core = 0, memory = 0;             ///< granted: milli-cards, bytes
  std::map<std::string, std::string> pods;  ///< name by uid
};

/// -1 = unknown.
struct Used {
  int64_t memory = 0;     ///< bytes
  int64_t smPercent = 0;  ///< of the card's time
  int64_t processes = 0;
  bool operator==(const Used&) const = default;
};

/// What one pod uses of one card by one claim. pod "": none is known of the claim.
struct ClaimUse {
  std::string namespace_, claim, pod, card;
  Used used;
  int64_t core = 0, memory = 0;  ///< granted, as in Share
};
struct CardUse {
  std::string name, uuid, model;
  int64_t memory = 0;  ///< bytes that it has
  Used used;
  struct Device {
    Used used;
    int64_t granted = 0;  ///< bytes
  };
  std::map<std::string, Device> devices;  ///< by uid: all that are prepared on it
};
struct Usage {
  std::vector<CardUse> cards;
  std::vector<ClaimUse> claims;     ///< by namespace, claim, pod, card
  std::set<std::string> strangers;  ///< uids of pods that use a card by no claim that is known
};

/// The uid of the pod that a process is of; "" = of none, nullopt = the process is gone.
using PodOf = std::function<std::optional<std::string>(int64_t pid)>;

/// Whose the processes are. One of a pod that has no share of its card counts for the card only; of a pod that has
/// several, for the first by device uid. What one process is not known to use, its claim is not known to use.
Usage attribute(const std::vector<Reading>& readings, std::vector<Share> shares, const PodOf& podOf);

/// Whether a card's status is to say `after` in place of `before`: it moved noticeably (a twentieth of the card or of a
/// device's grant, to or from zero) and was last written at least `every` ago. now null: nothing is known of the card.
bool toTell(const core::Rare<v1alpha::CardUsage>& before, const CardUse* now, base::Clock::Wall wall,
            std::chrono::milliseconds every, core::Rare<v1alpha::CardUsage>& after);

}  // namespace egpu::agent::usage
