# Writes OUTPUT, a C++ file with the texts of the files CRDS and KINDS.
include(${CMAKE_CURRENT_LIST_DIR}/../../embed_text.cmake)

function(literals files out)
  set(result "")
  foreach(file ${files})
    file(READ ${file} text)
    egpu_string_literal("${text}" literal)
    string(APPEND result "      std::string_view(\n${literal}),\n")
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

literals("${CRDS}" crds)
literals("${KINDS}" kinds)
file(WRITE ${OUTPUT} "#include \"controller/standalone/apiserver/schema/crd_texts.h\"

namespace egpu::apiserver {
std::vector<std::string_view> crdTexts() {
  return {
${crds}  };
}
std::vector<std::string_view> builtinKindTexts() {
  return {
${kinds}  };
}
}  // namespace egpu::apiserver
")
