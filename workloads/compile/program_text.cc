// Programs as text. See program_text.h. Left out: what only the engine needs (slots, patterns, routes).
#include "workloads/compile/program_text.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

#include "sim/error.h"
#include "workloads/groups/streams.h"

namespace orrery::workloads {

namespace {

constexpr double kMicrosecond = 1e-6, kMegabyte = 1e6;
/// Lines of a pass, or of what stands outside of passes, where nobody asked for all of them; passes of the order.
constexpr std::size_t kMostLines = 40, kMostPasses = 16;

/// A pass by what a schedule's text says of it; micro-batch -1: none.
using Label = std::tuple<PassKind, std::int32_t, std::int32_t>;
Label label_of(const Pass& pass) { return {pass.kind, pass.chunk, pass.microbatch}; }
Label label_of(const OpNote& note) { return {note.kind, note.chunk, note.microbatch}; }
bool is_pass(const OpNote& note) { return note.microbatch >= 0; }

std::string microseconds(std::int64_t picoseconds) {
  return fmt::format("{:.2f}", sim::to_seconds(sim::Duration(picoseconds)) / kMicrosecond);
}

std::string trimmed(const std::string& line) { return line.substr(0, line.find_last_not_of(' ') + 1); }

class ProgramText {
 public:
  ProgramText(const StagePrograms& plan, std::int64_t stage, const ProgramTextOptions& options)
      : program_(plan.programs[static_cast<std::size_t>(stage)]),
        notes_(plan.notes[static_cast<std::size_t>(stage)]),
        stages_(plan),
        options_(options),
        stage_(stage),
        order_(plan.orders[static_cast<std::size_t>(stage)]),
        with_chunks_(std::any_of(order_.begin(), order_.end(), [](const Pass& pass) { return pass.chunk > 0; })) {
    choose_passes();
  }

  std::string write() {
    header();
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      if (is_shown(op))
        line(op);
      else
        ++left_out_;
    }
    count_left_out();
    write_rows();
    return std::move(out_);
  }

 private:
  void choose_passes() {
    std::set<PassKind> seen;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const bool first_of_kind = seen.insert(order_[i].kind).second;
      if (options_.passes > 0 ? static_cast<std::int64_t>(i) < options_.passes : first_of_kind)
        shown_.insert(label_of(order_[i]));
    }
  }

  /// Operations of the passes asked for, and those outside of all; in short, no more of each than fit a screen.
  bool is_shown(std::uint32_t op) {
    const OpNote& note = notes_[op];
    const bool asked = !is_pass(note) || shown_.contains(label_of(note));
    if (op == 0 || is_pass(note) != is_pass(notes_[op - 1]) || label_of(note) != label_of(notes_[op - 1])) lines_ = 0;
    return asked && (options_.passes > 0 || lines_++ < kMostLines);
  }

  void header() {
    std::vector<Pass> shown(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(passes_named()));
    if (!shown.empty()) shown.back().with_next = false;
    out_ += fmt::format("stage {} of {}: {} passes, {} operations\n", stage_, stages_.programs.size(), order_.size(),
                        program_.size());
    const std::size_t unnamed = order_.size() - shown.size();
    out_ += "order: " + trimmed(text(shown, with_chunks_) + (unnamed > 0 ? fmt::format("and {} more", unnamed) : ""));
    out_ += "\n\n";
    rows_.push_back({"op", "pass", "stream", "what", "us", "MB", "host us", "waits for"});
  }

  std::size_t passes_named() const {
    const auto asked = static_cast<std::size_t>(options_.passes);
    return std::min(order_.size(), std::max(asked, kMostPasses));
  }

  void line(std::uint32_t op) {
    count_left_out();
    const OpNote& note = notes_[op];
    const bool transfer = program_.kind[op] == sim::OpKind::transfer;
    std::vector<std::string> waits;
    for (const std::uint32_t wait : program_.waits_of(op)) waits.push_back(std::to_string(wait));
    if (program_.host_waits[op] != 0) waits.emplace_back("the host waits for it");
    rows_.push_back({std::to_string(op), pass_text(note), std::string(all_streams()[program_.stream[op]].name),
                     transfer ? transfer_text(op) : compute_text(op), microseconds(program_.duration[op]),
                     transfer ? fmt::format("{:.3f}", program_.work[op] / kMegabyte) : "",
                     microseconds(program_.issue[op]), fmt::format("{}", fmt::join(waits, ", "))});
    if (!options_.kernels || transfer || note.whole != kNoWholePass) return;
    for (const Kernel& kernel : stages_.runs[note.run])
      rows_.push_back({"", "", "", "  " + kernel.name, microseconds(kernel.time.value()), "", "", ""});
  }

  std::string pass_text(const OpNote& note) const {
    if (is_pass(note)) return trimmed(text({{note.kind, note.chunk, note.microbatch, false}}, with_chunks_));
    return note.chunk >= 0 && with_chunks_ ? fmt::format("chunk {}", note.chunk) : "";
  }

  std::string compute_text(std::uint32_t op) const {
    const OpNote& note = notes_[op];
    if (note.whole != kNoWholePass) {
      const std::size_t collectives = stages_.whole_passes[note.whole].transfers.size();
      return fmt::format("the whole pass, {} collectives in it", collectives);
    }
    const std::vector<Kernel>& kernels = stages_.runs[note.run];
    if (kernels.size() == 1) return kernels.front().name;
    return fmt::format("{} ... {}, {} kernels", kernels.front().name, kernels.back().name, kernels.size());
  }

  std::string transfer_text(std::uint32_t op) const {
    const OpNote& note = notes_[op];
    const TrafficKey& key = stages_.traffic[note.traffic];
    if (key.op == CollectiveOp::send_receive && key.group.name == CommGroup::activations.name)
      return fmt::format("{} {}", note.counts ? "send" : "receive", key.what);
    if (key.group.name == CommGroup::host.name) return key.what;
    const std::string share = note.share < 1 ? fmt::format(", {:.3g} of it", note.share) : "";
    return fmt::format("{} of {}, {} ranks{}", calibration::name_of(key.op), key.what, key.ranks, share);
  }

  void count_left_out() {
    if (left_out_ > 0) rows_.push_back({"...", "", "", fmt::format("({} operations)", left_out_), "", "", "", ""});
    left_out_ = 0;
  }

  using Row = std::array<std::string, 8>;

  /// In columns as wide as their widest cell, numbers to the right.
  void write_rows() {
    constexpr std::array<bool, 8> kToTheRight{true, false, false, false, true, true, true, false};
    std::array<std::size_t, 8> width{};
    for (const Row& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    }
    for (const Row& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c)
        line += kToTheRight[c] ? fmt::format("{:>{}}  ", row[c], width[c]) : fmt::format("{:<{}}  ", row[c], width[c]);
      out_ += trimmed(line) + "\n";
    }
  }

  const sim::Program& program_;
  const std::vector<OpNote>& notes_;
  const StagePrograms& stages_;
  const ProgramTextOptions& options_;
  std::int64_t stage_;
  const std::vector<Pass>& order_;
  bool with_chunks_;
  std::set<Label> shown_;
  std::size_t lines_ = 0, left_out_ = 0;
  std::vector<Row> rows_;
  std::string out_;
};

}  // namespace

std::string program_text(const StagePrograms& plan, std::int64_t stage, const ProgramTextOptions& options) {
  SIM_CHECK(stage >= 0 && stage < static_cast<std::int64_t>(plan.programs.size()), "stage {}", stage);
  return ProgramText(plan, stage, options).write();
}

}  // namespace orrery::workloads
