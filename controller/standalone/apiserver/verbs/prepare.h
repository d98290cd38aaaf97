// Converts the body of a request to the object to store: decoding, system-owned fields, pruning, defaults, admission,
// validation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/ids.h"
#include "controller/standalone/apiserver/schema/schema.h"
#include "controller/standalone/apiserver/server.h"
#include "controller/standalone/apiserver/verbs/call.h"

namespace egpu::apiserver {

using Warnings = std::vector<std::string>;

/// Returns the body of a request as JSON, from any supported content type. Throws ApiError 400, 413, 415. duplicates:
/// if not null, receives duplicate keys.
Json decodeBody(std::string_view text, std::string_view contentType, std::vector<std::string>* duplicates);

/// Prepares objects for the store. Thread-safe. All calls throw ApiError.
class Preparation {
 public:
  static base::Result<std::unique_ptr<Preparation>> create(const ResourceTable& table, std::vector<Admission> admission,
                                                           base::Clock& clock, base::Random& random);

  /// Returns the object in the body of a POST or PUT. Its kind and version must be those of the path.
  Json readObject(const RequestInfo& call, Warnings& warnings) const;
  /// Returns a new object in the storage version, ready to be stored.
  Json forCreate(const RequestInfo& call, Json object, Warnings& warnings) const;
  /// Returns the result of changing `old` to `fresh` (in any served version) by a PUT or PATCH, ready to be stored.
  /// Equal to the body of `old` if nothing changes. replaces: the request is a PUT, which needs a resourceVersion for
  /// some kinds.
  Json forUpdate(const RequestInfo& call, const Object& old, Json fresh, bool replaces, Warnings& warnings) const;
  /// Validates the rules of an object that the server itself changed, such as by a binding. Without field validation
  /// and admission.
  void validate(const Resource& resource, const Json& object, const Json* old) const;

 private:
  Preparation(std::vector<Admission> admission, base::Clock& clock, base::Random& random);
  void prune(const RequestInfo& call, Json& object, Warnings& warnings) const;
  void admit(const RequestInfo& call, const char* operation, Json& object, const Json* old) const;

  const std::vector<Admission> admission_;
  base::Clock& clock_;
  base::Random& random_;
  std::unordered_map<const Resource*, std::shared_ptr<const Schema>> schemas_;
};

}  // namespace egpu::apiserver
