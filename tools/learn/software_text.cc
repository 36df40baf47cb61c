// What was learnt, as a document that loads: `inherits` the generation of the scenario and says what differs. What a
// number rests on stands above it as a comment, since it is for readers.
#include <fmt/format.h>

#include <algorithm>

#include "calibration/framework/software.h"
#include "tools/learn/learn.h"
#include "tools/report/text.h"

namespace orrery::tools {

using sim::Settings;

namespace {

std::string amount(double value, const std::string& unit) {
  return unit.empty() ? fmt::format("{:.6g}", value) : fmt::format("{:.6g} {}", value, unit);
}

std::string comment(const LearntNumber& number) {
  std::string text = number.rests_on;
  if (number.samples > 0) text += fmt::format("; {} samples", number.samples);
  if (number.spread > 0)
    text += fmt::format(", half their quartiles' distance is {:.3g} {}", number.spread, number.unit);
  if (number.high > number.low)
    text += fmt::format("; any between {} and {} shows the same", amount(number.low, number.unit),
                        amount(number.high, number.unit));
  text += fmt::format("; {} before", amount(number.inherited, number.unit));
  return text;
}

std::string lines(const std::string& text, const std::string& pad) { return wrapped(text, pad + "# ", pad + "#   "); }

/// The generation that the scenario names, and what the scenario itself lays over it.
std::string base_text(const Settings& document) {
  const Settings* software = document.find("software");
  if (software == nullptr) return "";
  if (software->is_scalar()) return fmt::format("inherits: {}\n", software->text());
  const Settings* inherits = software->find("inherits");
  return inherits != nullptr && inherits->is_scalar() ? fmt::format("inherits: {}\n", inherits->text()) : "";
}

std::string block(const Learnt& learnt, bool of_host) {
  const std::vector<std::string>& host = calibration::keys_of(calibration::SoftwareBlock::host);
  std::string out;
  const std::string pad = "  ";
  for (const LearntNumber& number : learnt.numbers) {
    const bool is_host = std::find(host.begin(), host.end(), calibration::present_key(number.key)) != host.end();
    if (!number.determined || is_host != of_host) continue;
    out += lines(comment(number), pad);
    out += fmt::format("{}{}: {}\n", pad, number.key, amount(number.value, number.unit));
  }
  return out;
}

}  // namespace

std::string software_text(const Learnt& learnt, const Settings& document, const std::string& name,
                          const std::vector<std::string>& files) {
  std::string out = lines(
      fmt::format("Learnt from {} by orrery learn: {} observations of the traces differ from the "
                  "prediction by {:.3g} % in the mean, {:.3g} % before.",
                  fmt::join(files, ", "), learnt.observations, 100 * learnt.misfit_after, 100 * learnt.misfit_before),
      "");
  out += fmt::format("name: {}\n", name) + base_text(document);
  out += "provenance: learnt from profiler traces of the user's own job (orrery learn)\n";
  if (!learnt.features.empty()) out += fmt::format("features: [{}]\n", fmt::join(learnt.features, ", "));
  if (!learnt.without.empty()) out += fmt::format("without: [{}]\n", fmt::join(learnt.without, ", "));
  const std::string host = block(learnt, true), fitted = block(learnt, false);
  if (!host.empty()) out += "host:\n" + host;
  if (!fitted.empty()) out += "fitted:\n" + fitted;
  std::vector<std::string> open;
  for (const LearntNumber& number : learnt.numbers) {
    if (!number.determined) open.push_back(number.key);
  }
  if (!open.empty())
    out += lines(fmt::format("Not determined by these traces, and left as inherited: {}.", fmt::join(open, ", ")), "");
  return out;
}

}  // namespace orrery::tools
