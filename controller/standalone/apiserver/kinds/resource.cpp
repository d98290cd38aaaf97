#include "controller/standalone/apiserver/kinds/resource.h"

#include <utility>

namespace egpu::apiserver {

base::Status ResourceTable::add(Resource resource) {
  for (const auto& r : all_)
    if (r->group == resource.group && r->plural == resource.plural)
      return {base::Code::alreadyExists, resource.qualified() + " is defined twice"};
  all_.push_back(std::make_unique<const Resource>(std::move(resource)));
  return {};
}

const Resource* ResourceTable::find(std::string_view group, std::string_view version, std::string_view plural) const {
  for (const auto& r : all_)
    if (r->group == group && r->plural == plural && r->serves(version)) return r.get();
  return nullptr;
}

}  // namespace egpu::apiserver
