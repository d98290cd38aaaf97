# Writes OUTPUT, a C++ file with the texts of FILES, the files of the page. They must be ASCII.
include(${CMAKE_CURRENT_LIST_DIR}/../../embed_text.cmake)
set(entries "")
foreach(file ${FILES})
  file(READ ${file} text)
  if(text MATCHES "[^\t\n -~]")
    message(FATAL_ERROR "${file} contains characters that are not ASCII: write them as \\u escapes or HTML entities")
  endif()
  get_filename_component(name ${file} NAME)
  egpu_string_literal("${text}" literal)
  string(APPEND entries "    {\"${name}\",\n${literal}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"controller/server/page/page.h\"

namespace egpu::server {
std::vector<PageFile> pageFiles() {
  return {
${entries}  };
}
}  // namespace egpu::server
")
