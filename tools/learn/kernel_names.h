// What a kernel does, told by its name: a table of the names that libraries and frameworks give their kernels.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/learn/trace.h"

namespace orrery::tools {

std::string_view name_of(OpClass what);

/// The class of a kernel by its name alone, as a profiler writes it (demangled or mangled, with its parameters or
/// without); unknown where the table has no row for it.
OpClass class_of_kernel(std::string_view name);

/// The class of a collective by the operation that PyTorch names ("_allgather_base", "allreduce_coalesced", "send");
/// unknown for another word.
OpClass class_of_operation(std::string_view operation);

/// The class of a kernel of this program's own traces and predictions. `kind`: "matmul", "attention" or another, as
/// the trace says.
OpClass class_of_own_kernel(std::string_view name, std::string_view kind);

/// Whether it is a call of a collective library.
constexpr bool is_collective(OpClass what) { return what >= OpClass::all_reduce && what <= OpClass::collective; }
/// Whether it is bound by memory and no product, attention, collective or transfer.
constexpr bool is_streaming(OpClass what) { return what >= OpClass::norm && what <= OpClass::fused; }

}  // namespace orrery::tools
