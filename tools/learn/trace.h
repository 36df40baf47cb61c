// What a profiler saw of a rank, whoever wrote it down: PyTorch's profiler (Kineto's JSON), Nsight Systems (exported
// SQLite) and this program's own --trace are read into one value. Times are whole nanoseconds since the first event.
// Left out: call stacks of Python, counters, and everything of devices that is not work of theirs (synchronisation as
// the device's own tracks show it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace orrery::tools {

using Nanoseconds = std::int64_t;
inline constexpr double kNano = 1e-9;  // seconds
using NameId = std::uint32_t;
inline constexpr std::int64_t kNone = -1;

/// Texts that many events share.
class Names {
 public:
  NameId intern(std::string_view text);
  const std::string& operator[](NameId id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
};

/// What a collective's kernel says of its call, as PyTorch's NCCL process groups note it.
struct CollectiveFacts {
  NameId operation = 0;  // "allreduce", "_allgather_base", "send", ...
  NameId group = 0;      // the process group's description, else its name
  std::int64_t group_size = 0;
  double bytes = 0;  // of the whole buffer, as nccl-tests count: all-gather its output, else its input; 0: not said
  NameId ranks = 0;  // of the group, as "[0, 1, 2]"; 0: not said
  Nanoseconds arrived = kNone;  // in this program's own traces: when the rank was there, where others came later
  bool operator==(const CollectiveFacts&) const = default;
};

enum class DeviceWork : std::uint8_t { kernel, memcpy, memset };

/// The part of a step that launched it.
enum class Phase : std::uint8_t { forward, backward, optimizer, other };
inline constexpr std::size_t kPhases = 4;
std::string_view name_of(Phase phase);

/// What a piece of work on a device does. The order groups them (kernel_names.h).
enum class OpClass : std::uint8_t {
  matmul,
  grouped_matmul,
  attention,
  convolution,
  norm,
  softmax,
  elementwise,
  copy,
  random,
  look_up,
  reduction,
  experts,
  optimizer,
  fused,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_receive,
  broadcast,
  collective,
  memcpy,
  memset,
  scan,
  index_scores,
  key_choice,
  sparse_attention,
  unknown
};
inline constexpr std::size_t kOpClasses = 28;

/// One piece of work on a device.
struct DeviceEvent {
  NameId name = 0;
  NameId caller = 0;  // the innermost operation of the framework that launched it; 0: not known
  std::int32_t stream = 0, device = 0;
  Nanoseconds start = 0, end = 0;
  std::int64_t correlation = kNone;
  Nanoseconds launched = kNone;     // when the host's call that launched it returned; kNone: not in the trace
  std::int32_t collective = kNone;  // of Trace::collectives
  DeviceWork work = DeviceWork::kernel;
  OpClass what = OpClass::unknown;
  Phase phase = Phase::other;
};

enum class HostKind : std::uint8_t { operation, runtime, annotation };

/// A call on a thread of the host.
struct HostEvent {
  NameId name = 0;
  HostKind kind = HostKind::operation;
  std::int32_t thread = 0;
  std::int32_t launches = 1;  // of the device, where it is a launch that stands for several
  Nanoseconds start = 0, end = 0;
  std::int64_t correlation = kNone;
};

struct TimeSpan {
  Nanoseconds from = 0, to = 0;
};

struct Trace {
  std::string file;
  std::optional<std::int64_t> rank, world_size;
  bool own = false;                 // written by this program
  Names names;                      // 0 is the empty text
  std::vector<DeviceEvent> device;  // in the order of their starts
  std::vector<HostEvent> host;      // in the order of their starts, the longer first
  std::vector<CollectiveFacts> collectives;
  std::vector<TimeSpan> steps;  // whole ones, as the framework marked them; where it marked none, all of the trace

  Trace() { names.intern(""); }
  const std::string& name(NameId id) const { return names[id]; }
};

/// The traces in a file, a rank each (this program's own traces hold several). The format is told by the file's first
/// bytes. Throws sim::UserError: no such file, cut off, another format, no work of a device in it, too much of it.
std::vector<Trace> read_trace(const std::string& file);

// The formats, for read_trace. Kineto's may be gzipped.
std::vector<Trace> read_kineto(const std::string& file);
std::vector<Trace> read_nsight(const std::string& file);

/// Sorts, moves times so that the first event is at 0, says what launched each piece of the device's work and in which
/// phase, and where steps begin: what every format leaves to be done alike. `marks`: annotations that span a step.
void complete(Trace& trace);

/// Events that a trace may hold; beyond it, memory would not do.
inline constexpr std::size_t kMostTraceEvents = 40'000'000;

}  // namespace orrery::tools
