# Writes OUTPUT, a C++ file with the texts of the manifests FILES. Raw literals in pieces: compilers limit one literal's length.
set(result "")
foreach(file ${FILES})
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
file(WRITE ${OUTPUT} "#include \"controller/kubectl/check/expected.h\"

namespace egpu::kubectl {
std::vector<std::string_view> manifestTexts() {
  return {
${result}  };
}
}  // namespace egpu::kubectl
")
