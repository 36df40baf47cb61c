// Software generations: the shipped ones load through their inheritance; unknown and absurd values are refused.
#include "calibration/keys.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::scenarios::parse_yaml;
using orrery::sim::UserError;

std::string complaint(const std::string& yaml) {
  try {
    Software::load(parse_yaml(yaml, "test.yaml"));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every shipped generation loads under its own name with a provenance") {
  const auto names = names_in("calibration/software");
  CHECK(names.size() >= 14);
  for (const std::string& name : names) {
    const Software s = Software::load(software_document(name));
    INFO(name);
    CHECK(s.name == name);
    CHECK_FALSE(s.provenance.empty());
    CHECK(s.kernel_issue > orrery::sim::Duration{});
    CHECK(s.collective_step_ring > orrery::sim::Duration{});
  }
}

TEST_CASE("a generation keeps what it does not override") {
  const Software older = Software::load(software_document("megatron-2022"));
  const Software newer = Software::load(software_document("megatron-2023"));
  CHECK(older.attention == "unfused");
  CHECK(newer.attention == "flash");
  CHECK(newer.sequence_parallel == older.sequence_parallel);
  CHECK(newer.collective_step_ring == older.collective_step_ring);
}

TEST_CASE("software: unknown keys and absurd values are refused at their place") {
  CHECK(complaint("name: x\nkernel_isue: 5 us\n").find("kernel_issue") != std::string::npos);
  CHECK(complaint("name: x\nkernel_issue: 5\n").find("test.yaml:2") != std::string::npos);
  CHECK(complaint("name: x\nkernel_issue: -1 us\n").find("kernel_issue") != std::string::npos);
  CHECK(complaint("name: x\nattention: flush\n").find("flash") != std::string::npos);
  CHECK(complaint("name: x\ncompute_slowdown_under_collective: 0.9\n").find("compute_slowdown") != std::string::npos);
  CHECK(complaint("name: x\ngradient_bucket: 9 EB\n").find("gradient_bucket") != std::string::npos);
  CHECK(complaint("name: x\ninherits: y\n").find("inherits") != std::string::npos);
  CHECK(complaint("kernel_issue: 5 us\n").find("name") != std::string::npos);
  CHECK(complaint("name: x\n").empty());
}

TEST_CASE("every documented software key is read") {
  // A sequence is no value of any key but `facts`, so each of the others must complain when it is given one.
  for (const KeyDoc& doc : software_keys()) {
    if (doc.path == "facts" || doc.type == "text") continue;
    INFO(doc.path);
    CHECK_FALSE(complaint("name: x\n" + doc.path + ": [1, 2]\n").empty());
  }
}
