// CustomResourceDefinitions (apiextensions.k8s.io/v1) → Resources.
#pragma once

#include <string_view>

#include "controller/base/status.h"
#include "controller/standalone/apiserver/kinds/resource.h"

namespace egpu::apiserver {

/// One CustomResourceDefinition, as YAML or JSON text. All its served versions must have the same schema and columns
/// (conversion strategy None); the schema is compiled. Code::invalid names what is wrong.
base::Result<Resource> loadCrd(std::string_view yaml);

/// All of crdTexts() added to `table`.
base::Status addCustomKinds(ResourceTable& table);

}  // namespace egpu::apiserver
