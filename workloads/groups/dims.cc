// Mixed-radix arithmetic of ranks and groups. See dims.h.
#include "workloads/groups/dims.h"

#include "sim/error.h"

namespace orrery::workloads {

std::string_view name_of(Dim dim) {
  static constexpr std::array<std::string_view, kDims.size()> names{"tensor", "context", "data", "pipeline"};
  return names[static_cast<std::size_t>(dim)];
}

Dims::Dims(const std::array<std::int64_t, kDims.size()>& sizes) : size_{sizes} {
  for (const Dim dim : kDims) {
    SIM_CHECK(size_[dim] >= 1, "{} of size {}", name_of(dim), size_[dim]);
    stride_[dim] = ranks_;
    ranks_ *= size_[dim];
  }
}

Coordinates Dims::coordinates_of(std::int64_t rank) const {
  Coordinates at;
  for (const Dim dim : kDims) at[dim] = place(rank, dim);
  return at;
}

std::int64_t Dims::rank_of(const Coordinates& at) const {
  std::int64_t rank = 0;
  for (const Dim dim : kDims) rank += at[dim] * stride_[dim];
  return rank;
}

std::int64_t Dims::moved(std::int64_t rank, Dim dim, std::int64_t to) const {
  return rank + (to - place(rank, dim)) * stride_[dim];
}

std::int64_t Dims::block_size(const SubGroup& kind) const {
  std::int64_t places = kind.mirrored ? 2 : 1;
  for (const Dim dim : kDims) places *= kind.over.has(dim) ? size_[dim] : 1;
  return places;
}

std::int64_t Dims::group_size(const SubGroup& kind) const { return kind.size > 0 ? kind.size : block_size(kind); }

std::int64_t Dims::first_of_block(std::int64_t rank, const SubGroup& kind) const {
  for (const Dim dim : kDims) {
    if (kind.over.has(dim)) rank = moved(rank, dim, 0);
  }
  const std::int64_t stage = place(rank, Dim::pipeline), mirror = size_[Dim::pipeline] - 1 - stage;
  return kind.mirrored && mirror < stage ? moved(rank, Dim::pipeline, mirror) : rank;
}

std::int64_t Dims::place_in_block(std::int64_t rank, const SubGroup& kind) const {
  std::int64_t at = 0, places = 1;
  for (const Dim dim : kDims) {
    if (!kind.over.has(dim)) continue;
    at += place(rank, dim) * places;
    places *= size_[dim];
  }
  const bool second = kind.mirrored && 2 * place(rank, Dim::pipeline) >= size_[Dim::pipeline];
  return second ? at + places : at;
}

std::int64_t Dims::rank_in_block(std::int64_t first, std::int64_t at, const SubGroup& kind) const {
  std::int64_t rank = first;
  for (const Dim dim : kDims) {
    if (!kind.over.has(dim)) continue;
    rank += at % size_[dim] * stride_[dim];
    at /= size_[dim];
  }
  if (at == 0) return rank;
  return moved(rank, Dim::pipeline, size_[Dim::pipeline] - 1 - place(rank, Dim::pipeline));
}

std::vector<std::int64_t> Dims::members_from(std::int64_t first, std::int64_t at, const SubGroup& kind) const {
  std::vector<std::int64_t> members(static_cast<std::size_t>(group_size(kind)));
  for (std::int64_t& member : members) {
    member = rank_in_block(first, at, kind);
    at += kind.stride;
  }
  return members;
}

std::vector<std::int64_t> Dims::members_of(std::int64_t rank, const SubGroup& kind) const {
  const std::int64_t at = place_in_block(rank, kind), span = kind.stride * group_size(kind);
  return members_from(first_of_block(rank, kind), at / span * span + at % kind.stride, kind);
}

std::vector<std::int64_t> Dims::first_members_of_block(std::int64_t first, const SubGroup& kind) const {
  const std::int64_t places = block_size(kind), size = group_size(kind);
  SIM_CHECK(!kind.mirrored || (!kind.over.has(Dim::pipeline) && size_[Dim::pipeline] % 2 == 0),
            "{} stages do not pair up", size_[Dim::pipeline]);
  SIM_CHECK(places % (kind.stride * size) == 0, "groups of {}, {} apart, do not fill a block of {}", size, kind.stride,
            places);
  std::vector<std::int64_t> firsts;
  for (std::int64_t span = 0; span < places; span += kind.stride * size) {
    for (std::int64_t at = span; at < span + kind.stride; ++at) firsts.push_back(rank_in_block(first, at, kind));
  }
  return firsts;
}

std::vector<std::vector<std::int64_t>> Dims::groups_of_block(std::int64_t first, const SubGroup& kind) const {
  std::vector<std::vector<std::int64_t>> groups;
  for (const std::int64_t member : first_members_of_block(first, kind)) groups.push_back(members_of(member, kind));
  return groups;
}

}  // namespace orrery::workloads
