# Writes OUTPUT, a C++ file with the texts of FILES, the files of the page. Raw literals in pieces: compilers limit one
# literal's length. The files are ASCII, so that no piece ends within a character.
set(entries "")
foreach(file ${FILES})
  file(READ ${file} text)
  if(text MATCHES "[^\t\n -~]")
    message(FATAL_ERROR "${file} has characters beyond ASCII: write them as \\u escapes or HTML entities")
  endif()
  get_filename_component(name ${file} NAME)
  string(LENGTH "${text}" length)
  set(at 0)
  string(APPEND entries "    {\"${name}\",\n")
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND entries "R\"egpu_page(${piece})egpu_page\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  string(APPEND entries "},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"controller/server/page/page.h\"

namespace egpu::server {
std::vector<PageFile> pageFiles() {
  return {
${entries}  };
}
}  // namespace egpu::server
")
