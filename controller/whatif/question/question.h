// A what-if question as received: parameters and documents of the body, parsed, not yet looked up in the stores.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/http/http.h"
#include "controller/whatif/question/pod_subject.h"
#include "controller/whatif/question/question_body.h"
#include "controller/whatif/question/steps.h"
#include "controller/whatif/question/subject.h"
#include "controller/whatif/render/text_table.h"

namespace egpu::whatif {

/// Errors are Code::invalid and name the field and the valid values, or Code::notFound. Those in the body begin with
/// "body: " and the document if there are several.
struct Question {
  /// Parses parameters and body. The path decides which of them are known.
  static base::Result<Question> read(const http::Request& request);

  QueryFields fields;
  std::vector<AskedStep> stepsOfQuery;
  std::vector<Document> documents;  ///< from the body
  std::vector<v1alpha::ElasticGPUClaim> claimsOfBody;
  Document document;  ///< the one being answered, followed by the steps of the query
  std::string claim, node;
  std::string space{kDefaultNamespace};  ///< namespace of claims that name none
  std::optional<std::size_t> names;
  std::size_t top = 5;
  std::optional<std::size_t> moves;  ///< maximum number of moves
  bool evictable = false;            ///< consider only claims that evictions can move
  bool text = false, yaml = false;
  TextStyle style;
  /// Number of rejected nodes and cards to name per stage: people want a few examples, programs can skip names.
  std::size_t namesShown() const { return names.value_or(text ? 5 : 20); }

  /// Selects one document of the body, or the question without a body.
  void select(const Document& one);
  /// Returns the claim that the question is about; none if it names no claim in any form.
  base::Result<std::optional<Subject>> subject(const cache::Stores& stores) const;
  /// Returns the Pod that the question is about.
  base::Result<PodSubject> pod(const cache::Stores& stores) const;
  /// True if the body has documents, and each is a Pod.
  bool onlyPods() const;
  /// Returns the request of the subject, pinned to the node of the question if there is one.
  scheduler::Request requestOf(const Subject& subject) const;
  /// Returns the namespace whose quotas apply to the subject.
  std::string spaceOf(const Subject& subject) const;
  /// True if the question names a namespace, directly or by a claim: then its quotas limit the forecast.
  bool ofSpace(const Subject& subject) const;
  /// Adds the document's position to an error in a step that came in the body.
  base::Status ofStep(const base::Status& status) const;

 private:
  base::Status set(const std::string& key, const std::string& value);
  base::Status readBody(std::string_view path, const std::string& body);
  core::ObjectKey keyOf(const core::ObjectMeta& object) const;
  /// Adds the position of the document being answered, and its object, to an error.
  base::Status inDocument(const base::Status& status, const char* kind = "", const core::ObjectMeta& object = {}) const;
};

}  // namespace egpu::whatif
