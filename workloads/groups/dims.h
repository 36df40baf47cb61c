// The dimensions along which the work of a job is split, and the groups of ranks that they make. Ranks are numbered as
// in Megatron-LM: the first dimension varies fastest.
//
// A group is described once, by what its members have in common: they agree in every dimension that it does not run
// over. Ranks that agree so are a block; its places are numbered as ranks are, the first dimension fastest. A group is
// a whole block, or a part of one: `size` places, `stride` apart. So of d data ranks cut into shard groups of s,
// {data, stride 1, size s} are those that share out a state and {data, stride s, size d / s} those that hold the same
// part of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace orrery::workloads {

/// An index into kDims; a new dimension is one more of each.
enum class Dim : std::uint8_t { tensor, context, data, pipeline };
inline constexpr std::array kDims{Dim::tensor, Dim::context, Dim::data, Dim::pipeline};
std::string_view name_of(Dim dim);

/// One number for every dimension.
struct PerDim {
  std::array<std::int64_t, kDims.size()> numbers{};
  std::int64_t& operator[](Dim dim) { return numbers[static_cast<std::size_t>(dim)]; }
  std::int64_t operator[](Dim dim) const { return numbers[static_cast<std::size_t>(dim)]; }
  bool operator==(const PerDim&) const = default;
};
/// A rank's place along every dimension.
using Coordinates = PerDim;

/// Any of the dimensions.
class DimSet {
 public:
  constexpr DimSet(std::initializer_list<Dim> dims) {
    for (const Dim dim : dims) add(dim);
  }
  constexpr bool has(Dim dim) const { return (bits_ & bit(dim)) != 0; }
  constexpr void add(Dim dim) { bits_ |= bit(dim); }
  bool operator==(const DimSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Dim dim) { return 1U << static_cast<std::uint32_t>(dim); }
  std::uint32_t bits_ = 0;
};

/// A kind of group.
struct SubGroup {
  DimSet over;
  /// The blocks of pipeline stages s and p-1-s are one, the lower stage's places first (`over` without pipeline).
  bool mirrored = false;
  std::int64_t stride = 1, size = 0;  // places; size 0: the whole block
  bool operator==(const SubGroup&) const = default;
};

/// Sizes of all dimensions, and the arithmetic of ranks that follows from them.
class Dims {
 public:
  Dims() : Dims({1, 1, 1, 1}) {}
  /// In the order of kDims, each at least 1.
  explicit Dims(const std::array<std::int64_t, kDims.size()>& sizes);

  std::int64_t ranks() const { return ranks_; }
  std::int64_t size(Dim dim) const { return size_[dim]; }
  /// Between the ranks of neighbours along the dimension.
  std::int64_t stride(Dim dim) const { return stride_[dim]; }
  std::int64_t place(std::int64_t rank, Dim dim) const { return rank / stride_[dim] % size_[dim]; }
  Coordinates coordinates_of(std::int64_t rank) const;
  std::int64_t rank_of(const Coordinates& at) const;
  /// The rank at another place along one dimension, all others as they are.
  std::int64_t moved(std::int64_t rank, Dim dim, std::int64_t place) const;

  /// Ranks of a block and of a group of this kind.
  std::int64_t block_size(const SubGroup& kind) const;
  std::int64_t group_size(const SubGroup& kind) const;
  /// The rank at place 0 of the block that `rank` is in.
  std::int64_t first_of_block(std::int64_t rank, const SubGroup& kind) const;
  /// The members of the rank's group, by place.
  std::vector<std::int64_t> members_of(std::int64_t rank, const SubGroup& kind) const;
  /// All groups of the block that begins with rank `first`, by place of their first members.
  std::vector<std::vector<std::int64_t>> groups_of_block(std::int64_t first, const SubGroup& kind) const;
  /// Of these groups the first members.
  std::vector<std::int64_t> first_members_of_block(std::int64_t first, const SubGroup& kind) const;

  bool operator==(const Dims&) const = default;

 private:
  std::int64_t place_in_block(std::int64_t rank, const SubGroup& kind) const;
  std::int64_t rank_in_block(std::int64_t first, std::int64_t place, const SubGroup& kind) const;
  std::vector<std::int64_t> members_from(std::int64_t first, std::int64_t place, const SubGroup& kind) const;

  PerDim size_, stride_;
  std::int64_t ranks_ = 1;
};

}  // namespace orrery::workloads
