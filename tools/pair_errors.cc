// Likelihood by steps of one parameter at a time, and chances by drawing errors. The draws are the same every time.
#include "tools/pair_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>
#include <ostream>
#include <random>
#include <set>
#include <string>

#include "scenarios/scenario.h"

namespace orrery::tools {

namespace {

constexpr double kFreedom = 4;                  // of Student's t
constexpr double kAt68 = 1.134, kAt90 = 2.132;  // its quantiles on both sides
constexpr double kNear = 0.3;                   // ln of two predicted steps that make a pair
constexpr std::size_t kMostPairs = 200;         // of one group

using Category = workloads::Category;

std::size_t part_of(Category category) {
  switch (category) {
    case Category::compute:
      return 0;
    case Category::tensor_comm:
      return 1;
    case Category::pipeline_comm:
    case Category::bubble:
    case Category::partner_wait:
      return 2;
    case Category::host:
    case Category::host_copy:
    case Category::other:
      return 4;
    default:
      return 3;
  }
}

/// A pair of measured layouts.
struct Pair {
  double off = 0;  // ln of measured over predicted ratio
  Shares apart{};
  double weight = 0;
  std::string framework;
};

/// What a search over layouts does not choose.
std::string question_of(const KnownRow& row) {
  const Features& f = row.features;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", row.list, f.device, f.gpus, f.fabric, f.software,
                     f.attention, f.precision, f.work, f.sizes.layers, f.sizes.hidden, f.sizes.seq,
                     f.sizes.global_batch);
}
std::string layout_of(const KnownRow& row) {
  const Features& f = row.features;
  return fmt::format("{} {} {} {} {} {} {} {} {}", f.sizes.tensor, f.sizes.pipeline, f.sizes.virtual_pipeline,
                     f.sizes.data, f.sizes.context, f.sizes.micro_batch, f.schedule, f.sharding, f.recompute);
}
double step_of(const KnownRow& row) {
  double sum = 0;
  for (const double seconds : row.features.exposed_s) sum += seconds;
  return sum;
}

void add_pairs(const std::vector<const KnownRow*>& group, std::vector<Pair>& out) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const KnownRow &a = *group[i], &b = *group[j];
      if (a.fitted && b.fitted) continue;
      if (std::abs(std::log(step_of(a) / step_of(b))) >= kNear) continue;
      Pair pair{a.log_ratio - b.log_ratio, {}, 0, std::string(framework_of(a.features.software))};
      const Shares one = shares_of(a.features.exposed_s), other = shares_of(b.features.exposed_s);
      for (std::size_t k = 0; k < kStepParts; ++k) pair.apart[k] = one[k] - other[k];
      pairs.push_back(std::move(pair));
    }
  }
  const std::size_t every = (pairs.size() + kMostPairs - 1) / kMostPairs;
  std::vector<Pair> kept;
  for (std::size_t i = 0; i < pairs.size(); i += every) kept.push_back(std::move(pairs[i]));
  for (Pair& pair : kept) {
    pair.weight = 1 / std::sqrt(static_cast<double>(kept.size()));  // pairs of one group share causes
    out.push_back(std::move(pair));
  }
}

std::vector<Pair> pairs_of(const std::vector<KnownRow>& known, std::size_t& groups) {
  std::map<std::string, std::vector<const KnownRow*>> by_question;
  for (const KnownRow& row : known) {
    if (!row.state_unknown && row.features.work != "recommender" && step_of(row) > 0)
      by_question[question_of(row)].push_back(&row);
  }
  std::vector<Pair> out;
  groups = 0;
  for (const auto& [question, rows] : by_question) {
    std::set<std::string> layouts;
    for (const KnownRow* row : rows) layouts.insert(layout_of(*row));
    if (layouts.size() < 3) continue;
    ++groups;
    add_pairs(rows, out);
  }
  return out;
}

using Variances = std::array<double, 1 + kStepParts>;

double variance(const Variances& of, const Shares& apart) {
  double sum = of[0];
  for (std::size_t k = 0; k < kStepParts; ++k) sum += of[k + 1] * apart[k] * apart[k];
  return sum;
}

/// Minus the logarithm of the likelihood.
double unlikelihood(const Variances& of, const std::vector<Pair>& pairs, const std::string& without) {
  double sum = 0;
  for (const Pair& pair : pairs) {
    if (pair.framework == without) continue;
    const double v = variance(of, pair.apart);
    sum += pair.weight * (0.5 * std::log(v) + (kFreedom + 1) / 2 * std::log1p(pair.off * pair.off / (kFreedom * v)));
  }
  return sum;
}

Variances fit(const std::vector<Pair>& pairs, const std::string& without) {
  constexpr double kClose = 1.05;
  constexpr double kLeast = 1e-6, kMost = 4;  // variances: a thousandth, and twice the time itself
  Variances of{0.03 * 0.03, 0.01, 0.01, 0.01, 0.01, 0.01};
  double best = unlikelihood(of, pairs, without);
  for (double step = 4; step > kClose;) {
    bool moved = false;
    for (double& one : of) {
      for (const double factor : {step, 1 / step}) {
        const double before = one;
        one = std::clamp(one * factor, kLeast, kMost);
        const double now = unlikelihood(of, pairs, without);
        if (now < best - 1e-9) {
          best = now;
          moved = true;
        } else {
          one = before;
        }
      }
    }
    if (!moved) step = std::sqrt(step);
  }
  return of;
}

/// Of each framework's pairs, by errors that the others give.
void add_held(const std::vector<Pair>& pairs, PairErrors& out) {
  std::map<std::string, std::array<double, 3>> by_framework;  // pairs, and those held
  for (const Pair& pair : pairs) ++by_framework[pair.framework][0];
  for (auto& [framework, counts] : by_framework) {
    const Variances of = fit(pairs, framework);
    for (const Pair& pair : pairs) {
      if (pair.framework != framework) continue;
      const double scale = std::sqrt(variance(of, pair.apart));
      counts[1] += std::abs(pair.off) <= kAt68 * scale ? 1 : 0;
      counts[2] += std::abs(pair.off) <= kAt90 * scale ? 1 : 0;
    }
    out.held68 += 100 * counts[1] / counts[0] / static_cast<double>(by_framework.size());
    out.held90 += 100 * counts[2] / counts[0] / static_cast<double>(by_framework.size());
  }
}

}  // namespace

Shares shares_of(const std::array<double, workloads::kCategories>& exposed_s) {
  Shares out{};
  double whole = 0;
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    out[part_of(static_cast<Category>(c))] += exposed_s[c];
    whole += exposed_s[c];
  }
  if (whole > 0) {
    for (double& share : out) share /= whole;
  }
  return out;
}

double PairErrors::scale(const Shares& a, const Shares& b) const {
  double sum = own * own;
  for (std::size_t k = 0; k < kStepParts; ++k) sum += of[k] * of[k] * (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum);
}
double PairErrors::at68(const Shares& a, const Shares& b) const { return kAt68 * scale(a, b); }
double PairErrors::at90(const Shares& a, const Shares& b) const { return kAt90 * scale(a, b); }

std::optional<PairErrors> fit_pair_errors(const std::vector<KnownRow>& known) {
  PairErrors out;
  const std::vector<Pair> pairs = pairs_of(known, out.groups);
  if (pairs.empty()) return std::nullopt;
  out.pairs = pairs.size();
  const Variances of = fit(pairs, "");
  out.own = std::sqrt(of[0]);
  for (std::size_t k = 0; k < kStepParts; ++k) out.of[k] = std::sqrt(of[k + 1]);
  add_held(pairs, out);
  return out;
}

void write_pair_errors(std::ostream& out, const PairErrors& errors) {
  out << fmt::format("ratios: {{own_pct: {:.2f}", 100 * errors.own);
  for (std::size_t k = 0; k < kStepParts; ++k)
    out << fmt::format(", {}_pct: {:.1f}", kStepPartNames[k], 100 * errors.of[k]);
  out << fmt::format(", pairs: {}, groups: {}, each_68_pct: {:.1f}, each_90_pct: {:.1f}}}\n", errors.pairs,
                     errors.groups, errors.held68, errors.held90);
}

PairErrors read_pair_errors(const sim::Settings& line) {
  std::vector<std::string> keys{"own_pct", "pairs", "groups", "each_68_pct", "each_90_pct"};
  for (const std::string_view name : kStepPartNames) keys.push_back(std::string(name) + "_pct");
  line.refuse_unknown(keys);
  const auto share = [&](const std::string& key) {
    const double pct = line.at(key).as_number();
    if (!(pct >= 0 && pct <= 1000)) line.at(key).expected("a percentage");
    return pct / 100;
  };
  PairErrors out;
  out.own = share("own_pct");
  for (std::size_t k = 0; k < kStepParts; ++k) out.of[k] = share(std::string(kStepPartNames[k]) + "_pct");
  out.pairs = static_cast<std::size_t>(line.at("pairs").as_int(0));
  out.groups = static_cast<std::size_t>(line.at("groups").as_int(0));
  out.held68 = line.at("each_68_pct").as_number();
  out.held90 = line.at("each_90_pct").as_number();
  return out;
}

std::optional<PairErrors> shipped_pair_errors() {
  const std::string file = scenarios::data_directory() + "/scenarios/published/intervals.yaml";
  if (!std::filesystem::exists(file)) return std::nullopt;
  const sim::Settings document = scenarios::read_yaml(file);
  const sim::Settings* line = document.find("ratios");
  return line == nullptr ? std::nullopt : std::optional(read_pair_errors(*line));
}

Confidence confidence_of(double gain, const std::optional<PairErrors>& errors, const Shares& a, const Shares& b) {
  if (!errors) return Confidence::unknown;
  if (gain > errors->at90(a, b)) return Confidence::beyond;
  return gain > errors->at68(a, b) ? Confidence::likely : Confidence::within;
}

std::string_view text_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 4> kTexts{
      "no published rows tell how sure this is", "within the error of such predictions: measure before you rely on it",
      "more than the error of two in three such predictions", "more than the error of nine in ten such predictions"};
  return kTexts[static_cast<std::size_t>(confidence)];
}

std::string_view name_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 4> kNames{"unknown", "within", "likely", "beyond"};
  return kNames[static_cast<std::size_t>(confidence)];
}

namespace {

bool tied(const PairErrors& errors, const Candidate& first, const Candidate& one) {
  return std::log(one.step_s / first.step_s) <= errors.at68(one.shares, first.shares);
}

}  // namespace

std::vector<std::size_t> worth_measuring(const PairErrors& errors, const std::vector<Candidate>& candidates) {
  constexpr std::size_t kMeasured = 3;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < candidates.size() && out.size() < kMeasured; ++i) {
    if (i == 0 || tied(errors, candidates.front(), candidates[i])) out.push_back(i);
  }
  return out;
}

std::vector<Chance> chances_of(const PairErrors& errors, const std::vector<Candidate>& candidates) {
  constexpr std::size_t kDraws = 4096;
  std::vector<Chance> out(candidates.size());
  if (candidates.empty()) return out;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    const double scale = errors.scale(one.shares, {});
    out[i].expected_s = one.step_s * std::exp(scale * scale / 2);
    out[i].tied = i > 0 && tied(errors, candidates.front(), one);
  }
  std::mt19937_64 bits(1);
  const auto uniform = [&] { return (static_cast<double>(bits() >> 11U) + 0.5) * 0x1p-53; };
  const auto normal = [&] { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); };
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    Shares error{};
    for (std::size_t k = 0; k < kStepParts; ++k) error[k] = errors.of[k] * normal();
    std::size_t best = 0;
    double fastest = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      // The ratio of two layouts has both their own errors.
      double log_s = std::log(candidates[i].step_s) + errors.own / std::numbers::sqrt2 * normal();
      for (std::size_t k = 0; k < kStepParts; ++k) log_s += error[k] * candidates[i].shares[k];
      if (i == 0 || log_s < fastest) {
        fastest = log_s;
        best = i;
      }
    }
    out[best].best += 1.0 / kDraws;
  }
  return out;
}

}  // namespace orrery::tools
