// What a kernel of an inference engine takes: a structure with a few parameters of physical meaning, and a correction.
//
//   time = structure(parameters, work) * exp(correction(ln sizes)),   never below the data sheet's roofline
//
// A family (serving_families.h) says which parameters its structure has, and which sizes the correction goes by. The
// correction is linear between knots of up to five sizes, in their logarithms, and constant beyond them: it holds what
// a library's choice of tiles and splits costs, and what the structure leaves out. Private to this room: the fit writes
// it, serving_kernels.cc answers from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/device/optimise.h"
#include "calibration/device/routing.h"
#include "calibration/device/serving_kernels.h"

namespace orrery::calibration {

inline constexpr std::size_t kMostSizes = 6, kMostAxes = 4, kMostGrids = 4;

/// ln(time / structure) as a sum of grids, each over some of a family's sizes.
struct Correction {
  struct Axis {
    std::size_t size = 0;       // of those that the family counts
    std::vector<double> knots;  // rising
  };
  struct Grid {
    std::vector<Axis> axes;
    std::vector<double> value;  // row-major, the last axis fastest
    std::size_t knots() const;
  };
  std::vector<Grid> grids;

  struct Share {
    std::size_t knot = 0;
    double weight = 0;
  };
  using Sizes = std::array<double, kMostSizes>;
  static constexpr std::size_t kCorners = std::size_t{1} << kMostAxes;
  using Corners = std::array<Share, kCorners>;
  /// Knots of a grid around a point and their weights, which sum to 1; how many there are.
  static std::size_t shares(const Grid& grid, const Sizes& sizes, Corners& out);
  double at(const Sizes& sizes) const;
};

/// What the structures know of a device.
struct ServingFacts {
  double processors = 1, bandwidth = 1;   // bytes/s
  std::array<double, kDataTypes> peak{};  // FLOP/s
};
ServingFacts facts_of(const DeviceProfile& device);

/// A shape by what its family counts: names are the family's.
using Work = std::array<double, 13>;

struct ServingFamily {
  struct Parameter {
    enum class Unit : std::uint8_t { seconds, rate, plain };  // rate: bytes/s
    std::string_view name;
    Unit unit;
    double low, high, start;
    std::string_view meaning;
  };
  std::string_view name, meaning;
  std::vector<std::string_view> variants;  // by the types of weights or cache, or how they are launched
  std::vector<Parameter> parameters;
  std::vector<std::string_view> sizes_of_correction;
  std::vector<std::vector<Correction::Axis>> grids;
  double (*structure)(const ServingFacts&, std::span<const double> parameters, const Work&);
  double (*roofline)(const ServingFacts&, const Work&);
  Correction::Sizes (*sizes)(const Work&);
};

/// The first of their families among all, in the order of the parts.
inline constexpr std::size_t kFirstScan = 10;

/// The first of their families among all: decoding, prompts.
inline constexpr std::size_t kFirstSparse = 13;
inline constexpr std::size_t kSamplingFamily = 15;
/// Likewise, of attention to blocks of keys (MSA).
inline constexpr std::size_t kFirstMsa = 16;

/// A shape as a family's.
struct Asked {
  std::size_t family = 0, variant = 0;
  Work work{};
};
/// All families; Asked::family counts them.
const std::vector<const ServingFamily*>& serving_families();
Asked asked(const DecodeAttention& shape);
Asked asked(const LatentDecode& shape);
Asked asked(const PrefillAttention& shape);
Asked asked(const ServedProduct& shape);
Asked asked(const ServedMixture& shape);
Asked asked(const LatentBlock& shape);
Asked asked(const ServedAllReduce& shape);
Asked asked(const LowLatencyExchange& shape);
Asked asked(const ServedScan& shape);
Asked asked(const SparseBlock& shape);
Asked asked(const ServedSampling& shape);

struct ServingKernel {
  const ServingFamily* family = nullptr;
  std::vector<double> parameters;
  Correction correction;

  double seconds(const ServingFacts& facts, const Work& work) const;
};

/// The structure with what is assumed of any device, no correction.
ServingKernel assumed_kernel(const ServingFamily& family);

struct ServingKernels::Model {
  ServingFacts facts;
  std::string provenance;
  std::vector<std::vector<std::optional<ServingKernel>>> fitted;  // by family and variant
  std::vector<ServingKernel> assumed;                             // by family
  /// Of vLLM where FlashAttention 2 runs its attention: one kernel for a batch in which some sequence has several
  /// queries packs no queries of a key/value head together and splits no keys, so that every head of a decoding
  /// sequence is a tile of queries of its own, all but one row of it empty. Rate: share of the peak that such a tile
  /// computes at; 0: prompts and decodes are kernels of their own.
  struct QueryTiles {
    double rate = 0, setup = 0, bandwidth = 0;
  } tiles;

  double searched = 1;  // how much quicker products of many rows in nvfp4 are by the kernels that a search finds

  /// What was fitted, or stands in for it: the structure of another variant, or what is assumed.
  double seconds(const Asked& asked) const;
  /// What decodes add to prompts that take so long in the same launch; 0: there are none.
  double seconds_beside(const Asked& decodes, double prompts) const;
};

/// Both at once: the longer, and a part of the shorter where they are alike.
double together(double a, double b);

}  // namespace orrery::calibration
