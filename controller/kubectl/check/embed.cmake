# Writes OUTPUT, a C++ file with the texts of the manifests FILES.
include(${CMAKE_CURRENT_LIST_DIR}/../../embed_text.cmake)
set(result "")
foreach(file ${FILES})
  file(READ ${file} text)
  egpu_string_literal("${text}" literal)
  string(APPEND result "      std::string_view(\n${literal}),\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"controller/kubectl/check/expected.h\"

namespace egpu::kubectl {
std::vector<std::string_view> manifestTexts() {
  return {
${result}  };
}
}  // namespace egpu::kubectl
")
