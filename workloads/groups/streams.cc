// The lists of streams and categories. See streams.h.
#include "workloads/groups/streams.h"

#include <array>

namespace orrery::workloads {

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategories> names{
      "compute", "tensor_comm",  "pipeline_comm", "data_comm", "context_comm", "expert_comm", "table_comm",
      "bubble",  "partner_wait", "optimizer",     "slow_gpu",  "host",         "other",       "host_copy"};
  return names[static_cast<std::size_t>(category)];
}

std::span<const Stream> all_streams() {
  static constexpr std::array all{Stream::compute,
                                  Stream::tensor,
                                  Stream::data,
                                  Stream::pipeline_send,
                                  Stream::pipeline_receive,
                                  Stream::pipeline_send_gradient,
                                  Stream::pipeline_receive_gradient,
                                  Stream::return_send,
                                  Stream::return_receive,
                                  Stream::return_send_gradient,
                                  Stream::return_receive_gradient,
                                  Stream::context,
                                  Stream::expert,
                                  Stream::expert_data,
                                  Stream::tables,
                                  Stream::to_host,
                                  Stream::from_host,
                                  Stream::host_update};
  static_assert([] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].order != i) return false;
    }
    return true;
  }());
  return all;
}

}  // namespace orrery::workloads
