// A generation of training software as it is written in calibration/software/<name>.yaml, and the one resolver that
// makes flat keys of it. A generation is a list of named features, as LLVM's SubtargetFeature does it for processors:
// each is one file of calibration/features with its meaning, its source and the keys that it sets, so that one cause
// stands in one place. Beside them it names a collective library (calibration/collectives), what its host costs
// (`host:`), the numbers that measured rows moved (`fitted:`), and any key as it is, flat.
//
// From the lowest: what the features that it goes without leave behind (`absent:`); then, document by document and the
// oldest first, the collective library, the features in order, flat keys and those of `host:`, and `fitted:`. Two
// features that set a key to different values are refused, unless one of them says that it overrides the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/settings.h"

namespace orrery::calibration {

/// Something that a framework does, calibration/features/<name>.yaml.
struct Feature {
  std::string name, meaning;
  sim::Settings sets;                  // keys of a generation -> values
  sim::Settings absent;                // likewise, where a generation goes without it; null: as what is below has them
  std::vector<std::string> overrides;  // features whose values give way to its own
};
/// What Settings::checked_as() says of a feature that can be read.
inline constexpr const char* kCheckedFeature = "software feature";
/// Throws sim::UserError for unknown keys and for a feature that sets none.
Feature read_feature(const sim::Settings& document);

/// What set a key.
struct KeySource {
  enum class Kind : std::uint8_t { absent, collectives, feature, generation, fitted };
  std::string key;
  Kind kind = Kind::generation;
  std::string name;          // of the feature, the library, or the generation; empty: what no file holds, a scenario
  std::size_t document = 0;  // of the chain, 0: the nearest
};
/// As in "feature cuda-graphs", "fitted, vtrain", "megatron-2023", "the scenario".
std::string text(const KeySource& source);

/// A feature that is in use, and by which document of the chain.
struct UsedFeature {
  std::string name, meaning;
  std::string generation;  // that lists it; empty: a scenario
};

/// A generation with nothing left to look up.
struct Generation {
  sim::Settings document;  // flat keys, as Software::load reads them
  std::vector<KeySource> sources;
  std::vector<UsedFeature> features;  // in order, the oldest first
  sim::Settings adapters;             // the generation that fine-tuning by adapters takes instead; null: this one
  /// What set `key`; nullptr: nothing did.
  const KeySource* source_of(std::string_view key) const;
};

/// One document of a chain of inheritance, without `inherits`.
struct WrittenGeneration {
  sim::Settings document;
  std::string name;  // of its file; empty: what no file holds, a scenario
};

/// The document that a reference (a name, a path, a mapping) stands for. Throws sim::UserError.
using Lookup = std::function<sim::Settings(const sim::Settings& reference)>;

/// `chain`: the nearest document first, then what it inherits. Throws sim::UserError: unknown features and keys (with
/// the nearest), keys given twice in one document, features that contradict each other, `without` what is not there.
Generation resolve_generation(const std::vector<WrittenGeneration>& chain, const Lookup& feature,
                              const Lookup& collectives);

}  // namespace orrery::calibration
