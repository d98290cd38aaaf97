// What would happen if: steps tried one after the other on a copy of the cluster, with the claims that are on it and
// those that wait for room. Nothing outside the copy changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "controller/base/status.h"
#include "controller/scheduler/decide.h"
#include "controller/scheduler/explain.h"
#include "controller/scheduler/quota/book.h"
#include "controller/scheduler/resize.h"
#include "controller/scheduler/state/holdings.h"

namespace egpu::scheduler {

/// A claim as these questions see it.
struct ClaimRecord {
  std::string name;                ///< "namespace/name"
  std::string device;              ///< the uid its allocations stand under; empty = it has nothing
  std::optional<Request> request;  ///< what it asks for; nothing = it is never placed anew, because of `why`
  std::string why;
  NodePredicate suits;  ///< what its pod asks of a node; null = any
  std::string className{};
  /// What would do, if several things would: placed anew it gets the first that fits. `request` is the one that it has, else
  /// the first.
  std::vector<Request> alternatives{};
  WhyUnsuited whyUnsuited{};  ///< why `suits` rejects a node
};

/// Where a question starts, or has led to.
struct Situation {
  Cluster cluster;
  std::vector<ClaimRecord> claims;
  QuotaBook quotas{};  ///< holders are devices, as the cluster has them
};

/// Nothing more is placed there, and what is there moves: the largest claims first, because they are the hardest.
struct DrainNode {
  std::string node;
};
/// Nodes with empty cards.
struct AddNodes {
  std::string name;                               ///< of count > 1: name-0, name-1, …
  int64_t count = 1;                              ///< 1 … kMostNodes
  std::string like;                               ///< a node to copy cards, CPU and memory from; empty = as below
  std::vector<v1alpha::Card> cards;               ///< by index; uuid and node are set here
  NodeAmount capacity;                            ///< 0 = unknown
  static constexpr int64_t kMostNodes = 100'000;  ///< of all steps together, as of
  static constexpr int64_t kMostCards = 100'000;
};
/// The claim goes, and gives back what it has.
struct ReleaseClaim {
  std::string claim;
};
/// The claim asks for something else and keeps its cards: resize.h.
struct ResizeClaim {
  std::string claim;
  Request request;
  std::string refused{};  ///< why nobody would do it; it is tried all the same
  bool runs = false;  ///< pods of its run, and keep the limits that they began with: what it gives back is not free yet
  std::string undecided{};      ///< why it is not placed anew, whatever it asks for; empty: it is
  std::string refusedToGrow{};  ///< as refused, if it takes more of a card than it has
  /// Room on its cards that is kept for others, and why its node is: it doesn't grow into either.
  std::vector<Holding> kept{};
  std::string nodeKept{};
};
/// A new claim.
struct CreateClaim {
  ClaimRecord claim;  ///< without device
};
using Step = std::variant<DrainNode, AddNodes, ReleaseClaim, ResizeClaim, CreateClaim>;

/// What became of one claim.
struct Placed {
  std::string claim;
  std::string from;  ///< node; empty = it had nothing
  Decision to;       ///< fits = false: nowhere, because of `why`
  std::string why;
  bool operator==(const Placed&) const = default;
};

struct StepReport {
  std::vector<std::string> nodes;  ///< drained or added
  std::vector<Placed> moved;       ///< claims of a drained node
  std::optional<Placed> released;  ///< `from`: where it was
  std::optional<Resizing> resized;
  std::optional<Placed> created;
  std::vector<Placed> bound;  ///< claims that waited and found room after this step
  int64_t waiting = 0;        ///< claims that wait for room after it
};

struct WhatIf {
  std::vector<Placed> before;  ///< claims that waited and fit without any step
  std::vector<StepReport> steps;
  Situation after;
};

/// Claims that wait are tried after each step, in the order of their names, as the controller does, and within the quotas
/// of their namespaces, as are resizes. A claim that a
/// drain leaves without a place waits from then on; one that can't be resized in place stays as it is. Code::notFound
/// and Code::invalid name the step ("steps[1].release: …"). `pause` is called between decisions, and may throw to give
/// the question up.
base::Result<WhatIf> whatIf(Situation situation, const std::vector<Step>& steps, const Pause& pause = {});

}  // namespace egpu::scheduler
