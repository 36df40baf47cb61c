// The archive that the linker puts into the program (ORRERY_PACKED_DOCUMENTS). Left out where there is none, as on a
// page in a browser.
#include "scenarios/packed_documents.h"

#ifdef ORRERY_PACKED_DOCUMENTS
__asm__(
    ".pushsection .rodata\n"
    ".balign 8\n"
    ".global orrery_packed_begin\n"
    ".global orrery_packed_end\n"
    "orrery_packed_begin:\n"
    ".incbin \"" ORRERY_PACKED_DOCUMENTS
    "\"\n"
    "orrery_packed_end:\n"
    ".popsection\n");
extern "C" const char orrery_packed_begin[];
extern "C" const char orrery_packed_end[];
#endif

namespace orrery::scenarios {

std::optional<PackedFile> packed_file(std::string_view text) {
#ifdef ORRERY_PACKED_DOCUMENTS
  const auto size = static_cast<std::size_t>(orrery_packed_end - orrery_packed_begin);
  return packed_in({orrery_packed_begin, size}, text);
#else
  static_cast<void>(text);
  return std::nullopt;
#endif
}

}  // namespace orrery::scenarios
