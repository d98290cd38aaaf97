// Rules of this project's own kinds, which their CRDs contain in CEL. api/v1alpha implements the rules in C++.
#pragma once

#include <string>
#include <vector>

#include "controller/standalone/apiserver/schema/schema.h"
#include "controller/standalone/apiserver/storage/store.h"

namespace egpu::apiserver {

/// Returns the errors of `object`, and of the change from `old` if it is not null. Empty for kinds without such rules.
std::vector<FieldError> validateRules(const Resource& resource, const Json& object, const Json* old);

}  // namespace egpu::apiserver
