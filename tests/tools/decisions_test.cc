// Are decisions counted as by hand: groups of layouts, regret of the predicted fastest, pairs one key apart?
#include "tools/decisions.h"

#include "tests/catch.h"

using namespace orrery;
using tools::ValidationRow;

namespace {

ValidationRow row(const std::string& id, const std::string& tensor, double measured, double predicted,
                  const std::string& micro = "1", const std::string& model = "a") {
  ValidationRow r;
  r.list = "one";
  r.id = id;
  r.metric = "iteration_s";
  r.measured = measured;
  r.predicted = r.features.step_s = predicted;
  r.error_pct = 100 * (predicted / measured - 1);
  r.features.facts = {
      {"batch.micro", micro}, {"model", model}, {"parallelism.data", "9"}, {"parallelism.tensor", tensor}};
  return r;
}

}  // namespace

TEST_CASE("of three layouts the predicted fastest costs what it took over the fastest") {
  // Measured 10, 12, 20; predicted 11, 9, 18: the second is chosen. Pairs apart: all three; the first of them is wrong.
  const std::vector<ValidationRow> rows = {row("a", "1", 10, 11), row("b", "2", 12, 9), row("c", "4", 20, 18)};
  const auto groups = tools::layout_groups(rows);
  REQUIRE(groups.size() == 1);
  CHECK(groups.front().chosen->id == "b");
  CHECK(groups.front().best->id == "a");
  const tools::Decisions d = tools::decisions_of(groups, "one");
  CHECK(d.groups == 1);
  CHECK(d.pairs == 3);
  CHECK(d.ordered_right_pct == Approx(200.0 / 3));
  CHECK(d.regret_mean_pct == Approx(20));
  CHECK(d.regret_p90_pct == Approx(20));
  CHECK(d.chosen_off_mean_pct == Approx(-25));
  // None of these rows says where its time goes, so that ratios err by what each layout has of its own: the first two,
  // 22 % apart, are no tie, and one is measured.
  CHECK(d.to_measure_mean == 1);
  CHECK(d.measured_regret_mean_pct == Approx(20));
  CHECK(d.chosen_within_10_pct == 0);
  CHECK(tools::decisions_of(groups, "two").groups == 0);
}

TEST_CASE("a layout that is predicted not to fit is not chosen while another is there") {
  std::vector<ValidationRow> rows = {row("a", "1", 10, 11), row("b", "2", 12, 9), row("c", "4", 20, 18)};
  rows[1].status = tools::RowStatus::oom;
  CHECK(tools::layout_groups(rows).front().chosen->id == "a");
  for (ValidationRow& r : rows) r.status = tools::RowStatus::oom;
  CHECK(tools::layout_groups(rows).front().chosen->id == "b");
}

TEST_CASE("where a tie is measured, what it costs to choose is that of the fastest of the tie") {
  // Predicted 9, 9.1, 9.2, 9.3: a tie of four, of which three are measured; the fastest of all is the fourth.
  const std::vector<ValidationRow> rows = {row("a", "1", 12, 9), row("b", "2", 10, 9.1), row("c", "4", 20, 9.2),
                                           row("d", "8", 8, 9.3)};
  const auto groups = tools::layout_groups(rows);
  REQUIRE(groups.size() == 1);
  CHECK(groups.front().measured.size() == 3);
  CHECK(groups.front().regret_pct() == Approx(50));
  CHECK(groups.front().measured_regret_pct() == Approx(25));
}

TEST_CASE("repeats of a layout are one, by their median, and two layouts are no group") {
  std::vector<ValidationRow> rows = {row("a", "1", 10, 11), row("b", "1", 30, 11), row("c", "1", 20, 11),
                                     row("d", "2", 12, 9)};
  CHECK(tools::layout_groups(rows).empty());
  rows.push_back(row("e", "4", 40, 40));
  const auto groups = tools::layout_groups(rows);
  REQUIRE(groups.size() == 1);
  CHECK(groups.front().rows.size() == 3);
  CHECK(groups.front().regret_pct() == Approx(0));  // 12 s, where the median of the repeats is 20
}

TEST_CASE("pairs differ in one key, replicas apart, and in their step by more than 3 %") {
  std::vector<ValidationRow> rows = {row("a", "1", 10, 10), row("b", "2", 12, 11), row("c", "2", 9, 12, "2"),
                                     row("d", "1", 10.2, 20, "4"), row("e", "1", 5, 5, "1", "b")};
  rows[1].features.facts[2].second = "5";  // data follows tensor
  // a-b by tensor: measured +20, predicted +10; b-c by micro: -25 and +9.1; a-e by the model: -50 and -50. a-d is 2 %.
  const auto pairs = tools::changed_pairs(rows);
  CHECK(pairs.size() == 3);
  const tools::PairSummary s = tools::summary_of(pairs, "");
  CHECK(s.n == 3);
  CHECK(s.sign_right_pct == Approx(200.0 / 3));
  CHECK(s.size_off_median_points == Approx(10));
  CHECK(tools::summary_of(pairs, "two").n == 0);
}

TEST_CASE("quantiles lie between the values in proportion") {
  CHECK(tools::quantile({}, 0.9) == 0);
  CHECK(tools::quantile({7}, 0.9) == 7);
  CHECK(tools::quantile({20, 10}, 0.9) == Approx(19));
  CHECK(tools::quantile({1, 2, 3, 4}, 0.5) == Approx(2.5));
}
