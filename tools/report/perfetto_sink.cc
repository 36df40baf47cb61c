// Perfetto's protobuf: packets of one sequence, texts interned at their first use, slices as beginnings and ends. The
// numbers are those of protos/perfetto/trace/trace_packet.proto, track_event/*.proto and
// interned_data/interned_data.proto of github.com/google/perfetto; the wire format that of
// protobuf.dev/programming-guides/encoding. Written without a library, so that every build writes it. A slice is
// written before those inside it, its end with it: readers sort by time, ends close what was opened last, and events of
// one time stay as they are written. Packets are deflated in blocks, as Perfetto's own service does it, and need no
// .gz. Left out: clocks, for times begin with the step.
#include <zlib.h>

#include <cstring>
#include <map>
#include <tuple>

#include "sim/error.h"
#include "tools/report/trace_sink.h"

namespace orrery::tools {

namespace {

/// A message of the protobuf wire format, field by field.
class Message {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    tag(field, 1);
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>(value >> (8 * byte) & 0xff);
  }
  void real(std::uint32_t field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    fixed(field, bits);
  }
  void text(std::uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const Message& value) { text(field, value.bytes_); }
  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, std::uint32_t wire) { varint(std::uint64_t{field} << 3 | wire); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80 | (value & 0x7f));
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

namespace field {
constexpr std::uint32_t kPacket = 1;  // Trace
// TracePacket
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
                        kCompressedPackets = 50, kTrackDescriptor = 60;
// TrackEvent
constexpr std::uint32_t kCategory = 3, kAnnotation = 4, kType = 9, kNameId = 10, kTrack = 11, kCounterValue = 44,
                        kFlow = 47, kLastFlow = 48;
// DebugAnnotation
constexpr std::uint32_t kAnnotationNameId = 1, kInteger = 4, kReal = 5, kTextId = 17;
// InternedData
constexpr std::uint32_t kCategories = 1, kNames = 2, kAnnotationNames = 3, kTexts = 29;
// EventCategory, EventName, DebugAnnotationName, InternedString
constexpr std::uint32_t kId = 1, kText = 2;
// TrackDescriptor
constexpr std::uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
// ProcessDescriptor, ThreadDescriptor, CounterDescriptor
constexpr std::uint32_t kPid = 1, kTid = 2, kSortIndex = 3, kThreadName = 5, kProcessName = 6, kUnitName = 6;
}  // namespace field

enum EventType : std::uint8_t { slice_begin = 1, slice_end = 2, counter_value = 4 };
enum SequenceFlag : std::uint8_t { state_cleared = 1, needs_state = 2 };

class PerfettoSink : public TraceSink {
 public:
  explicit PerfettoSink(std::ostream& out) : out_(out) {}

  void begin(const std::string&) override {
    Message packet;
    packet.number(field::kSequenceFlags, state_cleared);
    write(packet);
  }
  void end() override { flush(); }

  void process(std::size_t process, const std::string& name, std::size_t order) override {
    Message described;
    described.number(field::kPid, process);
    described.number(field::kSortIndex, order);
    described.text(field::kProcessName, name);
    Message track;
    track.number(field::kUuid, uuid({process, 0, ""}));
    track.message(field::kProcess, described);
    describe(track);
  }

  void thread(std::size_t process, std::size_t thread, const std::string& name, std::size_t order) override {
    Message described;
    described.number(field::kPid, process);
    // Threads of a trace are told apart by their number alone.
    described.number(field::kTid, process * kMostThreads + thread);
    described.number(field::kSortIndex, order);
    described.text(field::kThreadName, name);
    Message track;
    track.number(field::kUuid, uuid({process, thread, ""}));
    track.number(field::kParent, uuid({process, 0, ""}));
    track.message(field::kThread, described);
    describe(track);
  }

  void counter(std::size_t process, const std::string& name, const char* unit, std::int64_t at_ns,
               double value) override {
    const Track key{process, 0, name};
    if (!tracks_.contains(key)) {
      Message described;
      described.text(field::kUnitName, unit);
      Message track;
      track.number(field::kUuid, uuid(key));
      track.text(field::kTrackName, name);
      track.number(field::kParent, uuid({process, 0, ""}));
      track.message(field::kCounter, described);
      describe(track);
    }
    Message event;
    event.number(field::kType, counter_value);
    event.number(field::kTrack, uuid(key));
    event.real(field::kCounterValue, value);
    write_event(at_ns, event, {});
  }

  void slice(std::size_t process, std::size_t thread, const std::string& name, std::string_view category,
             std::int64_t from_ns, std::int64_t to_ns, const TraceArguments& arguments,
             const std::optional<TraceArrow>& arrow) override {
    const std::uint64_t track = uuid({process, thread, ""});
    Message fresh, event;
    event.number(field::kCategory, id_of(categories_, std::string(category), field::kCategories, fresh));
    for (const auto& [key, value] : arguments) event.message(field::kAnnotation, annotation(key, value, fresh));
    event.number(field::kType, slice_begin);
    event.number(field::kNameId, id_of(names_, name, field::kNames, fresh));
    event.number(field::kTrack, track);
    // An id of 0 is none.
    if (arrow)
      event.fixed(arrow->phase == 'f' ? field::kLastFlow : field::kFlow, static_cast<std::uint64_t>(arrow->id) + 1);
    write_event(from_ns, event, fresh);
    Message ends;
    ends.number(field::kType, slice_end);
    ends.number(field::kTrack, track);
    write_event(std::max(from_ns, to_ns), ends, {});
  }

 private:
  static constexpr std::size_t kMostThreads = 64;                   // of a process
  using Track = std::tuple<std::size_t, std::size_t, std::string>;  // process, thread, counter
  using Ids = std::map<std::string, std::uint64_t, std::less<>>;

  std::uint64_t uuid(const Track& track) { return tracks_.try_emplace(track, tracks_.size() + 1).first->second; }

  /// The id of a text, added to `fresh` where it is new.
  static std::uint64_t id_of(Ids& ids, std::string text, std::uint32_t kind, Message& fresh) {
    const auto [known, is_new] = ids.try_emplace(std::move(text), ids.size() + 1);
    if (is_new) {
      Message entry;
      entry.number(field::kId, known->second);
      entry.text(field::kText, known->first);
      fresh.message(kind, entry);
    }
    return known->second;
  }

  Message annotation(std::string_view key, const TraceValue& value, Message& fresh) {
    Message out;
    out.number(field::kAnnotationNameId, id_of(keys_, std::string(key), field::kAnnotationNames, fresh));
    if (const auto* text = std::get_if<std::string>(&value))
      out.number(field::kTextId, id_of(texts_, *text, field::kTexts, fresh));
    else if (const auto* time = std::get_if<TraceTime>(&value))
      out.real(field::kReal, static_cast<double>(time->nanoseconds) / 1000);
    else if (const auto* real = std::get_if<double>(&value))
      out.real(field::kReal, *real);
    else
      out.number(field::kInteger, static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
    return out;
  }

  void describe(const Message& track) {
    Message packet;
    packet.message(field::kTrackDescriptor, track);
    write(packet);
  }

  void write_event(std::int64_t at_ns, const Message& event, const Message& fresh) {
    Message packet;
    packet.number(field::kTimestamp, static_cast<std::uint64_t>(at_ns));
    packet.message(field::kTrackEvent, event);
    if (!fresh.empty()) packet.message(field::kInternedData, fresh);
    packet.number(field::kSequenceFlags, needs_state);
    write(packet);
  }

  void write(Message& packet) {
    packet.number(field::kSequence, 1);
    Message framed;
    framed.message(field::kPacket, packet);
    if (block_.size() + framed.bytes().size() > kBlock) flush();
    block_ += framed.bytes();
  }

  /// A packet of packets, which readers want below 512 KB.
  void flush() {
    if (block_.empty()) return;
    uLongf size = compressBound(static_cast<uLong>(block_.size()));
    std::string packed(size, '\0');
    const int status = compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                                reinterpret_cast<const Bytef*>(block_.data()), static_cast<uLong>(block_.size()));
    SIM_CHECK(status == Z_OK, "zlib does not compress: {}", status);
    packed.resize(size);
    block_.clear();
    Message packet, framed;
    packet.text(field::kCompressedPackets, packed);
    framed.message(field::kPacket, packet);
    out_.write(framed.bytes().data(), static_cast<std::streamsize>(framed.bytes().size()));
  }

  static constexpr std::size_t kBlock = 500'000;

  std::ostream& out_;
  std::string block_;  // packets to be written
  std::map<Track, std::uint64_t> tracks_;
  Ids categories_, names_, keys_, texts_;
};

}  // namespace

std::unique_ptr<TraceSink> perfetto_sink(std::ostream& out) { return std::make_unique<PerfettoSink>(out); }

}  // namespace orrery::tools
