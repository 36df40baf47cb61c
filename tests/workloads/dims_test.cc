// Do ranks, coordinates and groups come out as counting them one by one says?
#include "workloads/groups/dims.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/catch.h"

using namespace orrery::workloads;

namespace {

using Ranks = std::vector<std::int64_t>;

/// The coordinates of all ranks, written down in the order in which Megatron-LM numbers them.
std::vector<Coordinates> counted(const Dims& dims) {
  std::vector<Coordinates> all;
  Coordinates at;
  for (at[Dim::pipeline] = 0; at[Dim::pipeline] < dims.size(Dim::pipeline); ++at[Dim::pipeline]) {
    for (at[Dim::data] = 0; at[Dim::data] < dims.size(Dim::data); ++at[Dim::data]) {
      for (at[Dim::context] = 0; at[Dim::context] < dims.size(Dim::context); ++at[Dim::context]) {
        for (at[Dim::tensor] = 0; at[Dim::tensor] < dims.size(Dim::tensor); ++at[Dim::tensor]) all.push_back(at);
      }
    }
  }
  return all;
}

/// Blocks as the description in the header says it: ranks that agree in all dimensions that a group does not run over,
/// in the order of ranks, which is that of places; of a mirrored pair of stages the lower one first.
std::vector<Ranks> counted_blocks(const Dims& dims, const DimSet& over, bool mirrored) {
  std::map<std::array<std::int64_t, kDims.size()>, Ranks> blocks;
  const std::vector<Coordinates> all = counted(dims);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Coordinates key = all[rank];
    for (const Dim dim : kDims) {
      if (over.has(dim)) key[dim] = 0;
    }
    const std::int64_t mirror = dims.size(Dim::pipeline) - 1 - key[Dim::pipeline];
    if (mirrored) key[Dim::pipeline] = std::min(key[Dim::pipeline], mirror);
    blocks[key.numbers].push_back(static_cast<std::int64_t>(rank));
  }
  std::vector<Ranks> out;
  for (const auto& [key, ranks] : blocks) out.push_back(ranks);
  std::sort(out.begin(), out.end());
  return out;
}

/// All groups of the kind that Dims knows, block by block.
std::vector<Ranks> groups_of(const Dims& dims, const SubGroup& kind) {
  std::vector<Ranks> groups;
  for (std::int64_t rank = 0; rank < dims.ranks(); ++rank) {
    if (dims.first_of_block(rank, kind) != rank) continue;
    for (Ranks& group : dims.groups_of_block(rank, kind)) groups.push_back(std::move(group));
  }
  return groups;
}

/// Any of the sixteen sets of dimensions, by the bits of a number.
DimSet subset(unsigned bits) {
  DimSet over{};
  for (const Dim dim : kDims) {
    if ((bits >> static_cast<unsigned>(dim) & 1) != 0) over.add(dim);
  }
  return over;
}

/// Small sizes of all dimensions; the last one even where stages are to be mirrored.
Dims drawn(std::mt19937& random, bool mirrored) {
  std::uniform_int_distribution<std::int64_t> size(1, 4);
  return Dims({size(random), size(random), size(random), mirrored ? 2 * size(random) : size(random)});
}

}  // namespace

TEST_CASE("ranks count tensor fastest, then context, data, pipeline") {
  std::mt19937 random(1);
  for (int draw = 0; draw < 40; ++draw) {
    const Dims dims = drawn(random, false);
    const std::vector<Coordinates> all = counted(dims);
    REQUIRE(dims.ranks() == static_cast<std::int64_t>(all.size()));
    for (std::int64_t rank = 0; rank < dims.ranks(); ++rank) {
      const Coordinates& at = all[static_cast<std::size_t>(rank)];
      CHECK(dims.coordinates_of(rank) == at);
      CHECK(dims.rank_of(at) == rank);
      for (const Dim dim : kDims) {
        CHECK(dims.place(rank, dim) == at[dim]);
        Coordinates elsewhere = at;
        elsewhere[dim] = dims.size(dim) - 1;
        CHECK(dims.moved(rank, dim, dims.size(dim) - 1) == dims.rank_of(elsewhere));
        if (at[dim] + 1 == dims.size(dim)) continue;
        Coordinates next = at;
        ++next[dim];
        CHECK(dims.rank_of(next) == rank + dims.stride(dim));
      }
    }
  }
}

TEST_CASE("blocks over any set of dimensions are the ranks that agree in all others") {
  std::mt19937 random(2);
  for (int draw = 0; draw < 20; ++draw) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      const bool mirrored = draw % 2 == 1 && bits < 8;  // a pair of stages does not run over the pipeline
      const Dims dims = drawn(random, mirrored);
      const SubGroup kind{subset(bits), mirrored};
      const std::vector<Ranks> blocks = counted_blocks(dims, kind.over, mirrored);
      INFO("set " << bits << " mirrored " << mirrored);
      CHECK(groups_of(dims, kind) == blocks);
      for (const Ranks& block : blocks) {
        CHECK(dims.block_size(kind) == static_cast<std::int64_t>(block.size()));
        for (const std::int64_t rank : block) CHECK(dims.members_of(rank, kind) == block);
      }
    }
  }
}

TEST_CASE("parts of a block: neighbours share a state out, the same places of all parts repeat it") {
  std::mt19937 random(3);
  for (int draw = 0; draw < 200; ++draw) {
    const bool mirrored = draw % 3 == 2;
    const Dims dims = drawn(random, mirrored);
    const DimSet over = subset(std::uniform_int_distribution<unsigned>(1, mirrored ? 7 : 15)(random));
    const std::int64_t places = dims.block_size({over, mirrored});
    // A stride and a size that divide the block: size places, stride apart, in every run of stride x size.
    std::vector<std::pair<std::int64_t, std::int64_t>> cuts;
    for (std::int64_t stride = 1; stride <= places; ++stride) {
      for (std::int64_t size = 1; stride * size <= places; ++size) {
        if (places % (stride * size) == 0) cuts.emplace_back(stride, size);
      }
    }
    const auto [stride, size] = cuts[random() % cuts.size()];
    const SubGroup kind{over, mirrored, stride, size};
    std::vector<Ranks> expected;
    for (const Ranks& block : counted_blocks(dims, over, mirrored)) {
      for (std::int64_t run = 0; run < places; run += stride * size) {
        for (std::int64_t first = run; first < run + stride; ++first) {
          Ranks group;
          for (std::int64_t k = 0; k < size; ++k) group.push_back(block[static_cast<std::size_t>(first + k * stride)]);
          expected.push_back(group);
        }
      }
    }
    INFO("stride " << stride << " size " << size << " of " << places);
    CHECK(groups_of(dims, kind) == expected);
    CHECK(dims.group_size(kind) == size);
    std::set<std::int64_t> seen;  // every rank is in one group
    for (const Ranks& group : expected) {
      for (const std::int64_t rank : group) {
        CHECK(seen.insert(rank).second);
        CHECK(dims.members_of(rank, kind) == group);
      }
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == dims.ranks());
  }
}

TEST_CASE("groups that do not fill their block are our mistake") {
  const Dims dims({2, 1, 6, 3});
  CHECK_THROWS(dims.groups_of_block(0, {{Dim::data}, false, 1, 4}));
  CHECK_THROWS(dims.groups_of_block(0, {{Dim::data}, true}));  // three stages do not pair up
  CHECK_THROWS(Dims({2, 0, 1, 1}));
}
