# Writes OUTPUT, a C++ file with the texts of the files CRDS and KINDS. Raw literals in pieces: compilers limit one literal's length.
function(literals files out)
  set(result "")
  foreach(file ${files})
    file(READ ${file} text)
    string(LENGTH "${text}" length)
    set(at 0)
    string(APPEND result "      std::string_view(\n")
    while(at LESS length)
      string(SUBSTRING "${text}" ${at} 12000 piece)
      string(APPEND result "R\"yaml(${piece})yaml\"\n")
      math(EXPR at "${at} + 12000")
    endwhile()
    string(APPEND result "),\n")
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
