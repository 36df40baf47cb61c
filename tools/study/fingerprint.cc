// See fingerprint.h.
#include "tools/study/fingerprint.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "scenarios/scenario.h"
#include "sim/hash.h"
#include "sim/text_file.h"

namespace orrery::tools {

namespace {

class Fingerprint {
 public:
  void add(std::string_view text) {
    hash_.add_text(text).add(0);  // so that two texts are not the same as their sum
  }
  void add(const sim::Settings& node) {
    add(node.is_scalar() ? node.text() : fmt::format("{}", static_cast<int>(node.kind())));
    for (const auto& [name, member] : node.members()) {
      add(name);
      add(member);
    }
    for (const sim::Settings& item : node.items()) add(item);
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  sim::Fnv1a hash_;
};

}  // namespace

std::string fingerprint_of(const sim::Settings& scenario, const std::vector<std::string>& asked) {
  Fingerprint hash;
  hash.add("orrery " ORRERY_VERSION);
  hash.add(scenario);
  for (const std::string& text : asked) hash.add(text);
  const std::filesystem::path data = scenarios::data_directory();
  const std::pair<const char*, const char*> folders[] = {
      {"devices", "calibration/profiles"},  {"software", "calibration/software"},
      {"features", "calibration/features"}, {"collectives", "calibration/collectives"},
      {"models", "scenarios/models"},       {"fabrics", "scenarios/fabrics"}};
  for (const auto& [kind, folder] : folders) {
    for (const std::string& name : scenarios::shipped(kind)) {
      hash.add(name);
      const std::filesystem::path file = data / folder / (name + ".yaml");
      if (std::filesystem::exists(file)) hash.add(sim::read_text(file.string(), "a YAML file"));  // else another's name
    }
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace orrery::tools
