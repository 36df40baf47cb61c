// CSV tables of measurements. Plain commas: none of the published tables quotes a field.
#include "calibration/samples.h"

#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

using sim::Place;
using sim::UserError;

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t comma = line.find(',');
    out.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

/// One line of a table, with its columns by name.
class Line {
 public:
  Line(const std::string& file, int number, const std::map<std::string, std::size_t>& columns, std::string_view text)
      : file_(file), number_(number), columns_(columns), fields_(split(text)) {
    if (fields_.size() != columns.size())
      fail("line",
           "read " + std::to_string(fields_.size()) + " columns, would be right: " + std::to_string(columns.size()));
  }
  [[noreturn]] void fail(const std::string& column, const std::string& message) const {
    const auto at = columns_.find(column);
    throw UserError(Place{file_, number_, at == columns_.end() ? 1 : static_cast<int>(at->second) + 1}, column,
                    message);
  }
  std::string_view text(const std::string& column) const { return fields_[columns_.at(column)]; }

  double number(const std::string& column) const {
    const std::string_view t = text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
    if (error != std::errc{} || end != t.data() + t.size() || !(value > 0) || !(value < 1e18))
      fail(column, "read '" + std::string(t) + "', would be right: a positive number");
    return value;
  }
  std::int64_t count(const std::string& column) const {
    const double value = number(column);
    if (value != static_cast<double>(static_cast<std::int64_t>(value)))
      fail(column, "read '" + std::string(text(column)) + "', would be right: a positive integer");
    return static_cast<std::int64_t>(value);
  }
  std::int64_t optional_count(const std::string& column) const { return text(column).empty() ? 0 : count(column); }

 private:
  const std::string& file_;
  int number_;
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string_view> fields_;
};

DataType data_type(const Line& line) {
  const std::string_view t = line.text("dtype");
  if (t == "bfloat16" || t == "bf16") return DataType::bf16;
  if (t == "float16" || t == "fp16") return DataType::fp16;
  if (t == "float32" || t == "fp32") return DataType::fp32;
  if (t == "fp8") return DataType::fp8;
  line.fail("dtype", "read '" + std::string(t) + "', would be right: bfloat16, float16, float32 or fp8");
}

CollectiveOp collective(const Line& line) {
  const std::string_view t = line.text("op");
  if (t == "alltoall") return CollectiveOp::all_to_all;
  for (std::size_t i = 0; i < kCollectiveOps; ++i)
    if (name_of(static_cast<CollectiveOp>(i)) == t) return static_cast<CollectiveOp>(i);
  line.fail("op",
            "read '" + std::string(t) + "', would be right: all_reduce, all_gather, reduce_scatter, alltoall, ...");
}

void read_gemm(const Line& line, Samples& out) {
  Gemm g;
  g.dtype = data_type(line);
  g.m = line.count("m"), g.n = line.count("n"), g.k = line.count("k");
  g.cast_input = g.dtype == DataType::fp8;
  out.gemm.push_back({g, line.number("ms") * 1e-3});
}

void read_attention(const Line& line, Samples& out) {
  Attention a;
  a.batch = line.count("batch"), a.queries = a.keys = line.count("seq");
  a.heads = line.count("heads"), a.kv_heads = line.count("kv_heads"), a.head_dim = line.count("head_dim");
  if (a.heads % a.kv_heads != 0) line.fail("kv_heads", "does not divide heads");
  a.cache_write = true;
  out.attention.push_back({a, line.number("ms") * 1e-3});
}

void read_collective(const Line& line, Samples& out) {
  const std::int64_t gpus = line.count("gpus");
  if (gpus > 1'000'000) line.fail("gpus", "would be right: at most a million");
  if (line.count("bytes") > 1'000'000'000'000'000) line.fail("bytes", "would be right: at most 1e15");
  out.collective.push_back({collective(line), gpus, sim::Bytes(line.count("bytes")), line.number("us") * 1e-6});
}

void read_kernel(const Line& line, Samples& out) {
  out.kernel.push_back({std::string(line.text("device")), std::string(line.text("kernel")), line.optional_count("m"),
                        line.optional_count("n"), line.optional_count("k"), line.number("us") * 1e-6});
}

struct Table {
  std::vector<std::string> columns;
  void (*read)(const Line&, Samples&);
};

const std::array<Table, 4>& tables() {
  static const std::array<Table, 4> all{{{{"dtype", "m", "n", "k", "ms"}, read_gemm},
                                         {{"batch", "seq", "heads", "kv_heads", "head_dim", "ms"}, read_attention},
                                         {{"op", "gpus", "bytes", "us"}, read_collective},
                                         {{"device", "kernel", "m", "n", "k", "us"}, read_kernel}}};
  return all;
}

}  // namespace

Samples read_samples(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw UserError(Place{file, 0, 0}, "samples", "cannot be read");
  std::string text;
  int number = 1;
  if (!std::getline(in, text)) throw UserError(Place{file, 1, 1}, "header", "the file is empty");
  const auto trim = [&text] {
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.pop_back();
  };
  trim();
  std::map<std::string, std::size_t> columns;
  for (std::string_view c : split(text)) columns.emplace(std::string(c), columns.size());
  const Table* table = nullptr;
  for (const Table& t : tables()) {
    bool all = true;
    for (const std::string& c : t.columns) all = all && columns.count(c) == 1;
    if (all && table == nullptr) table = &t;
  }
  if (table == nullptr)
    throw UserError(
        Place{file, 1, 1}, "header",
        "read '" + text +
            "', would be right: dtype,m,n,k,ms or batch,seq,heads,kv_heads,head_dim,ms or op,gpus,bytes,us");
  Samples out;
  while (std::getline(in, text)) {
    ++number;
    trim();
    if (!text.empty()) table->read(Line(file, number, columns, text), out);
  }
  return out;
}

}  // namespace orrery::calibration
