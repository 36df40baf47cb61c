// Without start times nodes go in the order of their dependencies, of those that could go the one with the lowest
// number first, as ASTRA-sim issues them. As to Chakra's feeder, data_deps alone are dependencies (ctrl_deps are the
// nesting of the host's calls), and those on nodes that the file does not have count as met.
#include "tools/replay/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/error.h"
#include "sim/printable.h"
#include "sim/text_file.h"
#include "tools/import/parse_json.h"
#include "tools/report/output.h"

#ifdef ORRERY_PROTOBUF
#include <chakra.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <zlib.h>

#include <memory>
#include <sstream>

#endif

namespace orrery::tools {

using calibration::CollectiveOp;

ChakraGroups read_chakra_groups(const std::string& file) {
  const auto refuse = [&](const std::string& got) {
    throw sim::UserError({file, 1, 1}, "", fmt::format("got {}, expected groups of ranks, as {{\"0\": [0, 1]}}", got));
  };
  nlohmann::json json;
  try {
    json = parse_json(sim::read_text(file, "groups of ranks"));
  } catch (const JsonProblem& problem) {
    throw sim::UserError({file, 1, 1}, "", problem.got + ", expected groups of ranks, as {\"0\": [0, 1]}");
  }
  if (!json.is_object()) refuse("what is no JSON object");
  ChakraGroups groups;
  for (const auto& [name, ranks] : json.items()) {
    if (!ranks.is_array() || ranks.size() > (1U << 20)) refuse(fmt::format("no list of ranks for {}", name));
    for (const auto& rank : ranks) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() > (1U << 24))
        refuse(fmt::format("{} as a rank of {}", rank.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                           name));
      groups[name].push_back(rank.get<std::int64_t>());
    }
  }
  return groups;
}

std::int64_t rank_of_file(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (name.ends_with(".et")) name.resize(name.size() - 3);
  const std::size_t digits = name.find_last_not_of("0123456789");
  const std::string tail = digits == std::string::npos ? name : name.substr(digits + 1);
  std::int64_t rank = kNoPeer;
  const auto [end, error] = std::from_chars(tail.data(), tail.data() + tail.size(), rank);
  return error == std::errc{} && end == tail.data() + tail.size() ? rank : kNoPeer;
}

#ifdef ORRERY_PROTOBUF

bool has_chakra() { return true; }

namespace {

namespace io = google::protobuf::io;

constexpr std::uint32_t kLongestMessage = 64U << 20;      // bytes: no node names so many others
constexpr std::size_t kMostNodes = 10'000'000;            // of a rank; beyond it, memory would not do
constexpr std::uint64_t kMostMicros = 1'000'000'000'000;  // eleven days: as long as simulated time
constexpr double kMostBytes = 1e15;
constexpr double kPicosPerMicro = 1e6;

/// A file through zlib, which hands on what is not gzipped.
class GzipFile : public io::CopyingInputStream {
 public:
  explicit GzipFile(const std::string& file) : in_(gzopen(file.c_str(), "rb"), gzclose) {
    if (in_ == nullptr) throw sim::UserError(fmt::format("{}: cannot be read, expected an execution trace", file));
  }
  int Read(void* buffer, int size) override { return gzread(in_.get(), buffer, static_cast<unsigned>(size)); }
  bool cut() const {
    int error = Z_OK;
    gzerror(in_.get(), &error);
    return error == Z_BUF_ERROR || error == Z_DATA_ERROR;
  }

 private:
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> in_;
};

double number_of(const chakra::Attribute& a) {
  switch (a.value_case()) {
    case chakra::Attribute::kDoubleVal:
      return a.double_val();
    case chakra::Attribute::kFloatVal:
      return static_cast<double>(a.float_val());
    case chakra::Attribute::kInt32Val:
      return a.int32_val();
    case chakra::Attribute::kInt64Val:
      return static_cast<double>(a.int64_val());
    case chakra::Attribute::kUint32Val:
      return a.uint32_val();
    case chakra::Attribute::kUint64Val:
      return static_cast<double>(a.uint64_val());
    case chakra::Attribute::kSint32Val:
      return a.sint32_val();
    case chakra::Attribute::kSint64Val:
      return static_cast<double>(a.sint64_val());
    case chakra::Attribute::kBoolVal:
      return a.bool_val() ? 1 : 0;
    case chakra::Attribute::kStringVal:
    case chakra::Attribute::VALUE_NOT_SET:
      return 0;
  }
  return 0;
}

/// In one line, without what is no character.
std::string text_of(const std::string& bytes) {
  std::string text = sim::printable(bytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

/// Why a group that no list names cannot be all ranks: `world` traces that are not those of the ranks below it.
std::string unknown_ranks(const std::string& group, std::int64_t world) {
  return fmt::format(
      "got {}, whose ranks no {} names, beside traces of {} ranks that are not those below {}, expected "
      "the groups or a trace of every rank",
      group.empty() ? "none" : group, kChakraGroupsFile, world, world);
}

class Reader {
 public:
  Reader(const std::string& file, std::int64_t rank, std::int64_t world, const ChakraGroups& groups)
      : file_(file), world_(world), groups_(groups), source_(file), writer_(graph_) {
    graph_.file = file;
    graph_.rank = rank;
  }

  std::vector<ChakraOperation> operations() {
    operations_only_ = true;
    read_nodes();
    return std::move(operations_);
  }

  RankGraph read() {
    read_nodes();
    sort();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    throw sim::UserError({file_, 1, static_cast<int>(std::min<std::size_t>(raw_.size() + 1, 1U << 30))}, key, what);
  }

  void read_nodes() {
    io::CopyingInputStreamAdaptor stream(&source_);
    chakra::GlobalMetadata metadata;
    if (!next(stream, metadata)) refuse("GlobalMetadata", "is not there, expected an execution trace of Chakra");
    chakra::Node node;
    while (next(stream, node)) {
      if (raw_.size() + operations_.size() >= kMostNodes)
        refuse("nodes", fmt::format("got more than {}, expected one rank's", kMostNodes));
      keep(node);
    }
    if (source_.cut()) refuse("nodes", "got the end of the file within one: it was cut off");
    if (raw_.empty() && operations_.empty()) refuse("nodes", "got none, expected those of a rank");
  }

  /// One message behind its length; false at the end of the file.
  template <class Message>
  bool next(io::CopyingInputStreamAdaptor& stream, Message& message) {
    io::CodedInputStream coded(&stream);
    std::uint32_t size = 0;
    const void* data = nullptr;
    int left = 0;
    if (!coded.GetDirectBufferPointer(&data, &left)) return false;
    if (!coded.ReadVarint32(&size) || size > kLongestMessage)
      refuse("length", "got what is no message's length, expected an execution trace of Chakra");
    const auto limit = coded.PushLimit(static_cast<int>(size));
    message.Clear();
    if (!message.ParseFromCodedStream(&coded) || coded.BytesUntilLimit() != 0 || !coded.ConsumedEntireMessage())
      refuse("node", "got what is no node, expected an execution trace of Chakra: cut off, or another format");
    coded.PopLimit(limit);
    return true;
  }

  struct Attributes {
    bool on_host = false;
    double op = -1, bytes = 0, source = kNoPeer, destination = kNoPeer, tag = 0, tid = 0, picos = -1;
    std::string group, about_group;
  };

  static Attributes attributes_of(const chakra::Node& node) {
    Attributes out;
    for (const chakra::Attribute& a : node.attr()) {
      const double value = number_of(a);
      if (a.name() == "is_cpu_op") out.on_host = value != 0;
      if (a.name() == "comm_type") out.op = value;
      if (a.name() == "comm_size") out.bytes = value;
      if (a.name() == "comm_src") out.source = value;
      if (a.name() == "comm_dst") out.destination = value;
      if (a.name() == "comm_tag") out.tag = value;
      if (a.name() == "tid") out.tid = value;
      if (a.name() == "duration_picos") out.picos = value;
      const bool text = a.value_case() == chakra::Attribute::kStringVal;
      if (a.name() == "pg_name") out.group = text ? text_of(a.string_val()) : fmt::format("{}", value);
      if (a.name() == "pg_desc" && text) out.about_group = text_of(a.string_val());
    }
    return out;
  }

  static ChakraOperation::Tensors tensors_of(const chakra::IOInfo& side) {
    return {side.values(), side.shapes(), side.types()};
  }

  void keep(const chakra::Node& in) {
    if (operations_only_) {
      const std::uint64_t inside = in.ctrl_deps().empty() ? 0 : in.ctrl_deps(0);
      operations_.push_back({in.id(), inside, text_of(in.name()), tensors_of(in.inputs()), tensors_of(in.outputs())});
      return;
    }
    if (in.type() == chakra::METADATA_NODE) return;
    const Attributes about = attributes_of(in);
    if (in.duration_micros() > kMostMicros || in.start_time_micros() > (std::uint64_t{1} << 62) ||
        !(about.picos < static_cast<double>(kMostMicros) * kPicosPerMicro))
      refuse("duration_micros", fmt::format("got {}, expected at most eleven days", in.duration_micros()));
    if (!(about.bytes >= 0 && about.bytes <= kMostBytes))
      refuse("comm_size", fmt::format("got {}, expected 0 to 1e15", about.bytes));
    GraphNode node;
    node.name = writer_.name(text_of(in.name()));
    const double picos = about.picos >= 0 ? about.picos : static_cast<double>(in.duration_micros()) * kPicosPerMicro;
    node.duration = sim::Duration(std::llround(picos));
    const bool device = !about.on_host && in.type() >= chakra::COMM_SEND_NODE;
    node.kind = about.on_host ? NodeKind::host : NodeKind::compute;
    if (device && in.type() == chakra::COMM_COLL_NODE) keep_collective(about, node);
    if (device && in.type() != chakra::COMM_COLL_NODE) keep_message(in.type() == chakra::COMM_SEND_NODE, about, node);
    const char* on = about.on_host ? "host thread" : node.communicates() ? "network stream" : "stream";
    node.lane = writer_.lane(fmt::format("{} {}", on, about.tid));
    if (graph_.lanes.size() > kMostLanes)
      refuse("tid", fmt::format("got more than {} threads and streams, expected at most as many", kMostLanes));
    Raw raw{in.id(), in.start_time_micros(), std::move(node), {}};
    raw.deps.assign(in.data_deps().begin(), in.data_deps().end());
    std::erase(raw.deps, in.id());
    if (!place_.emplace(in.id(), raw_.size()).second)
      refuse("id", fmt::format("got {} twice, expected it once", in.id()));
    raw_.push_back(std::move(raw));
  }

  void keep_collective(const Attributes& about, GraphNode& node) {
    static constexpr std::array kOps{
        CollectiveOp::all_reduce,     CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_gather,
        CollectiveOp::broadcast,      CollectiveOp::broadcast,  CollectiveOp::all_to_all, CollectiveOp::reduce_scatter,
        CollectiveOp::reduce_scatter, CollectiveOp::all_reduce};
    if (!(about.op >= 0 && about.op < static_cast<double>(kOps.size())))
      refuse("comm_type",
             fmt::format("got {} of {}, expected one of Chakra's collectives", about.op, graph_.names[node.name]));
    node.kind = NodeKind::collective;
    node.op = kOps[static_cast<std::size_t>(about.op)];
    RankGroup group{about.group.empty() ? "world" : about.group, {}, world_};
    if (!about.about_group.empty()) group.name = about.about_group;
    const auto named = groups_.find(about.group);
    if (named != groups_.end()) {
      group.ranks = named->second;
    } else {
      if (graph_.rank >= world_) refuse("pg_name", unknown_ranks(about.group, world_));
      group.ranks.resize(static_cast<std::size_t>(world_));
      std::iota(group.ranks.begin(), group.ranks.end(), 0);
    }
    if (group.ranks.size() < 2) group.ranks.clear();
    group.size = std::max<std::int64_t>(1, static_cast<std::int64_t>(group.ranks.size()));
    node.bytes = about.bytes * (node.op == CollectiveOp::all_gather ? static_cast<double>(group.size) : 1.0);
    node.group = writer_.group(group);
  }

  void keep_message(bool sends, const Attributes& about, GraphNode& node) {
    node.kind = sends ? NodeKind::send : NodeKind::receive;
    node.op = CollectiveOp::send_receive;
    node.bytes = about.bytes;
    const double peer = sends ? about.destination : about.source;
    if (!(peer >= 0 && peer < (1U << 24)) || static_cast<std::int64_t>(peer) == graph_.rank)
      refuse(sends ? "comm_dst" : "comm_src", fmt::format("got {}, expected another rank", peer));
    node.peer = static_cast<std::int64_t>(peer);
    node.tag = std::llround(std::clamp(about.tag, -1e15, 1e15));
  }

  /// Orders nodes by what they wait for, then by when they began, then by number.
  void sort() {
    using Turn = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;
    std::vector<std::vector<std::size_t>> followers(raw_.size());
    std::vector<std::size_t> waits(raw_.size());
    std::size_t missing = 0;
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      for (const std::uint64_t dep : raw_[i].deps) {
        const auto at = place_.find(dep);
        missing += at == place_.end() ? 1 : 0;
        if (at == place_.end()) continue;
        followers[at->second].push_back(i);
        ++waits[i];
      }
    }
    std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready;
    const auto offer = [&](std::size_t i) { ready.emplace(raw_[i].start, raw_[i].id, i); };
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      if (waits[i] == 0) offer(i);
    }
    std::vector<std::uint32_t> placed(raw_.size());
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
    while (!ready.empty()) {
      const std::size_t i = std::get<2>(ready.top());
      ready.pop();
      Raw& raw = raw_[i];
      for (const std::uint64_t dep : raw.deps) {
        const auto at = place_.find(dep);
        if (at != place_.end()) raw.node.waits.push_back(placed[at->second]);
      }
      first = std::min(first, raw.start);
      last = std::max(last, raw.start + static_cast<std::uint64_t>(raw.node.duration.value()) / 1'000'000);
      placed[i] = writer_.add(std::move(raw.node));
      for (const std::size_t next : followers[i]) {
        if (--waits[next] == 0) offer(next);
      }
    }
    if (graph_.nodes.size() < raw_.size()) refuse("data_deps", "got nodes that wait for each other, expected an order");
    const bool timed = std::any_of(raw_.begin(), raw_.end(), [](const Raw& raw) { return raw.start > 0; });
    if (timed)
      graph_.traced = sim::Duration(static_cast<std::int64_t>(std::min(last - first, kMostMicros)) * 1'000'000);
    if (missing > 0)
      graph_.notes.push_back(fmt::format("{}: {} dependencies on nodes that it does not have", file_, missing));
  }

  struct Raw {
    std::uint64_t id = 0, start = 0;
    GraphNode node;
    std::vector<std::uint64_t> deps;
  };

  const std::string& file_;
  std::int64_t world_;
  const ChakraGroups& groups_;
  GzipFile source_;
  RankGraph graph_;
  GraphWriter writer_;
  std::vector<Raw> raw_;
  std::vector<ChakraOperation> operations_;
  bool operations_only_ = false;
  std::unordered_map<std::uint64_t, std::size_t> place_;
};

template <class Message>
void write_message(std::ostream& out, const Message& message) {
  std::string text;
  {
    io::StringOutputStream stream(&text);
    io::CodedOutputStream coded(&stream);
    coded.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
    message.SerializeToCodedStream(&coded);
  }
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

chakra::Attribute& attribute(chakra::Node& node, const char* name) {
  chakra::Attribute& added = *node.add_attr();
  added.set_name(name);
  return added;
}

chakra::CollectiveCommType type_of(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_reduce:
      return chakra::ALL_REDUCE;
    case CollectiveOp::all_gather:
      return chakra::ALL_GATHER;
    case CollectiveOp::reduce_scatter:
      return chakra::REDUCE_SCATTER;
    case CollectiveOp::all_to_all:
      return chakra::ALL_TO_ALL;
    case CollectiveOp::broadcast:
    case CollectiveOp::send_receive:
      return chakra::BROADCAST;
  }
  return chakra::BROADCAST;
}

/// What says whom a call is with. `group`: the number of its group.
void describe_call(const RankGraph& graph, const GraphNode& node, std::size_t group, chakra::Node& out) {
  const auto ranks =
      static_cast<double>(std::max<std::size_t>(1, graph.groups.empty() ? 1 : graph.groups[node.group].ranks.size()));
  const bool part = node.kind == NodeKind::collective && node.op == CollectiveOp::all_gather;
  attribute(out, "comm_size").set_int64_val(std::llround(node.bytes / (part ? ranks : 1.0)));
  if (node.kind == NodeKind::collective) {
    out.set_type(chakra::COMM_COLL_NODE);
    attribute(out, "comm_type").set_int64_val(type_of(node.op));
    attribute(out, "pg_name").set_string_val(std::to_string(group));
    attribute(out, "pg_desc").set_string_val(graph.groups[node.group].name);
    return;
  }
  const bool sends = node.kind == NodeKind::send;
  out.set_type(sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
  attribute(out, "comm_src").set_int32_val(static_cast<std::int32_t>(sends ? graph.rank : node.peer));
  attribute(out, "comm_dst").set_int32_val(static_cast<std::int32_t>(sends ? node.peer : graph.rank));
  attribute(out, "comm_tag").set_int32_val(static_cast<std::int32_t>(node.tag));
}

}  // namespace

RankGraph read_chakra(const std::string& file, std::int64_t rank, std::int64_t world, const ChakraGroups& groups) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw sim::UserError(fmt::format("{}: cannot be read, expected an execution trace", file));
  return Reader(file, rank, world, groups).read();
}

std::vector<ChakraOperation> read_chakra_operations(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw sim::UserError(fmt::format("{}: cannot be read, expected an execution trace", file));
  const ChakraGroups none;
  return Reader(file, 0, 1, none).operations();
}

ChakraWriter::ChakraWriter(std::string folder, std::string name) : folder_(std::move(folder)), name_(std::move(name)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw sim::UserError(fmt::format("{}: cannot be made: {}", folder_, error.message()));
}

void ChakraWriter::write(const RankGraph& graph) {
  std::vector<std::size_t> numbers;
  for (const RankGroup& group : graph.groups)
    numbers.push_back(groups_.try_emplace({group.name, group.ranks}, groups_.size()).first->second);
  const std::string file = fmt::format("{}/{}.{}.et", folder_, name_, graph.rank);
  write_output(file, [&](std::ostream& out) {
    chakra::GlobalMetadata metadata;
    metadata.set_version("1.0.0");
    write_message(out, metadata);
    std::vector<std::int64_t> before(graph.lanes.size(), -1), owed(graph.lanes.size(), 0);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      const auto lane = static_cast<std::size_t>(node.lane);
      chakra::Node message;
      message.set_id(n + 1);  // 0 is the root to some readers
      message.set_name(graph.names[node.name]);
      message.set_type(chakra::COMP_NODE);
      if (before[lane] >= 0) message.add_data_deps(static_cast<std::uint64_t>(before[lane]) + 1);
      for (const std::uint32_t wait : node.waits) {
        if (wait != before[lane]) message.add_data_deps(std::uint64_t{wait} + 1);
      }
      before[lane] = static_cast<std::int64_t>(n);
      if (node.traced != kNoTime) message.set_start_time_micros(static_cast<std::uint64_t>(node.traced / 1'000'000));
      // What one node of a lane is rounded by, the next one gives back.
      const std::int64_t time = (node.gap + node.duration).value() + owed[lane];
      const std::int64_t micros = std::max<std::int64_t>(0, (time + 500'000) / 1'000'000);
      owed[lane] = time - micros * 1'000'000;
      message.set_duration_micros(static_cast<std::uint64_t>(micros));
      attribute(message, "is_cpu_op").set_bool_val(node.kind == NodeKind::host);
      attribute(message, "tid").set_int64_val(node.lane);
      attribute(message, "duration_picos").set_int64_val((node.gap + node.duration).value());
      if (node.communicates())
        describe_call(graph, node, node.kind == NodeKind::collective ? numbers[node.group] : 0, message);
      write_message(out, message);
    }
  });
}

#else

bool has_chakra() { return false; }

namespace {
[[noreturn]] void refuse_format(const std::string& file) {
  throw sim::UserError(
      fmt::format("{}: got an execution trace of Chakra, which this build does not know: expected a "
                  "build with libprotobuf-dev and protobuf-compiler",
                  file));
}
}  // namespace

RankGraph read_chakra(const std::string& file, std::int64_t, std::int64_t, const ChakraGroups&) { refuse_format(file); }
std::vector<ChakraOperation> read_chakra_operations(const std::string& file) { refuse_format(file); }
ChakraWriter::ChakraWriter(std::string folder, std::string) { refuse_format(folder); }
void ChakraWriter::write(const RankGraph&) {}

#endif

void ChakraWriter::write_groups() const {
  std::vector<const std::vector<std::int64_t>*> by_number(groups_.size());
  for (const auto& [group, number] : groups_) by_number[number] = &group.second;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (std::size_t number = 0; number < by_number.size(); ++number) json[std::to_string(number)] = *by_number[number];
  write_output(fmt::format("{}/{}", folder_, kChakraGroupsFile),
               [&](std::ostream& out) { out << json.dump(1) << '\n'; });
}

}  // namespace orrery::tools
