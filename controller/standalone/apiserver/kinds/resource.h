// What a served kind is: names, scope, versions, schema, printer columns. Made from CRDs or built in; constant while
// the server runs.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"

namespace egpu::apiserver {

class Schema;

/// One column of `kubectl get`. type: string | integer | number | boolean | date; priority > 0 shows with -o wide only.
struct PrinterColumn {
  std::string name, type, format, description, jsonPath;
  int priority = 0;
};

/// A REST resource. Objects are stored in `storageVersion` and served in every one of `versions` with the apiVersion
/// exchanged.
struct Resource {
  std::string group;                  ///< "" for the core group
  std::vector<std::string> versions;  ///< served, the preferred one of discovery first
  std::string storageVersion;
  std::string kind, listKind, plural, singular;
  std::vector<std::string> shortNames, categories;
  bool namespaced = false;
  bool hasStatus = false;                     ///< status subresource: a write to one half leaves the other alone
  bool custom = false;                        ///< from a CRD: no strategic merge patch, PUT needs a resourceVersion
  std::vector<std::string> subresources;      ///< besides "status": pods have "binding", "eviction"
  nlohmann::json schema;                      ///< OpenAPI v3 of the whole object, with x-kubernetes-* extensions
  std::shared_ptr<const Schema> compiled;     ///< `schema`, made ready (schema.h)
  std::vector<PrinterColumn> columns;         ///< without the Name column
  std::vector<std::string> selectableFields;  ///< for field selectors, dotted without a leading dot: "spec.nodeName"

  std::string apiVersion(std::string_view version) const {
    return group.empty() ? std::string(version) : group + "/" + std::string(version);
  }
  /// "elasticgpus.elasticgpu.io", or "pods" for the core group: as real servers name it in messages.
  std::string qualified() const { return group.empty() ? plural : plural + "." + group; }
  bool serves(std::string_view version) const {
    for (const auto& v : versions)
      if (v == version) return true;
    return false;
  }
};

/// The kinds of one server, in the order they were added. Filled before it is shared, const (and so thread-safe)
/// afterwards. Pointers to its resources stay valid as long as the table lives.
class ResourceTable {
 public:
  /// A second resource of the same group and plural is Code::alreadyExists.
  base::Status add(Resource resource);
  /// Null if not served (in that version).
  const Resource* find(std::string_view group, std::string_view version, std::string_view plural) const;
  /// By kind, in whatever version; null if unknown. For owner references.
  const Resource* findKind(std::string_view group, std::string_view kind) const;
  const std::vector<std::unique_ptr<const Resource>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<const Resource>> all_;
};

}  // namespace egpu::apiserver
