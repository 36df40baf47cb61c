// Does a trace in Perfetto's form, read back by protobuf the way Perfetto reads it, say what the same trace in Chrome's
// form says?
#ifdef ORRERY_PROTOBUF

#include <perfetto.pb.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/trace_check.h"
#include "tests/workloads/example.h"
#include "tools/report/trace.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using nlohmann::json;
namespace pb = perfetto::protos;

namespace {

/// Numbers as one type, times as they are rounded.
std::string plain(const json& value) {
  return value.is_number() ? fmt::format("{:.3f}", value.get<double>()) : value.get<std::string>();
}

/// Slices and counters as lines.
struct Contents {
  std::vector<std::string> slices, counters, arrows;
  bool operator==(const Contents&) const = default;
  void sort() {
    for (std::vector<std::string>* lines : {&slices, &counters, &arrows}) std::sort(lines->begin(), lines->end());
  }
};

Contents contents_of(const json& trace) {
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  const auto nanoseconds = [](const json& microseconds) {
    return static_cast<std::int64_t>(microseconds.get<double>() * 1000.0);
  };
  Contents out;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "M" && event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (phase == "M" && event["name"] == "thread_name") threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    const std::string& process = processes[event["pid"]];
    if (phase == "X") {
      const std::int64_t from = nanoseconds(event["ts"]);
      std::map<std::string, std::string> arguments;
      for (const auto& [key, value] : event["args"].items()) arguments[key] = plain(value);
      out.slices.push_back(fmt::format("{} | {} | {} | {} | {} {} | {}", process, threads[{event["pid"], event["tid"]}],
                                       event["name"].get<std::string>(), event["cat"].get<std::string>(), from,
                                       from + nanoseconds(event["dur"]), json(arguments).dump()));
    } else if (phase == "C") {
      out.counters.push_back(fmt::format("{} | {} | {} {}", process, event["name"].get<std::string>(),
                                         nanoseconds(event["ts"]), event["args"].begin()->get<double>()));
    } else if (phase != "M") {
      out.arrows.push_back(fmt::format("{} {}", event["id"].get<std::int64_t>(), phase == "f" ? "ends" : "goes on"));
    }
  }
  out.sort();
  return out;
}

std::string inflated(const std::string& packed) {
  std::string plain(1'000'000, '\0');
  uLongf size = plain.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK);
  plain.resize(size);
  return plain;
}

/// As Perfetto's importer does it: events in the order of time, those of one time as they come; an end closes what was
/// opened last on its track.
class Importer {
 public:
  explicit Importer(const std::string& bytes) {
    pb::Trace blocks;
    REQUIRE(blocks.ParseFromString(bytes));
    std::string packets;
    for (const pb::TracePacket& block : blocks.packet()) {
      REQUIRE(block.has_compressed_packets());
      CHECK(block.compressed_packets().size() < 512'000);
      packets += inflated(block.compressed_packets());
    }
    REQUIRE(trace_.ParseFromString(packets));
    REQUIRE(trace_.packet(0).sequence_flags() == 1);  // the state of the sequence begins
    for (const pb::TracePacket& packet : trace_.packet()) {
      REQUIRE(packet.trusted_packet_sequence_id() == 1);
      intern(packet.interned_data());
      if (packet.has_track_descriptor()) describe(packet.track_descriptor());
      if (packet.has_track_event()) events_.push_back(&packet);
    }
    std::stable_sort(events_.begin(), events_.end(), [](const pb::TracePacket* a, const pb::TracePacket* b) {
      return a->timestamp() < b->timestamp();
    });
  }

  Contents contents() {
    for (const pb::TracePacket* packet : events_) read(*packet);
    for (const auto& [track, open] : open_) CHECK(open.empty());
    out_.sort();
    return out_;
  }

 private:
  using Texts = std::map<std::uint64_t, std::string>;

  template <class Entries>
  static void add(const Entries& entries, Texts& texts) {
    for (const pb::InternedText& entry : entries) {
      CHECK(entry.iid() > 0);
      CHECK(texts.try_emplace(entry.iid(), entry.name()).second);  // none is said twice
    }
  }
  void intern(const pb::InternedData& data) {
    add(data.event_categories(), categories_);
    add(data.event_names(), names_);
    add(data.debug_annotation_names(), keys_);
    add(data.debug_annotation_string_values(), texts_);
  }

  void describe(const pb::TrackDescriptor& track) {
    if (track.has_process()) {
      tracks_[track.uuid()] = track.process().process_name();
      CHECK(pids_.try_emplace(track.process().pid(), track.uuid()).second);
    } else if (track.has_thread()) {
      REQUIRE(tracks_.contains(track.parent_uuid()));
      CHECK(pids_.at(track.thread().pid()) == track.parent_uuid());
      CHECK(tids_.insert(track.thread().tid()).second);  // threads of all processes have numbers of their own
      tracks_[track.uuid()] = tracks_[track.parent_uuid()] + " | " + track.thread().thread_name();
    } else {
      REQUIRE(track.has_counter());
      tracks_[track.uuid()] = tracks_.at(track.parent_uuid()) + " | " + track.name();
    }
  }

  std::string arguments_of(const pb::TrackEvent& event) const {
    std::map<std::string, std::string> arguments;
    for (const pb::DebugAnnotation& one : event.debug_annotations()) {
      const json value = one.has_string_value_iid() ? json(texts_.at(one.string_value_iid()))
                         : one.has_int_value()      ? json(one.int_value())
                                                    : json(one.double_value());
      arguments[keys_.at(one.name_iid())] = plain(value);
    }
    return json(arguments).dump();
  }

  void read(const pb::TracePacket& packet) {
    const pb::TrackEvent& event = packet.track_event();
    std::vector<const pb::TracePacket*>& open = open_[event.track_uuid()];
    const std::string& track = tracks_.at(event.track_uuid());
    for (const std::uint64_t flow : event.flow_ids()) out_.arrows.push_back(fmt::format("{} goes on", flow - 1));
    for (const std::uint64_t flow : event.terminating_flow_ids())
      out_.arrows.push_back(fmt::format("{} ends", flow - 1));
    if (event.type() == pb::TrackEvent::TYPE_COUNTER) {
      out_.counters.push_back(fmt::format("{} | {} {}", track, packet.timestamp(), event.double_counter_value()));
    } else if (event.type() == pb::TrackEvent::TYPE_SLICE_BEGIN) {
      open.push_back(&packet);
    } else {
      REQUIRE(event.type() == pb::TrackEvent::TYPE_SLICE_END);
      REQUIRE(!open.empty());
      const pb::TracePacket& begin = *open.back();
      open.pop_back();
      const pb::TrackEvent& slice = begin.track_event();
      out_.slices.push_back(fmt::format("{} | {} | {} | {} {} | {}", track, names_.at(slice.name_iid()),
                                        categories_.at(slice.category_iids(0)), begin.timestamp(), packet.timestamp(),
                                        arguments_of(slice)));
    }
  }

  pb::Trace trace_;
  std::vector<const pb::TracePacket*> events_;
  Texts categories_, names_, keys_, texts_, tracks_;
  std::map<std::int32_t, std::uint64_t> pids_;
  std::set<std::int64_t> tids_;
  std::map<std::uint64_t, std::vector<const pb::TracePacket*>> open_;
  Contents out_;
};

}  // namespace

TEST_CASE("a trace in Perfetto's form says what the same trace in Chrome's form says", "[full-size]") {
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    INFO(schedule->name);
    const workloads::Job job = tests::small_job(tests::sets_for(*schedule));
    workloads::Question options;
    options.timelines.emplace();
    const workloads::StepReport report = workloads::simulate_step(job, options);
    const tools::TraceView view{"a step",
                                report.timelines,
                                tools::process_names(job.parallelism.dims(), report.timelines),
                                report.links,
                                {},
                                tools::critical_path(report.timelines)};
    std::ostringstream chrome, perfetto;
    tools::write_trace(chrome, view);
    tools::write_trace(perfetto, view, tools::TraceForm::perfetto);
    const json trace = json::parse(chrome.str());
    CHECK(tests::check_trace(trace).problems == std::vector<std::string>{});
    const Contents expected = contents_of(trace), found = Importer(perfetto.str()).contents();
    CHECK(found.slices == expected.slices);
    CHECK(found.counters == expected.counters);
    CHECK(found.arrows == expected.arrows);
    CHECK(!expected.arrows.empty());
    CHECK(perfetto.str().size() < chrome.str().size() / 10);
  }
}

TEST_CASE("the name of a file says in which form a trace is written") {
  for (const char* perfetto : {"a.pftrace", "a.pftrace.gz"})
    CHECK(tools::trace_form(perfetto) == tools::TraceForm::perfetto);
  for (const char* chrome : {"-", "a.json", "a.json.gz", "pftrace"})
    CHECK(tools::trace_form(chrome) == tools::TraceForm::chrome);
}

#endif
