// Description of a served kind: names, scope, versions, schema, printer columns. Created from CRDs and from the
// built-in kinds; constant while the server runs.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::apiserver {

class Schema;

/// Column of `kubectl get`. type: string | integer | number | boolean | date. priority > 0: only with -o wide.
struct PrinterColumn {
  std::string name, type, format, description, jsonPath;
  int priority = 0;
};

/// REST resource. Objects are stored in `storageVersion` and served in each of `versions`; only their apiVersion
/// differs.
struct Resource {
  std::string group;                  ///< "" for the core group
  std::vector<std::string> versions;  ///< served versions; the first is the preferred one in discovery
  std::string storageVersion;
  std::string kind, listKind, plural, singular;
  std::vector<std::string> shortNames, categories;
  bool namespaced = false;
  bool hasStatus = false;                     ///< status subresource: writes change either the status or the rest
  bool custom = false;                        ///< from a CRD: no strategic merge patch, PUT needs a resourceVersion
  std::vector<std::string> subresources;      ///< besides "status": pods have "binding", "eviction"
  nlohmann::json schema;                      ///< OpenAPI v3 of the whole object, with x-kubernetes-* extensions
  std::shared_ptr<const Schema> compiled;     ///< `schema` in compiled form (schema.h)
  std::vector<PrinterColumn> columns;         ///< without the Name column
  std::vector<std::string> selectableFields;  ///< for field selectors, dotted without a leading dot: "spec.nodeName"

  std::string apiVersion(std::string_view version) const {
    return group.empty() ? std::string(version) : group + "/" + std::string(version);
  }
  /// Returns the name as in messages of real servers: "elasticgpus.elasticgpu.io", or "pods" in the core group.
  std::string qualified() const { return group.empty() ? plural : plural + "." + group; }
  bool serves(std::string_view version) const {
    for (const auto& v : versions)
      if (v == version) return true;
    return false;
  }
};

/// Kinds of one server, in the order in which they were added. Filled before it is shared between threads and constant
/// afterwards, so it needs no lock. Pointers to its resources stay valid as long as the table exists.
class ResourceTable {
 public:
  /// Adds a resource. Fails with Code::alreadyExists if there is one with the same group and plural.
  base::Status add(Resource resource);
  /// Returns a resource, or null if it is not served in this version.
  const Resource* find(std::string_view group, std::string_view version, std::string_view plural) const;
  const std::vector<std::unique_ptr<const Resource>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<const Resource>> all_;
};

}  // namespace egpu::apiserver
