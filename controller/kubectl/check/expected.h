// The objects that an installation of this version has: the manifests, embedded in the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controller/kubectl/connection.h"

namespace egpu::kubectl {

/// Texts of manifests/crd, manifests/rbac, manifests/admission (with mutating, without optional) and manifests/deploy.
std::vector<std::string_view> manifestTexts();

/// Returns the objects of a kind in the manifests.
std::vector<Json> expectedObjects(const std::string& kind);

/// CEL rules of a CustomResourceDefinition, sorted, each once.
std::vector<std::string> celRules(const Json& crd);

}  // namespace egpu::kubectl
