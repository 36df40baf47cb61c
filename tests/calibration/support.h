// What the calibration tests share: shipped documents, resolved, and the tables of measurements where they exist.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "calibration/framework/software.h"
#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "sim/settings.h"
#include "tests/paths.h"

namespace orrery::calibration_test {

inline std::string source(const std::string& path) { return std::string(tests::kSourceDir) + "/" + path; }

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(source(folder)))
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().stem().string());
  return out;
}

inline sim::Settings profile_document(const std::string& name) {
  return scenarios::resolve(scenarios::shelf_of("devices"), sim::Settings::scalar(name, {"test", 1, 1})).document;
}

inline calibration::DeviceProfile profile(const std::string& name) {
  return calibration::DeviceProfile::load(profile_document(name));
}

/// A shipped generation, resolved.
inline calibration::Generation generation(const std::string& name) {
  return scenarios::referred_software(scenarios::parse_yaml("software: " + name + "\n", "s.yaml"));
}

inline calibration::Software load_software(const sim::Settings& document) {
  return calibration::Software::load(document, scenarios::recipe_book());
}

/// Published tables are not part of the project; where they lie beside it, fits are checked against them.
inline std::string table(const std::string& name) {
  const std::string file = source("../shared/measured/" + name + ".csv");
  for (const std::string& found : {file, file + ".gz"})
    if (std::filesystem::exists(found)) return found;
  return "";
}

/// SplitMix64: the same shapes on every run and machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t x = (state_ += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  /// Between low and high, even in the logarithm.
  std::int64_t size(double low, double high) {
    const double t = static_cast<double>(next() >> 11) * 0x1p-53;
    return static_cast<std::int64_t>(low * std::pow(high / low, t));
  }

 private:
  std::uint64_t state_;
};

}  // namespace orrery::calibration_test
