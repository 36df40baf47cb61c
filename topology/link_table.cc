// See LinkTable in cluster.h.
#include "sim/error.h"
#include "topology/cluster.h"

namespace orrery::topology {

void LinkTable::set_nodes(std::vector<std::vector<LinkInfo>> kinds, std::vector<std::size_t> first, std::size_t nodes) {
  SIM_CHECK(kinds.size() == first.size() + 1, "{} kinds of nodes, {} of them behind the first", kinds.size(),
            first.size());
  for (const std::vector<LinkInfo>& kind : kinds)
    SIM_CHECK(kind.size() == kinds.front().size(), "nodes of {} and {} links", kind.size(), kinds.front().size());
  kinds_ = std::move(kinds);
  first_ = std::move(first);
  const bool any = !kinds_.front().empty();
  nodes_ = any ? nodes : 0;
  of_node_ = any ? kinds_.front().size() : 1;
}

const std::vector<LinkInfo>& LinkTable::between() const {
  SIM_CHECK(apart_.empty(), "links are asked for by class where some are apart");
  return between_;
}

LinkInfo& LinkTable::change(LinkId link) {
  if (apart_.empty()) {
    std::vector<LinkInfo> all;
    all.reserve(size());
    all.insert(all.end(), begin(), end());
    apart_ = std::move(all);
  }
  return apart_[sim::index(link)];
}

/// To the first link of `part_`, or of the next that has one.
void LinkTable::Iterator::settle() {
  const std::size_t nodes = table_->nodes_;
  for (; part_ <= nodes; ++part_) {
    const bool apart = !table_->apart_.empty();
    if (apart) part_ = nodes;
    const std::vector<LinkInfo>& rows = apart           ? table_->apart_
                                        : part_ < nodes ? table_->kinds_[table_->kind_of(part_)]
                                                        : table_->between_;
    at_ = rows.data();
    end_ = at_ + rows.size();
    if (at_ != end_) return;
  }
  at_ = end_ = nullptr;
}

}  // namespace orrery::topology
