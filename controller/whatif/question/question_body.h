// Decodes the body of a what-if question. Unlike the decoders of objects it refuses unknown fields, because users type
// questions by hand and a misspelt field must not be ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"

namespace egpu::whatif {

/// One hypothetical change of the cluster.
struct AskedStep {
  enum class Kind { drain, add, release, resize, create };
  Kind kind = Kind::drain;
  std::string name;                               ///< drain, add: node; release, resize: "claim" or "namespace/claim"
  int64_t count = 1;                              ///< add: number of nodes
  std::string like;                               ///< add: node to copy; empty = the nodes have `cards`
  std::vector<v1alpha::Card> cards;               ///< add: cards of each node; uuid and node name are empty
  core::StringMap requests;                       ///< resize
  std::optional<v1alpha::ElasticGPUClaim> claim;  ///< create
};

struct Document {
  std::string at;  ///< "document 2" in a body with several documents, otherwise empty
  std::optional<v1alpha::ElasticGPUClaim> claim;
  std::optional<core::Pod> pod;  ///< instead of a claim
  std::vector<AskedStep> steps;
  std::string otherKind;  ///< kind of an object that is neither a claim nor a pod; the other members are then empty
};

/// Decodes a question: an ElasticGPUClaim or a Pod as for `kubectl apply`, or a mapping such as
///
///   claim: {spec: {egpuClassName: c, resources: {requests: {elasticgpu.io/gpu-core: 30}}}}     # or pod: {…}
///   steps:
///   - drain: train-0
///   - add: {name: new, count: 2, like: train-1}      # or cards: [{model: T4, count: 4, memory: 16Gi, tflops: 65}]
///   - release: team-a/job
///   - resize: {claim: team-a/job, requests: {gpu-core: 40}}
///   - create: {…a claim…}
///
/// Both keys may be omitted. Fails with Code::invalid; the message names the field and the valid values. Claims are
/// checked only for names and types of fields.
base::Result<Document> decodeQuestion(std::string_view json);

/// Decodes all documents of a body, YAML or JSON, in their order. Each item of a List counts as a document. Objects of
/// other kinds are returned with otherKind, unless there are only such objects, which fails. Fails with Code::invalid;
/// the message names the document if there are several: "document 2: spec: is missing".
base::Result<std::vector<Document>> decodeQuestions(std::string_view body);

}  // namespace egpu::whatif
