// The body of a what-if question as values. Strict, unlike the decoders of objects: a question is typed by hand, and a
// misspelt field must not pass for a field that was left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::codec {

/// One thing to try.
struct WhatIfStep {
  enum class Kind { drain, add, release, resize, create };
  Kind kind = Kind::drain;
  std::string name;                               ///< drain, add: node; release, resize: "claim" or "namespace/claim"
  int64_t count = 1;                              ///< add: so many nodes
  std::string like;                               ///< add: the node to copy; empty = `cards`
  std::vector<v1alpha::Card> cards;               ///< add: of each node; uuid and node are left empty
  core::StringMap requests;                       ///< resize
  std::optional<v1alpha::ElasticGPUClaim> claim;  ///< create
};

struct WhatIfQuestion {
  std::string at;  ///< "document 2" of a body of several; else empty
  std::optional<v1alpha::ElasticGPUClaim> claim;
  std::optional<core::Pod> pod;  ///< instead of a claim
  std::vector<WhatIfStep> steps;
  std::string otherKind;  ///< the kind of an object that nothing can be asked about; then the rest is empty
};

/// Either an ElasticGPUClaim or a Pod as one would apply it, or
///
///   claim: {spec: {egpuClassName: c, resources: {requests: {elasticgpu.io/gpu-core: 30}}}}     # or pod: {…}
///   steps:
///   - drain: train-0
///   - add: {name: new, count: 2, like: train-1}      # or cards: [{model: T4, count: 4, memory: 16Gi, tflops: 65}]
///   - release: team-a/job
///   - resize: {claim: team-a/job, requests: {gpu-core: 40}}
///   - create: {…a claim…}
///
/// both may be left out. Code::invalid names the field and what is valid there; claims are not validated beyond their
/// fields' names and types.
base::Result<WhatIfQuestion> decodeQuestion(std::string_view json);

/// A body of any number of documents, YAML or JSON, in their order; a List's items count as documents. Objects of other
/// kinds are passed over if there is anything else (otherKind). Code::invalid names the document, if there are several:
/// "document 2: spec: is missing".
base::Result<std::vector<WhatIfQuestion>> decodeQuestions(std::string_view body);

}  // namespace egpu::codec
