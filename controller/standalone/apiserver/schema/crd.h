// Converts CustomResourceDefinitions (apiextensions.k8s.io/v1) to Resources.
#pragma once

#include <string_view>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// Loads one CustomResourceDefinition from YAML or JSON text and compiles its schema. All its served versions must have
/// the same schema and columns (conversion strategy None). Fails with Code::invalid and the reason.
base::Result<Resource> loadCrd(std::string_view yaml);

/// Adds all CRDs of crdTexts() to `table`.
base::Status addCustomKinds(ResourceTable& table);

}  // namespace egpu::apiserver
