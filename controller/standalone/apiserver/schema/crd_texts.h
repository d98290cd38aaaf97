// Texts that CMake embeds into the binary, so that it needs no files beside it.
#pragma once

#include <string_view>
#include <vector>

namespace egpu::apiserver {

/// manifests/crd/*.yaml.
std::vector<std::string_view> crdTexts();
/// kinds/*.yaml beside this file: the built-in kinds, in the form of CRDs.
std::vector<std::string_view> builtinKindTexts();

}  // namespace egpu::apiserver
