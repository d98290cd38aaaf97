// Answers what-if questions: applies steps one after the other to a copy of the cluster, with its bound and pending
// claims. Only the copy changes.
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

/// A claim in a what-if question.
struct ClaimRecord {
  std::string name;                ///< "namespace/name"
  std::string device;              ///< uid of its allocations; empty = it has none
  std::optional<Request> request;  ///< nullopt = the claim cannot be decided, because of `why`
  std::string why;
  NodePredicate suits;  ///< constraints of its pod on nodes; null = any
  std::string className{};
  /// All its alternatives, if it has several. A new decision takes the first that fits. `request` is the alternative
  /// that it has, or the first.
  std::vector<Request> alternatives{};
  WhyUnsuited whyUnsuited{};  ///< why `suits` rejects a node
};

/// The state before or after the steps.
struct Situation {
  Cluster cluster;
  std::vector<ClaimRecord> claims;
  QuotaBook quotas{};  ///< holders are devices, as in the cluster
};

/// Makes the node unschedulable and moves its claims, the largest first, because they are the hardest to place.
struct DrainNode {
  std::string node;
};
/// Adds nodes with empty cards.
struct AddNodes {
  std::string name;                  ///< with count > 1: name-0, name-1, …
  int64_t count = 1;                 ///< 1 … kMaxNodes
  std::string like;                  ///< node whose cards, CPU and memory are copied; empty = the fields below
  std::vector<v1alpha::Card> cards;  ///< by index; uuid and node are set by the step
  NodeAmount capacity;               ///< 0 = unknown
  static constexpr int64_t kMaxNodes = 100'000;  ///< for all steps together; kMaxCards too
  static constexpr int64_t kMaxCards = 100'000;
};
/// Deletes a claim and releases its cards.
struct ReleaseClaim {
  std::string claim;
};
/// Changes the request of a claim that keeps its cards; see resize.h.
struct ResizeClaim {
  std::string claim;
  Request request;
  std::string refused{};        ///< why it would be rejected; it is tried nevertheless
  bool runs = false;            ///< its pods run and keep their old limits: released capacity is not free yet
  std::string undecided{};      ///< why the new request cannot be decided; empty = it can
  std::string refusedToGrow{};  ///< like `refused`, for resizes that grow on some card
  /// Capacity reserved for other claims on its cards, and why its node is reserved: it cannot grow into either.
  std::vector<Holding> holdings{};
  std::string nodeReservedText{};
};
/// Adds a claim.
struct CreateClaim {
  ClaimRecord claim;  ///< without device
};
using Step = std::variant<DrainNode, AddNodes, ReleaseClaim, ResizeClaim, CreateClaim>;

/// Result for one claim.
struct Placed {
  std::string claim;
  std::string from;  ///< node; empty = it had no device
  Decision to;       ///< fits = false: it fits nowhere, because of `why`
  std::string why;
  bool operator==(const Placed&) const = default;
};

struct StepReport {
  std::vector<std::string> nodes;  ///< drained or added nodes
  std::vector<Placed> moved;       ///< claims of a drained node
  std::optional<Placed> released;  ///< `from` is its node
  std::optional<Resizing> resized;
  std::optional<Placed> created;
  std::vector<Placed> bound;  ///< pending claims that fit after this step
  int64_t waiting = 0;        ///< number of claims still pending after this step
};

struct WhatIf {
  std::vector<Placed> before;  ///< pending claims that fit without any step
  std::vector<StepReport> steps;
  Situation after;
};

/// Applies the steps. Pending claims are tried after each step in the order of their names. They and resizes are
/// decided within the quotas of their namespaces. A claim that a drain leaves without a place is pending from then on;
/// a claim that cannot be resized in place keeps its amounts. Code::notFound and Code::invalid name the step
/// ("steps[1].release: …"). `pause` is called between decisions, and can throw to abort.
base::Result<WhatIf> whatIf(Situation situation, const std::vector<Step>& steps, const Pause& pause = {});

}  // namespace egpu::scheduler
