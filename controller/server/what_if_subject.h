// What one question is about: a claim that is there, or one that might be.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/what_if.h"

namespace egpu::server {

using QueryFields = std::vector<std::pair<std::string, std::string>>;

struct WhatIfSubject {
  std::string claim;  ///< "namespace/name"; empty if it has no name yet
  bool exists = false;
  std::string phase, node, device;  ///< of one that exists, as its status says
  std::string said;                 ///< the message of its Bound (or Accepted) condition, if that is False
  std::string className;
  bool immediate = false;  ///< the claim is bound before its pods' node selectors and other claims are read
  std::string notReady;    ///< why its class can't give anything now; empty if it can
  core::StringMap requests;
  std::string requestText() const;  ///< as requestsText()

  /// What would do, if several things would (spec.firstAvailable): names and requests. `request` is the one that it has, or that
  /// this is about.
  std::vector<v1alpha::ClaimAlternative> named;
  std::vector<scheduler::Request> alternatives;
  /// Makes it about the first that `fits`. None: it stays about the first. Says so in `note`.
  void chooseFirst(const std::function<bool(const scheduler::Request&)>& fits);
  /// Makes it about that one.
  void choose(std::size_t which);

  std::optional<scheduler::Request> request;  ///< none: nothing can be decided for it, because of `why`
  std::string why;      ///< with a request: what it waits for beside room, its first pod or its gang; may be empty
  bool inGang = false;  ///< it waits, and is decided with others
  scheduler::NodePredicate suits;
  scheduler::WhyUnsuited whyUnsuited{};  ///< why `suits` rejects a node
  std::string note;                      ///< what the answer leaves out of account; may be empty
  std::string quota;                     ///< what a quota of its namespace says against it; may be empty
};

/// A claim that is there. Code::notFound.
base::Result<WhatIfSubject> existingSubject(const cache::Stores& stores, const core::ObjectKey& claim);

/// A claim as one would apply it, in that namespace if it names none; without any, classes are open to it.
/// Code::invalid names the field and what is valid.
base::Result<WhatIfSubject> wouldBeSubject(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim,
                                           const std::string& space);

/// A claim of parameters: class, gpu, gpu-core, gpu-memory, tflops, card. Nothing if none of these is among the fields.
std::optional<v1alpha::ElasticGPUClaim> claimOfFields(const QueryFields& fields);

inline constexpr std::string_view kDefaultNamespace = "default";
/// "name" of that namespace, or "namespace/name".
core::ObjectKey claimKeyOf(const std::string& text, const std::string& space);

/// Requests without their prefix, for people: "gpu-core 40, gpu-memory 8Gi".
std::string requestsText(const core::StringMap& requests);
/// These requests with some of them changed; the keys of changes may lack their prefix. What isn't named stays, but for
/// gpu-core and tflops, which are two words for one thing. An empty amount takes a request away.
core::StringMap changedRequests(core::StringMap requests, const core::StringMap& changes);
/// What a claim that is there, or has been changed, asks of the scheduler. Code::invalid.
base::Result<scheduler::Request> requestOf(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim);

}  // namespace egpu::server
