// The study goes through what may be left out, row by row: what then is new of the row, and how far outside of the
// interval that the rest gives it was measured. A row counts once for each newness, and each framework, device or list
// as much as another: the next one is a draw from these, not from rows.
#include "tools/explain/newness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "scenarios/scenario.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

constexpr double kHostBound = 0.1;        // of the step
constexpr std::size_t kFewestGroups = 8;  // that a widening of its own needs
constexpr double kBeyond = 2;             // times the GPUs of any row

constexpr std::array<std::string_view, 3> kSeen{"same", "kin", "none"};

}  // namespace

bool Newness::covers(const Newness& other) const {
  return framework >= other.framework && device >= other.device && work >= other.work && size >= other.size;
}

std::size_t index_of(const Newness& n) {
  return static_cast<std::size_t>(n.framework) * 8 + (n.device ? 4U : 0U) + (n.work ? 2U : 0U) + (n.size ? 1U : 0U);
}
Newness newness_at(std::size_t index) {
  return {static_cast<Seen>(index / 8), (index & 4U) != 0, (index & 2U) != 0, (index & 1U) != 0};
}

namespace {

/// What tells rows apart, by number.
struct Traits {
  std::uint32_t list = 0, framework = 0, software = 0, device = 0, work = 0;
  std::int64_t gpus = 0;
};
class Numbers {
 public:
  Traits traits(const std::string& list, const Features& f) {
    return {of(lists_, list),           of(frameworks_, framework_of(f.software)),
            of(softwares_, f.software), of(devices_, f.device),
            of(works_, f.work),         f.gpus};
  }
  std::size_t lists() const { return lists_.size(); }

 private:
  using Names = std::map<std::string, std::uint32_t, std::less<>>;
  static std::uint32_t of(Names& names, std::string_view name) {
    return names.try_emplace(std::string(name), static_cast<std::uint32_t>(names.size())).first->second;
  }
  Names lists_, frameworks_, softwares_, devices_, works_;
};

/// Goes through known rows one by one.
class Seeing {
 public:
  explicit Seeing(const Traits& asked) : asked_(asked) {}

  void see(const Traits& known) {
    if (known.software == asked_.software)
      out_.framework = Seen::same;
    else if (out_.framework == Seen::none && known.framework == asked_.framework)
      out_.framework = Seen::kin;
    most_ = std::max(most_, known.gpus);
    if (known.work == asked_.work) out_.work = false;
    if (known.device != asked_.device) return;
    out_.device = false;
    most_here_ = std::max(most_here_, known.gpus);
  }

  Newness newness() const {
    Newness out = out_;
    out.size = static_cast<double>(asked_.gpus) > kBeyond * static_cast<double>(out.device ? most_ : most_here_);
    return out;
  }

 private:
  const Traits& asked_;
  Newness out_{Seen::none, true, true, false};
  std::int64_t most_ = 0, most_here_ = 0;
};

}  // namespace

Newness newness_of(const Features& features, const std::vector<KnownRow>& known, const KnownRow* left_out) {
  const std::vector<RowView> views = views_of(known);
  return newness_of(features, views, view_of(views, known, left_out));
}

Newness newness_of(const Features& features, std::span<const RowView> known, const RowView* left_out) {
  const auto number = [](bool other) { return other ? 1U : 0U; };  // of a trait: 0 is that of what is asked about
  const Traits asked{0, 0, 0, 0, 0, features.gpus};
  const std::string_view framework = framework_of(features.software);
  Seeing seeing(asked);
  for (const RowView& row : known) {
    const RowTraits& f = row.traits;
    if (&row != left_out)
      seeing.see({0, number(framework_of(f.software) != framework), number(f.software != features.software),
                  number(f.device != features.device), number(f.work != features.work), f.gpus});
  }
  return seeing.newness();
}

std::string text_of(const Newness& newness, const Features& features) {
  std::vector<std::string> parts;
  if (newness.framework == Seen::none)
    parts.push_back(fmt::format("{} {} unknown", host_share(features) >= kHostBound ? "eager framework" : "framework",
                                framework_of(features.software)));
  if (newness.framework == Seen::kin) parts.push_back(fmt::format("generation {} unknown", features.software));
  if (newness.device) parts.push_back(fmt::format("device {} unknown", features.device));
  if (newness.work) parts.push_back(fmt::format("work of this kind ({}) unknown", features.work));
  if (newness.size) parts.push_back(fmt::format("{} GPUs are more than twice as many as were measured", features.gpus));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<double> nowhere_falling(const std::vector<double>& values, const std::vector<double>& weights) {
  struct Block {
    double mean, weight;
    std::size_t of;
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < values.size(); ++i) {
    blocks.push_back({values[i], weights[i], 1});
    while (blocks.size() > 1 && blocks.back().mean < blocks[blocks.size() - 2].mean) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& into = blocks.back();
      const double weight = into.weight + last.weight;
      into = {(into.mean * into.weight + last.mean * last.weight) / weight, weight, into.of + last.of};
    }
  }
  std::vector<double> out;
  for (const Block& block : blocks) out.insert(out.end(), block.of, block.mean);
  return out;
}

namespace {

/// What is left out beside the row's list.
struct LeftOut {
  Seen framework = Seen::same;  // kin: its generation; none: all generations of its framework
  bool device = false, work = false, size = false;
};

/// A row in no fit and what the rest says of it.
struct Asked {
  const KnownRow* row = nullptr;
  Newness newness;
  LikeRows like;
};

/// How far outside an interval a ratio lies, as a logarithm; below 0 inside.
double outside(double log_ratio, double low, double high) {
  return std::max(std::log(low) - log_ratio, log_ratio - std::log(high));
}

std::string group_of(const KnownRow& row, const Newness& newness) {
  if (newness.framework == Seen::none) return std::string(framework_of(row.features.software));
  if (newness.device) return row.features.device;
  if (newness.framework == Seen::kin) return row.features.software;
  return row.list;
}

struct Weighed {
  double value = 0, weight = 0;
};
/// The least value that a share `p` of the weight does not pass; below 0 where an interval holds more than it says.
double reach(std::vector<Weighed>& of, double p) {
  std::sort(of.begin(), of.end(), [](const Weighed& a, const Weighed& b) { return a.value < b.value; });
  double total = 0, sum = 0;
  for (const Weighed& one : of) total += one.weight;
  for (const Weighed& one : of) {
    sum += one.weight;
    if (sum >= p * total * (1 - 1e-12)) return one.value;
  }
  return 0;
}

/// Rows by what is new of them, and the widenings that they ask for. What one newness asks for, no greater one goes
/// below; where an unknown framework asks for less than an unknown generation, both take the mean by their groups;
/// where few groups of a newness are known, the lesser ones speak for it.
class Pools {
 public:
  void add(const Asked& asked) {
    std::vector<Asked>& pool = pools_[index_of(asked.newness)];
    if (asked.row->evidence() && known_.emplace(index_of(asked.newness), asked.row).second) pool.push_back(asked);
  }

  /// `without`: rows that have no part in it.
  template <typename Without>
  Widenings widenings(const Without& without) const {
    Widenings own;
    for (std::size_t i = 0; i < kNewnesses; ++i) own.at[i] = of_pool(pools_[i], newness_at(i), without);
    const auto speaks = [&](std::size_t at) { return own.at[at].groups >= kFewestGroups; };
    for (const auto share : {&Widening::at68, &Widening::at90}) order_frameworks(own, share, speaks);
    Widenings out = own;
    for (std::size_t i = 0; i < kNewnesses; ++i) {
      bool known = speaks(i);
      for (std::size_t j = 0; j < kNewnesses; ++j) {
        if (!speaks(j) || !newness_at(i).covers(newness_at(j))) continue;
        Widening& by = out.at[i].widening;
        const Widening& least = own.at[j].widening;
        by = known ? Widening{std::max(by.at68, least.at68), std::max(by.at90, least.at90)} : least;
        known = true;
      }
    }
    return out;
  }

 private:
  template <typename Speaks>
  static void order_frameworks(Widenings& own, double Widening::*share, const Speaks& speaks) {
    for (unsigned others = 0; others < 8; ++others) {
      std::vector<std::size_t> chain;
      std::vector<double> values, groups;
      for (const Seen framework : {Seen::same, Seen::kin, Seen::none}) {
        const std::size_t at = index_of({framework, (others & 1U) != 0, (others & 2U) != 0, (others & 4U) != 0});
        if (!speaks(at)) continue;
        chain.push_back(at);
        values.push_back(own.at[at].widening.*share);
        groups.push_back(static_cast<double>(own.at[at].groups));
      }
      values = nowhere_falling(values, groups);
      for (std::size_t i = 0; i < chain.size(); ++i) own.at[chain[i]].widening.*share = values[i];
    }
  }

  template <typename Without>
  static Widenings::Entry of_pool(const std::vector<Asked>& pool, const Newness& newness, const Without& without) {
    Widenings::Entry out;
    std::map<std::string, double> rows_of;
    for (const Asked& asked : pool) {
      if (without(*asked.row)) continue;
      ++rows_of[group_of(*asked.row, newness)];
      ++out.rows;
    }
    out.groups = rows_of.size();
    std::vector<Weighed> at68, at90;
    for (const Asked& asked : pool) {
      if (without(*asked.row)) continue;
      const double weight = 1 / rows_of.at(group_of(*asked.row, newness));
      at68.push_back({outside(asked.row->log_ratio, asked.like.low68, asked.like.high68), weight});
      at90.push_back({outside(asked.row->log_ratio, asked.like.low90, asked.like.high90), weight});
    }
    if (out.groups >= kFewestGroups) out.widening = {reach(at68, 0.68), reach(at90, 0.90)};
    return out;
  }

  std::array<std::vector<Asked>, kNewnesses> pools_;
  std::set<std::pair<std::size_t, const KnownRow*>> known_;
};

/// Rows in the order of their ratios, with their likenesses.
class Rest {
 public:
  explicit Rest(const std::vector<KnownRow>& known) : rows_(known) {
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const KnownRow& a, const KnownRow& b) { return a.log_ratio < b.log_ratio; });
    std::vector<RowTraits> views;
    for (const KnownRow& row : rows_) {
      traits_.push_back(numbers_.traits(row.list, row.features));
      views.emplace_back(row.features);
    }
    likeness_.resize(rows_.size() * rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto alike = static_cast<float>(likeness(views[i], views[j]));
        likeness_[i * rows_.size() + j] = likeness_[j * rows_.size() + i] = alike;
      }
    }
  }

  const std::vector<KnownRow>& rows() const { return rows_; }

  /// What the rows that are left say of row `i`; nothing where none is. `own_list`: all rows but itself are left.
  std::optional<Asked> ask(std::size_t i, const LeftOut& left_out, bool own_list = false) const {
    const KnownRow& row = rows_[i];
    Seeing seeing(traits_[i]);
    std::vector<Neighbour> near;
    near.reserve(rows_.size());
    for (std::size_t j = 0; j < rows_.size(); ++j) {
      if (j == i || (!own_list && !stays(traits_[i], traits_[j], left_out))) continue;
      seeing.see(traits_[j]);
      if (rows_[j].evidence()) near.push_back({rows_[j].log_ratio, likeness_[i * rows_.size() + j], traits_[j].list});
    }
    const std::optional<LikeRows> like = interval_of(near, numbers_.lists());
    if (!like) return std::nullopt;
    return Asked{&row, seeing.newness(), *like};
  }

 private:
  static bool stays(const Traits& row, const Traits& other, const LeftOut& left_out) {
    if (other.list == row.list) return false;
    if (left_out.framework == Seen::kin && other.software == row.software) return false;
    if (left_out.framework == Seen::none && other.framework == row.framework) return false;
    if (left_out.device && other.device == row.device) return false;
    if (left_out.work && other.work == row.work) return false;
    const bool large = kBeyond * static_cast<double>(other.gpus) >= static_cast<double>(row.gpus);
    return !left_out.size || !large || (!left_out.device && other.device != row.device);
  }

  std::vector<KnownRow> rows_;
  Numbers numbers_;
  std::vector<Traits> traits_;
  std::vector<float> likeness_;
};

/// The groups and rows of which intervals hold how many.
class Tally {
 public:
  void count(const Asked& asked, const Widening& by, const std::string& group) {
    constexpr double kRounding = 1e-9;  // of logarithms there and back
    const LikeRows like = widened(asked.like, by);
    const double ratio = asked.row->log_ratio;
    const bool in68 = outside(ratio, like.low68, like.high68) <= kRounding;
    const bool in90 = outside(ratio, like.low90, like.high90) <= kRounding;
    all_.add(in68, in90);
    if (asked.row->state_unknown) return;
    stated_.add(in68, in90);
    groups_[group].add(in68, in90);
    half90_ += std::sqrt(like.high90 / like.low90) - 1;
  }

  Held held(std::string left_out, std::string list) const {
    Held out{std::move(left_out), std::move(list)};
    out.rows = stated_.rows;
    out.groups = static_cast<std::int64_t>(groups_.size());
    out.at68 = stated_.pct(stated_.in68);
    out.at90 = stated_.pct(stated_.in90);
    for (const auto& [name, group] : groups_) {
      out.each68 += group.pct(group.in68) / static_cast<double>(groups_.size());
      out.each90 += group.pct(group.in90) / static_cast<double>(groups_.size());
    }
    out.with_unknown68 = all_.pct(all_.in68);
    out.with_unknown90 = all_.pct(all_.in90);
    out.half90_pct = stated_.rows > 0 ? 100 * half90_ / static_cast<double>(stated_.rows) : 0;
    return out;
  }

 private:
  struct Count {
    std::int64_t rows = 0, in68 = 0, in90 = 0;
    void add(bool at68, bool at90) {
      ++rows;
      in68 += at68 ? 1 : 0;
      in90 += at90 ? 1 : 0;
    }
    double pct(std::int64_t in) const {
      return rows > 0 ? 100 * static_cast<double>(in) / static_cast<double>(rows) : 0;
    }
  };
  Count all_, stated_;
  std::map<std::string, Count> groups_;
  double half90_ = 0;
};

/// What is left out as a whole, one kind after the other, and of what a row's group is then made.
struct Kind {
  const char* name;
  LeftOut left_out;
  std::string (*group)(const KnownRow&);
};
const std::array<Kind, 6>& kinds() {
  static const auto list = [](const KnownRow& row) { return row.list; };
  static const auto framework = [](const KnownRow& row) { return std::string(framework_of(row.features.software)); };
  static const std::array<Kind, 6> all{{
      {"source", {}, list},
      {"generation", {Seen::kin}, [](const KnownRow& row) { return row.features.software; }},
      {"framework", {Seen::none}, framework},
      {"device", {Seen::same, true}, [](const KnownRow& row) { return row.features.device; }},
      {"work", {Seen::same, false, true}, [](const KnownRow& row) { return row.features.work; }},
      {"framework and device", {Seen::none, true}, framework},
  }};
  return all;
}

void add_held(const Rest& study, const Pools& pools, const Kind& kind, std::vector<Held>& out) {
  std::map<std::string, Widenings> by_group;
  Tally all;
  std::map<std::string, Tally> by_list;
  for (std::size_t i = 0; i < study.rows().size(); ++i) {
    const KnownRow& row = study.rows()[i];
    if (row.fitted) continue;
    const auto asked = study.ask(i, kind.left_out);
    if (!asked) continue;
    const std::string group = kind.group(row);
    if (!by_group.contains(group))
      by_group.emplace(group, pools.widenings([&](const KnownRow& r) { return kind.group(r) == group; }));
    const Widening& by = by_group.at(group).at[index_of(asked->newness)].widening;
    all.count(*asked, by, group);
    by_list[row.list].count(*asked, by, group);
  }
  out.push_back(all.held(kind.name, ""));
  if (std::string_view(kind.name) != "source") return;
  for (const auto& [list, tally] : by_list) out.push_back(tally.held(kind.name, list));
}

}  // namespace

WidthStudy study_widths(const std::vector<KnownRow>& known) {
  const Rest study(known);
  Pools pools;
  for (const Seen framework : {Seen::same, Seen::kin, Seen::none}) {
    for (unsigned others = 0; others < 8; ++others) {
      const LeftOut left_out{framework, (others & 1U) != 0, (others & 2U) != 0, (others & 4U) != 0};
      for (std::size_t i = 0; i < study.rows().size(); ++i) {
        if (!study.rows()[i].evidence()) continue;
        if (const auto asked = study.ask(i, left_out)) pools.add(*asked);
      }
    }
  }
  WidthStudy out;
  out.widenings = pools.widenings([](const KnownRow&) { return false; });
  Tally own;
  for (std::size_t i = 0; i < study.rows().size(); ++i) {
    if (study.rows()[i].fitted) continue;
    if (const auto asked = study.ask(i, {}, true)) own.count(*asked, {}, asked->row->list);
  }
  out.held.push_back(own.held("row", ""));
  for (const Kind& kind : kinds()) add_held(study, pools, kind, out.held);
  out.ratios = fit_pair_errors(known);
  return out;
}

void write_widths(std::ostream& out, const WidthStudy& study) {
  out << "# By how much the ends of an interval move out for what no published row has, in per cent of the step, and "
         "how\n"
         "# many rows such intervals hold whose source, generation, framework, device or kind of work is left out as "
         "a\n"
         "# whole (tools/explain/newness.h says how). Written by tools/scoreboard: `orrery validate tests/published\n"
         "# --intervals FILE`. `each`: the mean over what was left out, each counted alike; `with_unknown`: of all "
         "rows in no\n"
         "# fit, those too of which it is not known how they ran.\n"
         "# `ratios`: errors of the ratio of two layouts (tools/pair_errors.h).\n";
  if (study.ratios) write_pair_errors(out, *study.ratios);
  out << "widening:\n";
  for (std::size_t i = 0; i < kNewnesses; ++i) {
    const Newness n = newness_at(i);
    const Widenings::Entry& entry = study.widenings.at[i];
    out << fmt::format(
        "- {{framework: {}, new_device: {}, new_work: {}, beyond_size: {}, at_68_pct: {:.2f}, "
        "at_90_pct: "
        "{:.2f}, rows: {}, groups: {}}}\n",
        kSeen[static_cast<std::size_t>(n.framework)], n.device, n.work, n.size, 100 * std::expm1(entry.widening.at68),
        100 * std::expm1(entry.widening.at90), entry.rows, entry.groups);
  }
  out << "held:\n";
  for (const Held& h : study.held) {
    if (!h.list.empty()) continue;
    out << fmt::format(
        "- {{left_out: {}, rows: {}, groups: {}, of_68_pct: {:.1f}, of_90_pct: {:.1f}, each_68_pct: {:.1f}, "
        "each_90_pct: "
        "{:.1f}, with_unknown_68_pct: {:.1f}, with_unknown_90_pct: {:.1f}, half_90_pct: {:.1f}}}\n",
        h.left_out, h.rows, h.groups, h.at68, h.at90, h.each68, h.each90, h.with_unknown68, h.with_unknown90,
        h.half90_pct);
  }
}

namespace {

Seen seen_at(const sim::Settings& value) {
  const auto found = std::find(kSeen.begin(), kSeen.end(), value.text());
  if (found == kSeen.end()) value.expected("same, kin or none");
  return static_cast<Seen>(found - kSeen.begin());
}

void read_widening(const sim::Settings& item, Widenings& out) {
  item.refuse_unknown(
      {"framework", "new_device", "new_work", "beyond_size", "at_68_pct", "at_90_pct", "rows", "groups"});
  const Newness n{seen_at(item.at("framework")), item.at("new_device").as_bool(), item.at("new_work").as_bool(),
                  item.at("beyond_size").as_bool()};
  const auto moved = [&](const char* key) {
    const double pct = item.at(key).as_number();
    if (!(pct > -100 && pct < 1e6)) item.at(key).expected("a percentage above -100");
    return std::log1p(pct / 100);
  };
  out.at[index_of(n)] = {{moved("at_68_pct"), moved("at_90_pct")},
                         static_cast<std::size_t>(item.at("rows").as_int()),
                         static_cast<std::size_t>(item.at("groups").as_int())};
}

Held held_at(const sim::Settings& item) {
  item.refuse_unknown({"left_out", "rows", "groups", "of_68_pct", "of_90_pct", "each_68_pct", "each_90_pct",
                       "with_unknown_68_pct", "with_unknown_90_pct", "half_90_pct"});
  const auto number = [&](const char* key) { return item.at(key).as_number(); };
  Held out{item.at("left_out").text(), ""};
  out.rows = item.at("rows").as_int();
  out.groups = item.at("groups").as_int();
  out.at68 = number("of_68_pct");
  out.at90 = number("of_90_pct");
  out.each68 = number("each_68_pct");
  out.each90 = number("each_90_pct");
  out.with_unknown68 = number("with_unknown_68_pct");
  out.with_unknown90 = number("with_unknown_90_pct");
  out.half90_pct = number("half_90_pct");
  return out;
}

}  // namespace

WidthStudy shipped_widths() {
  WidthStudy out;
  const std::string file = scenarios::data_directory() + "/scenarios/published/intervals.yaml";
  if (!std::filesystem::exists(file)) return out;
  const sim::Settings document = scenarios::read_yaml(file);
  document.refuse_unknown({"ratios", "widening", "held"});
  if (const sim::Settings* ratios = document.find("ratios")) out.ratios = read_pair_errors(*ratios);
  for (const sim::Settings& item : document.at("widening").items()) read_widening(item, out.widenings);
  for (const sim::Settings& item : document.at("held").items()) out.held.push_back(held_at(item));
  return out;
}

std::optional<StepInterval> step_interval(const Features& features, const std::vector<KnownRow>& known,
                                          const Widenings& widenings, const KnownRow* itself) {
  const std::vector<RowView> views = views_of(known);
  return step_interval(features, views, widenings, view_of(views, known, itself));
}

std::optional<StepInterval> step_interval(const Features& features, std::span<const RowView> known,
                                          const Widenings& widenings, const RowView* itself) {
  const auto like = like_rows(features, known, itself);
  if (!like) return std::nullopt;
  StepInterval out{*like, {}, {}, itself != nullptr};
  if (out.itself) return out;
  out.newness = newness_of(features, known);
  out.widening = widenings.at[index_of(out.newness)].widening;
  out.like = widened(out.like, out.widening);
  return out;
}

std::optional<StepInterval> interval_of_run(const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  const ShippedRows known;
  if (known.all().empty()) return std::nullopt;
  const Features features = features_of(scenario.job, report);
  const Metric measured = scenario.measured ? compare(*scenario.measured, report) : Metric{};
  return step_interval(features, known.all(), shipped_widths().widenings,
                       same_measurement(features, measured, known.all()));
}

std::string range_text(double step_s, double low, double high) {
  return fmt::format("{} to {}", time_text(step_s * low), time_text(step_s * high));
}

std::string text_of(const StepInterval& interval, double step_s, const Features& features) {
  const LikeRows& like = interval.like;
  std::string text =
      wrapped(fmt::format("Of such steps 68 % take {}, 90 % {}, by how published rows like it were met{}.",
                          range_text(step_s, like.low68, like.high68), range_text(step_s, like.low90, like.high90),
                          interval.itself ? ", itself left out" : ""),
              "  ", "  ");
  if (!interval.newness.any()) return text;
  const auto half_pct = [](double low, double high) { return 100 * std::max(1 - low, high - 1); };
  return text + wrapped(fmt::format("Nothing like this was measured: {}: +- {:.0f} %, in nine of ten +- {:.0f} %.",
                                    text_of(interval.newness, features), half_pct(like.low68, like.high68),
                                    half_pct(like.low90, like.high90)),
                        "  ", "  ");
}

nlohmann::ordered_json interval_json(const StepInterval& interval, double step_s, const Features& features) {
  const LikeRows& like = interval.like;
  nlohmann::ordered_json json;
  json["iteration_time_68_s"] = {step_s * like.low68, step_s * like.high68};
  json["iteration_time_90_s"] = {step_s * like.low90, step_s * like.high90};
  json["rows"] = std::round(like.rows * 1e6) / 1e6;  // an effective number, whose last digits hang on the C library
  json["nearest"] = like.nearest;
  json["not_measured"] = text_of(interval.newness, features);
  return json;
}

}  // namespace orrery::tools
