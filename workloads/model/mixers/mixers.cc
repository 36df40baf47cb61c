// The catalogue. See mixers.h.
#include "workloads/model/mixers/mixers.h"

#include <algorithm>
#include <array>

namespace orrery::workloads {

extern const MixerKind kMamba2, kGatedDelta, kKda, kLightning, kRwkv7;

namespace {

constexpr std::array<const MixerKind*, 5> kMixerKinds{&kMamba2, &kGatedDelta, &kKda, &kLightning, &kRwkv7};

}  // namespace

std::span<const MixerKind* const> mixer_kinds() { return kMixerKinds; }

const MixerKind* find_mixer(std::string_view name) {
  const auto found =
      std::find_if(kMixerKinds.begin(), kMixerKinds.end(), [&](const MixerKind* kind) { return kind->name == name; });
  return found == kMixerKinds.end() ? nullptr : *found;
}

std::int64_t made_by(const StateMixer& mixer, const MixerParts& parts) {
  return mixer.values() + 2 * mixer.keys() + (parts.makes_gate ? mixer.values() : 0) + parts.rates;
}

std::int64_t thin_inside(const MixerParts& parts) {
  std::int64_t inside = 0;
  for (const ThinProduct& thin : parts.thin) inside += thin.inside;
  return inside;
}

void add_activation(const StateMixer& mixer, MixerParts& parts) {
  if (mixer.conv > 0) return;
  using calibration::Streaming;
  parts.prepares.push_back(
      {"silu", "silu backward", Streaming::gelu, Streaming::gelu_backward, mixer.values() + 2 * mixer.keys(), 2, 3});
}

}  // namespace orrery::workloads
