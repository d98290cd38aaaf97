// Label and field selectors of a Kubernetes query.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// Selects the objects of a list, a watch or a deletecollection. Immutable once parsed.
class Selector {
 public:
  /// Parses selectors. labels: "a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1". fields: "metadata.name=x,spec.nodeName!=y",
  /// with the selectable fields of `resource` as keys. Fails with Code::malformed and a message for the user.
  static base::Result<Selector> parse(const Resource& resource, std::string_view labels, std::string_view fields);

  bool empty() const { return labels_.empty() && fields_.empty(); }
  bool matches(const nlohmann::json& object) const;

 private:
  struct LabelRequirement {
    enum class Op { in, notIn, exists, absent, greater, less } op;
    std::string key;
    std::vector<std::string> values;
    int64_t bound = 0;
  };
  struct FieldRequirement {
    std::vector<std::string> path;
    std::string value;
    bool equal;
  };
  // Each parses one requirement. parse() validates label keys and values.
  static base::Result<LabelRequirement> labelRequirement(std::string_view part);
  static base::Result<LabelRequirement> setRequirement(std::string_view part);  ///< "key in (a,b)"
  static base::Result<FieldRequirement> fieldRequirement(const Resource& resource, std::string_view fields,
                                                         std::string_view part);

  std::vector<LabelRequirement> labels_;
  std::vector<FieldRequirement> fields_;
};

}  // namespace egpu::apiserver
