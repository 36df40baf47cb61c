// Nsight Systems' exported SQLite (`nsys export --type sqlite`): the tables CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY,
// _MEMSET and _RUNTIME, NVTX_EVENTS and StringIds, as the User Guide's chapter on the export format describes them.
// Times are nanoseconds. A process of the profiled job is a rank; the table of none says which. Left out: graphs traced
// as a whole (CUPTI_ACTIVITY_KIND_GRAPH_TRACE), callchains, metrics.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/error.h"
#include "tools/learn/trace.h"

#ifdef ORRERY_SQLITE
#include <sqlite3.h>
#endif

namespace orrery::tools {

#ifndef ORRERY_SQLITE

std::vector<Trace> read_nsight(const std::string& file) {
  throw sim::UserError(
      fmt::format("{}: is an SQLite file, which this build does not read (it was configured without "
                  "libsqlite3-dev), expected a trace of PyTorch's profiler",
                  file));
}

#else

namespace {

constexpr std::int64_t kThreadBits = 0xffffff;  // of a globalTid; the rest is the process, a globalPid

class Database {
 public:
  explicit Database(const std::string& file) : file_(file) {
    sqlite3* raw = nullptr;
    const int status = sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(raw);
    if (status != SQLITE_OK) refuse(sqlite3_errmsg(raw));
    distrust();
    // Tables with pages of their own: a virtual table is a program's, and a view may be a query without an end.
    each("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0",
         [&](sqlite3_stmt* row) { tables_.emplace_back(text(row, 0)); });
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw sim::UserError({file_, 1, 1}, "CUPTI_ACTIVITY_KIND_KERNEL",
                         why + ", expected an export of Nsight Systems with CUDA traced (nsys export --type sqlite)");
  }
  /// Whether the table is there. Throws where a column of it is an expression, which may make gigabytes of nothing.
  bool has(const std::string& table) {
    if (std::find(tables_.begin(), tables_.end(), table) == tables_.end()) return false;
    each(fmt::format("SELECT name FROM pragma_table_xinfo('{}') WHERE hidden <> 0", table), [&](sqlite3_stmt* row) {
      refuse(fmt::format("got the column {:.40} of {} as an expression, expected values", text(row, 0), table));
    });
    return true;
  }
  /// Calls `use` with every row.
  template <class Use>
  void each(const std::string& query, const Use& use) {
    sqlite3_stmt* raw = nullptr;
    const int prepared = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &raw, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
    if (prepared != SQLITE_OK) refuse(fmt::format("got '{}'", sqlite3_errmsg(database_.get())));
    int step = 0;
    while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
      if (++rows_ > kMostTraceEvents) refuse(fmt::format("holds more than {} events", kMostTraceEvents));
      use(raw);
    }
    if (step != SQLITE_DONE) refuse(fmt::format("got '{}'", sqlite3_errmsg(database_.get())));
  }
  static std::string text(sqlite3_stmt* row, int column) {
    const auto* bytes = sqlite3_column_text(row, column);
    return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes));
  }

 private:
  static constexpr int kLongestValue = 1 << 20;                        // bytes: of a row, and of a text in it
  static constexpr sqlite3_int64 kMostHeap = sqlite3_int64{64} << 20;  // of the library, its cache of pages included

  /// The file is a stranger's: its schema runs nothing, and what the library takes for a row is bounded.
  void distrust() {
    sqlite3* const raw = database_.get();
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kLongestValue);
    sqlite3_limit(raw, SQLITE_LIMIT_SQL_LENGTH, 1 << 16);
    sqlite3_limit(raw, SQLITE_LIMIT_COLUMN, 256);
    sqlite3_limit(raw, SQLITE_LIMIT_EXPR_DEPTH, 32);
    sqlite3_limit(raw, SQLITE_LIMIT_VDBE_OP, 25'000);
    sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_hard_heap_limit64(kMostHeap);
  }

  std::string file_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_{nullptr, sqlite3_close};
  std::vector<std::string> tables_;
  std::size_t rows_ = 0;
};

class NsightReader {
 public:
  explicit NsightReader(const std::string& file) : file_(file), database_(file) {}

  std::vector<Trace> read() {
    if (!database_.has("CUPTI_ACTIVITY_KIND_KERNEL")) database_.refuse("has no such table");
    if (database_.has("StringIds")) {
      database_.each("SELECT id, value FROM StringIds",
                     [&](sqlite3_stmt* row) { keep_string(sqlite3_column_int64(row, 0), Database::text(row, 1)); });
    }
    read_device("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", DeviceWork::kernel);
    read_device("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", DeviceWork::memcpy);
    read_device("CUPTI_ACTIVITY_KIND_MEMSET", "0", DeviceWork::memset);
    read_calls();
    read_ranges();
    std::vector<Trace> out;
    for (auto& [process, trace] : processes_) {
      if (trace.device.empty()) continue;
      trace.file = file_;
      complete(trace);
      out.push_back(std::move(trace));
    }
    if (out.empty()) database_.refuse("holds no kernel");
    return out;
  }

 private:
  static constexpr std::size_t kMostText = std::size_t{128} << 20;  // bytes: names of kernels and calls, each once

  void keep_string(std::int64_t id, std::string text) {
    text_ += text.size();
    if (text_ > kMostText) database_.refuse(fmt::format("holds more than {} MiB of names", kMostText >> 20));
    strings_[id] = std::move(text);
  }

  std::string name_of_work(std::int64_t value, DeviceWork work) const {
    if (work == DeviceWork::memset) return "Memset (Device)";
    if (work == DeviceWork::memcpy) {
      // CUpti_ActivityMemcpyKind of CUPTI's manual.
      static const std::map<std::int64_t, const char*> kKinds{
          {1, "Memcpy HtoD"}, {2, "Memcpy DtoH"}, {8, "Memcpy DtoD"}, {10, "Memcpy PtoP"}};
      const auto kind = kKinds.find(value);
      return kind == kKinds.end() ? "Memcpy" : kind->second;
    }
    const auto name = strings_.find(value);
    return name == strings_.end() ? "" : name->second;
  }

  void read_device(const std::string& table, const std::string& named, DeviceWork work) {
    if (!database_.has(table)) return;
    database_.each(
        fmt::format("SELECT start, \"end\", deviceId, streamId, correlationId, globalPid, {} FROM {}", named, table),
        [&](sqlite3_stmt* row) {
          Trace& trace = processes_[sqlite3_column_int64(row, 5) & ~kThreadBits];
          DeviceEvent event;
          event.start = sqlite3_column_int64(row, 0);
          event.end = sqlite3_column_int64(row, 1);
          const bool timed = sqlite3_column_type(row, 0) == SQLITE_INTEGER &&
                             sqlite3_column_type(row, 1) == SQLITE_INTEGER && event.start >= 0;
          if (!timed || event.end < event.start) {
            database_.refuse(fmt::format("got '{:.40}' to '{:.40}' as start and end of a row of {}",
                                         Database::text(row, 0), Database::text(row, 1), table));
          }
          event.device = sqlite3_column_int(row, 2);
          event.stream = sqlite3_column_int(row, 3);
          event.correlation = sqlite3_column_int64(row, 4);
          event.work = work;
          event.name = trace.names.intern(name_of_work(sqlite3_column_int64(row, 6), work));
          trace.device.push_back(event);
        });
  }

  void read_calls() {
    if (!database_.has("CUPTI_ACTIVITY_KIND_RUNTIME")) return;
    database_.each("SELECT start, \"end\", globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                   [&](sqlite3_stmt* row) {
                     add_host(row, HostKind::runtime, strings_[sqlite3_column_int64(row, 4)],
                              sqlite3_column_int64(row, 3));
                   });
  }

  void read_ranges() {
    if (!database_.has("NVTX_EVENTS")) return;
    database_.each(
        "SELECT start, \"end\", globalTid, text, textId FROM NVTX_EVENTS WHERE \"end\" IS NOT NULL AND globalTid IS "
        "NOT NULL",
        [&](sqlite3_stmt* row) {
          const std::string text = Database::text(row, 3);
          const std::string& name = text.empty() ? strings_[sqlite3_column_int64(row, 4)] : text;
          const bool operation = name.starts_with("aten::") || name.starts_with("autograd::");
          add_host(row, operation ? HostKind::operation : HostKind::annotation, name, kNone);
        });
  }

  void add_host(sqlite3_stmt* row, HostKind kind, const std::string& name, std::int64_t correlation) {
    const std::int64_t thread = sqlite3_column_int64(row, 2);
    Trace& trace = processes_[thread & ~kThreadBits];
    HostEvent event;
    event.name = trace.names.intern(name);
    event.kind = kind;
    event.thread = static_cast<std::int32_t>(thread & kThreadBits);
    event.start = sqlite3_column_int64(row, 0);
    event.end = std::max(event.start, static_cast<Nanoseconds>(sqlite3_column_int64(row, 1)));
    event.correlation = correlation;
    trace.host.push_back(event);
  }

  std::string file_;
  Database database_;
  std::map<std::int64_t, std::string> strings_;
  std::size_t text_ = 0;                     // bytes in strings_
  std::map<std::int64_t, Trace> processes_;  // by globalPid
};

}  // namespace

std::vector<Trace> read_nsight(const std::string& file) { return NsightReader(file).read(); }

#endif

}  // namespace orrery::tools
