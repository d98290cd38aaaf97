// Texts that CMake embeds into the binary, so that it needs no further files.
#pragma once

#include <string_view>
#include <vector>

namespace egpu::apiserver {

/// Returns the texts of manifests/crd/*.yaml.
std::vector<std::string_view> crdTexts();
/// Returns the texts of apiserver/kinds/*.yaml, the built-in kinds in the form of CRDs.
std::vector<std::string_view> builtinKindTexts();

}  // namespace egpu::apiserver
