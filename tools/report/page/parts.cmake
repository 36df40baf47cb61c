# Writes page_parts.cc, which holds the parts of HTML reports as raw string literals. Run as a script:
#   cmake -DOUT=FILE -DPARTS=name=file;name=file -P parts.cmake
# Compilers limit neither the length of a literal (g++, clang++) nor what it holds, but for its delimiter.
set(text "// Generated from the parts of HTML reports; edit those.\n#include \"tools/report/page_parts.h\"\n\n")
string(APPEND text "namespace orrery::tools {\n\nstd::string_view page_part(std::string_view name) {\n")
foreach(part IN LISTS PARTS)
  string(REGEX MATCH "^([^=]+)=(.*)$" matched "${part}")
  set(name "${CMAKE_MATCH_1}")
  set(file "${CMAKE_MATCH_2}")
  file(READ "${file}" body)
  string(FIND "${body}" ")orrery\"" clash)
  string(FIND "${body}" "</script" tag)
  if(NOT clash EQUAL -1 OR NOT tag EQUAL -1)
    message(FATAL_ERROR "${file} holds )orrery\" or </script, which a page cannot hold")
  endif()
  string(APPEND text "  if (name == \"${name}\")\n    return R\"orrery(" "${body}" ")orrery\";\n")
endforeach()
string(APPEND text "  return {};\n}\n\n}  // namespace orrery::tools\n")
file(WRITE "${OUT}" "${text}")
