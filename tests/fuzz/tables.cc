// Tables: measured kernels, flows, and what interrupted studies left, which --resume reads.
#include <cmath>

#include "calibration/measure/journal.h"
#include "calibration/measure/samples.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/target.h"
#include "tools/explain/like_rows.h"
#include "tools/flow_table.h"
#include "tools/report/csv.h"
#include "tools/study/journal.h"
#include "tools/study/point.h"

namespace orrery::fuzz {

namespace {

template <class Rows>
void expect_times(const Rows& rows, const char* what) {
  for (const auto& row : rows) expect(std::isfinite(row.seconds) && row.seconds >= 0, std::string(what) + ": a time");
}

void read_samples(const std::string& text) {
  const calibration::Samples samples = calibration::read_samples(memory_file().with(text));
  expect_times(samples.gemm, "gemm");
  expect_times(samples.attention, "attention");
  expect_times(samples.grouped, "grouped");
  expect_times(samples.experts, "experts");
  expect_times(samples.exchange, "exchange");
  expect_times(samples.collective, "collective");
  expect_times(samples.kernel, "kernel");
  expect_times(samples.streaming, "streaming");
}

/// What is shared ends, no earlier than it began.
void read_flows(const std::string& text) {
  const tools::FlowTable table = tools::read_flow_table("input", text, sim::Bandwidth(25e9));
  if (table.id.size() > 300) return;
  const tools::SharedFlows shared = tools::share(table);
  for (std::size_t i = 0; i < shared.end.size(); ++i)
    expect(static_cast<double>(shared.end[i]) >= 1e12 * table.start_s[i] * (1 - 1e-12) - 1,
           "a flow that ends before it begins");
  expect(tools::ends_csv(table, shared).size() > shared.end.size(), "a table without its rows");
}

/// A row that is believed is one that the study wrote.
void read_journal(const std::string& text) {
  static const tools::JournalForm kForm = [] {
    tools::JournalForm form;
    form.columns = {"parallelism.tensor"};
    const std::vector<std::string>& columns = tools::point_columns();
    form.columns.insert(form.columns.end(), columns.begin(), columns.end());
    form.fingerprint = "0123456789abcdef";
    form.points = 100;
    return form;
  }();
  for (const auto& [index, row] : tools::read_journal(memory_file().with(text), kForm)) {
    expect(index < kForm.points, "an index beyond the study's");
    std::vector<std::string> cells = tools::csv_cells(row);
    expect(cells.size() == kForm.columns.size() + 3, "a row of another width");
    cells.erase(cells.begin());
    cells.resize(kForm.columns.size());
    expect(kForm.row(index, cells) == row, "a row that does not come back");
  }
}

void read_calibration_journal(const std::string& text) {
  const calibration::Journal journal(memory_file().with(text), "a device", {}, true);
  expect(journal.rows() < 100'000, "rows out of nowhere");
}

void read_known_rows(const std::string& text) {
  for (const tools::KnownRow& row : tools::read_known_rows(memory_file().with(text)))
    expect(std::isfinite(row.log_ratio), "a ratio that is no number");
}

std::vector<std::string> sample_seeds() {
  return {"dtype,m,n,k,ms\nbf16,4096,4096,4096,0.2\nfp8,128,8192,1024,0.01\n",
          "batch,seq,heads,kv_heads,head_dim,ms\n1,2048,32,8,128,0.5\n",
          "op,gpus,bytes,us\nall_reduce,8,1048576,40\nall_gather,16,1e9,5000\n",
          "dtype,tokens,hidden,expert_ffn,top_k,experts,moe_tp,moe_ep,distribution,ms\n"
          "bf16,4096,4096,1024,8,64,1,8,balanced,0.7\nfp8,64,7168,2048,8,256,1,32,power_law_1.2,0.3\n",
          "device,nodes,hidden,tokens,top_k,experts,dispatch_sms,dispatch_us,dispatch_notify_us,combine_sms,combine_us,"
          "combine_notify_us\nh100-sxm,2,7168,4096,8,256,24,300,20,24,400,20\n",
          "op,dtype,tokens,hidden,top_k,experts,ep,distribution,ms\ndispatch,bf16,4096,7168,8,256,8,balanced,0.4\n",
          "device,op,gpus,elements,ms\nb300-sxm,all_reduce,8,1048576,0.04\n",
          "device,kernel,m,n,k,us\nh100-sxm,rms_norm,4096,8192,0,12\n",
          std::string(calibration::kMeasuredColumns) +
              "\ngemm,,bf16,tn,4096,4096,4096,,,,,,,,,,0.0002,1,9,1e-3,1700,600,power\n"
              "streaming,layer_norm,bf16,,,,,,,,,,,4096,16384,,1e-5,1,9,,1700,300\n"
              "host,kernel_issue,,,,,,,,,,,,,,,4e-6,2,9,,,\nsustained,,bf16,,,,,,,,,,,,,,0.9,1,3,,1500,700\n"};
}
std::vector<std::string> flow_seeds() {
  return {
      "id,src,dst,bytes,start_s,links\na,n0,n1,1e9,0,up0 down1\nb,n0,n2,1000000000,0.5,up0 down2\n"
      "c,n1,n2,5e8,0.25,up1 down2\nd,n2,n2,7,0,\n",
      "bytes,links,id,start_s,src,dst\n1,\"x y\",q,0,a,b\n"};
}
std::vector<std::string> journal_seeds() {
  tools::JournalForm form;
  form.columns = {"parallelism.tensor"};
  const std::vector<std::string>& columns = tools::point_columns();
  form.columns.insert(form.columns.end(), columns.begin(), columns.end());
  form.fingerprint = "0123456789abcdef";
  form.points = 100;
  tools::PointResult done, refused;
  done.status = tools::PointStatus::ok;
  done.iteration_s = 0.5;
  done.tokens_per_s = 1e6;
  done.mfu_pct = 40;
  done.peak_memory_gb = 60;
  refused.reason = "got 3, expected \"a divisor\"";
  std::string text = form.header() + "\n";
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<std::string> cells{std::to_string(1 << i)};
    for (const std::string& cell : tools::cells_of(i % 2 == 0 ? done : refused)) cells.push_back(cell);
    text += form.row(i, cells) + "\n";
  }
  return {text};
}
std::vector<std::string> calibration_journal_seeds() {
  return {"# orrery samples 1\n# of: a device\n# a note\n" + std::string(calibration::kMeasuredColumns) +
          "\ngemm,,bf16,tn,4096,4096,4096,,,,,,,,,,0.0002,1,9,1e-3,1700,600,power\n"
          "attention,forward,bf16,,,,,1,2048,32,8,128,0,,,,0.0005,1,9,1e-3,1700,600,\n"
          "collective,all_reduce,bf16,,,,,,,,,,,,1048576,8,4e-5,1,9,,,,\n"};
}
std::vector<std::string> known_row_seeds() {
  // The first rows of the table that ships: the header and lines of each kind.
  const std::string all = shipped_text("scenarios/published", "residuals.csv");
  return {all.substr(0, all.find('\n', 8000) + 1)};
}

}  // namespace

std::vector<Target> table_targets() {
  return {{"samples", "a table of measured kernels", read_samples, sample_seeds},
          {"flows", "a table of flows, shared", read_flows, flow_seeds},
          {"journal", "what --resume reads of a study", read_journal, journal_seeds},
          {"calibration-journal", "what --resume reads of a calibration", read_calibration_journal,
           calibration_journal_seeds},
          {"known-rows", "a table of orrery validate --rows", read_known_rows, known_row_seeds}};
}

}  // namespace orrery::fuzz
