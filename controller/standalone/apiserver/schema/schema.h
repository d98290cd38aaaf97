// Structural OpenAPI v3 schemas as CRDs have them: pruning, defaults and validation, worded as a real API server words
// them. CEL (x-kubernetes-validations) is not evaluated here; api/v1alpha/validation.h states those rules in C++.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::apiserver {

/// One entry of Status.details.causes. `message` is without the field: `Invalid value: "x": must be …`.
struct FieldError {
  std::string reason;  ///< FieldValueInvalid, FieldValueRequired, …
  std::string field;   ///< spec.containers[0].name
  std::string message;
  bool operator==(const FieldError&) const = default;
};

// Makers of FieldErrors with the API machinery's wording. Values longer than 256 bytes are cut in the text.
FieldError invalidField(std::string field, const nlohmann::json& value, std::string_view detail);
FieldError typeInvalidField(std::string field, const nlohmann::json& value, std::string_view detail);
FieldError requiredField(std::string field, std::string_view detail = {});
FieldError notSupportedField(std::string field, const nlohmann::json& value, const std::vector<std::string>& supported);
FieldError duplicateField(std::string field, const nlohmann::json& value);
FieldError forbiddenField(std::string field, std::string_view detail);
FieldError tooLongField(std::string field, int64_t maxBytes);
FieldError tooManyField(std::string field, int64_t actual, int64_t max);

/// `spec.x: Invalid value: …`, several in brackets with commas: what follows "… is invalid: ".
std::string joinErrors(const std::vector<FieldError>& errors);

struct SchemaNode;

/// A compiled schema; immutable, so thread-safe. All walks are bounded by the schema's own depth, never by the value's.
class Schema {
 public:
  /// A keyword that is not enforced here is Code::invalid: a rule that nobody checks must not look like one.
  static base::Result<std::shared_ptr<const Schema>> compile(const nlohmann::json& openApi);
  /// The schema of a whole object: as compile, with apiVersion, kind and the common ObjectMeta put in.
  static base::Result<std::shared_ptr<const Schema>> compileObject(const nlohmann::json& openApi);
  ~Schema();

  /// Removes fields the schema does not know, and nulls where the schema allows none. Returns the unknown fields' paths
  /// ("spec.foo", "spec.containers[0].bar"), at most 64 of them, for strict field validation.
  std::vector<std::string> prune(nlohmann::json& value) const;
  /// Fills in `default`s of absent fields. emptyIsAbsent: an empty string counts as absent. It does in built-in kinds,
  /// because their Go types store both alike.
  void applyDefaults(nlohmann::json& value, bool emptyIsAbsent = false) const;
  /// All violations, at most 32.
  std::vector<FieldError> validate(const nlohmann::json& value) const;

 private:
  explicit Schema(std::unique_ptr<SchemaNode> root);
  std::unique_ptr<SchemaNode> root_;
};

/// OpenAPI v3 of metadata (ObjectMeta), shared by all kinds.
const nlohmann::json& objectMetaSchema();

/// Whether at most `depth` objects and arrays stand inside each other (dumping and copying recurse, so what is let in
/// must be bounded). Does not recurse itself.
bool nestsWithin(const nlohmann::json& value, int depth = 256);

}  // namespace egpu::apiserver
