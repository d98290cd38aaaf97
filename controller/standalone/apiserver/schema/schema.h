// Structural OpenAPI v3 schemas of CRDs: pruning, defaults and validation, with the messages of a real API server. CEL
// (x-kubernetes-validations) is not evaluated here; api/v1alpha/validation.h implements those rules in C++.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::apiserver {

/// Entry of Status.details.causes. `message` does not contain the field: `Invalid value: "x": must be …`.
struct FieldError {
  std::string reason;  ///< FieldValueInvalid, FieldValueRequired, …
  std::string field;   ///< path, such as spec.containers[0].name
  std::string message;
  bool operator==(const FieldError&) const = default;
};

// These functions return FieldErrors with the wording of the API machinery. Values are cut after 256 bytes.
FieldError invalidField(std::string field, const nlohmann::json& value, std::string_view detail);
FieldError typeInvalidField(std::string field, const nlohmann::json& value, std::string_view detail);
FieldError requiredField(std::string field, std::string_view detail = {});
FieldError notSupportedField(std::string field, const nlohmann::json& value, const std::vector<std::string>& supported);
FieldError duplicateField(std::string field, const nlohmann::json& value);
FieldError forbiddenField(std::string field, std::string_view detail);
FieldError tooLongField(std::string field, int64_t maxBytes);
FieldError tooManyField(std::string field, int64_t actual, int64_t max);

/// Returns the text that follows "… is invalid: ": `spec.x: Invalid value: …`. Several errors are in brackets,
/// separated by commas.
std::string joinErrors(const std::vector<FieldError>& errors);

struct SchemaNode;

/// A compiled schema. Immutable, so thread-safe. The recursion depth is limited by the schema, not by the value.
class Schema {
 public:
  /// Compiles a schema. Fails with Code::invalid for a keyword that this class does not enforce, so that no rule is
  /// silently ignored.
  static base::Result<std::shared_ptr<const Schema>> compile(const nlohmann::json& openApi);
  /// Like compile(), but for the schema of a whole object: adds apiVersion, kind and the common ObjectMeta.
  static base::Result<std::shared_ptr<const Schema>> compileObject(const nlohmann::json& openApi);
  ~Schema();

  /// Removes fields that the schema does not contain, and nulls that it does not allow. Returns the paths of at most 64
  /// unknown fields ("spec.foo", "spec.containers[0].bar") for strict field validation.
  std::vector<std::string> prune(nlohmann::json& value) const;
  /// Sets absent fields to their `default`. emptyIsAbsent: an empty string counts as absent, as in built-in kinds,
  /// because their Go types do not distinguish the two.
  void applyDefaults(nlohmann::json& value, bool emptyIsAbsent = false) const;
  /// Returns the violations, at most 32.
  std::vector<FieldError> validate(const nlohmann::json& value) const;

 private:
  explicit Schema(std::unique_ptr<SchemaNode> root);
  std::unique_ptr<SchemaNode> root_;
};

/// Returns the OpenAPI v3 schema of metadata (ObjectMeta), which all kinds share.
const nlohmann::json& objectMetaSchema();

/// True if objects and arrays are nested at most `depth` levels deep. Values of clients must be limited so, because
/// serialisation and copying recurse. This function does not recurse.
bool nestsWithin(const nlohmann::json& value, int depth = 256);

}  // namespace egpu::apiserver
