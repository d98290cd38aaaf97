// The claim that a question is about: an existing one, or a hypothetical one.
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

namespace egpu::whatif {

using QueryFields = std::vector<std::pair<std::string, std::string>>;

struct Subject {
  std::string claim;  ///< "namespace/name"; empty if the claim has no name
  bool exists = false;
  std::string phase, node, device;  ///< state of an existing claim, from its status
  std::string problem;              ///< reason and message of the claim's condition that reports a problem
  std::string className;
  bool immediate = false;  ///< the claim is bound before its pods' node selectors and other claims are read
  std::string notReady;    ///< why the class can't serve claims now; empty if it can
  core::StringMap requests;
  std::string requestText() const;  ///< Returns requestsText() of `requests`.

  /// Alternatives (spec.firstAvailable): names and requests. `request` is one of them: the chosen one.
  std::vector<v1alpha::ClaimAlternative> named;
  std::vector<scheduler::Request> alternatives;
  /// Chooses the first alternative that `fits`, or the first one if none fits. Reports it in `note`.
  void chooseFirst(const std::function<bool(const scheduler::Request&)>& fits);
  /// Chooses that alternative.
  void choose(std::size_t which);

  std::optional<scheduler::Request> request;  ///< none: the scheduler can't decide the claim, because of `why`
  std::string why;      ///< with a request: the event besides capacity that the claim waits for, its first pod or its
                        ///< gang; may be empty
  bool inGang = false;  ///< the claim is pending and decided together with its gang
  scheduler::NodePredicate suits;
  scheduler::WhyUnsuited whyUnsuited{};  ///< why `suits` rejects a node
  std::string note;                      ///< limits of the answer, for people; may be empty
  std::string quota;                     ///< why a quota of its namespace stops the claim; may be empty
};

/// Returns an existing claim. Error: Code::notFound.
base::Result<Subject> existingSubject(const cache::Stores& stores, const core::ObjectKey& claim);

/// Returns a claim as a user would apply it; `space` is the namespace if the claim names none. If both are empty,
/// classes are open to it. Code::invalid names the field and the valid values.
base::Result<Subject> wouldBeSubject(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim,
                                     const std::string& space);

/// Returns a claim built from the parameters class, gpu, gpu-core, gpu-memory, tflops, card; none if no such field is
/// given.
std::optional<v1alpha::ElasticGPUClaim> claimOfFields(const QueryFields& fields);

inline constexpr std::string_view kDefaultNamespace = "default";
/// Parses "name" in that namespace, or "namespace/name".
core::ObjectKey claimKeyOf(const std::string& text, const std::string& space);

/// Returns the requests without their prefix, for messages: "gpu-core 40, gpu-memory 8Gi".
std::string requestsText(const core::StringMap& requests);
/// Returns the requests with the changes applied; keys of changes may lack their prefix. Other requests stay, but
/// gpu-core and tflops replace each other because both mean compute. An empty amount removes a request.
core::StringMap changedRequests(core::StringMap requests, const core::StringMap& changes);
/// Returns the scheduler request of an existing or changed claim. Error: Code::invalid.
base::Result<scheduler::Request> requestOf(const cache::Stores& stores, const v1alpha::ElasticGPUClaim& claim);

}  // namespace egpu::whatif
