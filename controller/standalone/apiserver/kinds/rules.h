// The rules of this project's own kinds, which their CRDs state in CEL: decoded once and judged by api/v1alpha.
#pragma once

#include <string>
#include <vector>

#include "controller/standalone/apiserver/schema/schema.h"
#include "controller/standalone/apiserver/storage/store.h"

namespace egpu::apiserver {

/// Errors of `object`, and of the change from `old` if not null. Empty for kinds without such rules.
std::vector<FieldError> validateRules(const Resource& resource, const Json& object, const Json* old);

}  // namespace egpu::apiserver
