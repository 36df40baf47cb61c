// High-water marks, counted twice: in the order of the schedule, for formulas, and in the order of simulated time, from
// when the kernels of each pass began and ended. One stream computes, so that the two must agree; a test holds them to
// it. Left out: tensors that are freed inside a pass, beyond what PassBytes::working says.
#include "workloads/memory/high_water.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "workloads/groups/streams.h"

namespace orrery::workloads {

namespace {

/// What is freed (where negative: held on top) when the pass is over.
double freed(const Pass& pass, const PassBytes& bytes) {
  switch (pass.kind) {
    case PassKind::forward:
      return 0;
    case PassKind::backward:
      return bytes.kept;
    case PassKind::input_gradient:
      return bytes.kept - bytes.between;
    case PassKind::weight_gradient:
      return bytes.between;
  }
  return 0;
}

/// What the pass needs while it works. Weight gradients find all they need.
double working_in(const Pass& pass, const PassBytes& bytes) { return sends_gradient(pass.kind) ? bytes.working : 0; }

const PassBytes& kept_by(const Pass& pass, const std::vector<PassBytes>& chunks) {
  return chunks[static_cast<std::size_t>(pass.chunk)];
}

/// A pass with the time from its first operation to the end of its last kernel.
struct TimedPass {
  Pass pass;
  std::int64_t start = 0, finish = 0;
};

/// Whole gradients of weights, chunk by chunk: from the first pass that makes some to the end of the last.
class WholeGradients {
 public:
  template <class Passes>  // of Pass, or of what holds one as .pass
  WholeGradients(const Passes& passes, const std::vector<PassBytes>& chunks)
      : chunks_(chunks), left_(chunks.size(), 0), begun_(chunks.size(), false) {
    for (const auto& pass : passes) left_[at(pass_of(pass))] += ends_microbatch(pass_of(pass).kind) ? 1 : 0;
  }
  void begin(const Pass& pass) {
    if (!ends_microbatch(pass.kind) || begun_[at(pass)]) return;
    begun_[at(pass)] = true;
    held_ += chunks_[at(pass)].gradients;
  }
  void end(const Pass& pass) {
    if (ends_microbatch(pass.kind) && --left_[at(pass)] == 0) held_ -= chunks_[at(pass)].gradients;
  }
  double held() const { return held_; }

 private:
  static const Pass& pass_of(const Pass& pass) { return pass; }
  static const Pass& pass_of(const TimedPass& timed) { return timed.pass; }
  static std::size_t at(const Pass& pass) { return static_cast<std::size_t>(pass.chunk); }

  const std::vector<PassBytes>& chunks_;
  std::vector<std::int32_t> left_;  // passes that make gradients, by chunk
  std::vector<bool> begun_;
  double held_ = 0;
};

/// Whether a pass may begin with the transfer: a collective between its kernels, not one of a message.
bool is_within_pass(const OpNote& note, Category category) {
  return note.within_pass && (category == Category::tensor_comm || category == Category::context_comm);
}

std::vector<TimedPass> timed_passes(const sim::Record& record, const sim::Program& program,
                                    const std::vector<OpNote>& notes) {
  std::map<std::tuple<PassKind, std::int32_t, std::int32_t>, TimedPass> found;
  TimedPass* last = nullptr;  // a pass's operations stand together
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const OpNote& note = notes[op];
    const bool computes = program.kind[op] == sim::OpKind::compute;
    const auto category = static_cast<Category>(program.category[op]);
    if (note.microbatch < 0 || !(computes || is_within_pass(note, category))) continue;
    const std::int64_t start = record.start[op].value(), finish = computes ? record.finish[op].value() : start;
    const bool same = last != nullptr && last->pass.kind == note.kind && last->pass.chunk == note.chunk &&
                      last->pass.microbatch == note.microbatch;
    if (!same) {
      Pass pass;
      pass.kind = note.kind;
      pass.chunk = note.chunk;
      pass.microbatch = note.microbatch;
      const auto [place, added] =
          found.try_emplace({note.kind, note.chunk, note.microbatch}, TimedPass{pass, start, finish});
      last = &place->second;
    }
    last->start = std::min(last->start, start);
    last->finish = std::max(last->finish, finish);
  }
  std::vector<TimedPass> passes;
  for (const auto& [key, pass] : found) passes.push_back(pass);
  return passes;
}

/// What changes or is looked at, in the order of time: frees before anything else of the same instant.
enum class What { free, keep, work };
struct Moment {
  std::int64_t at;
  What what;
  Pass pass;
};

std::vector<Moment> moments_of(const std::vector<TimedPass>& passes) {
  std::vector<Moment> moments;
  for (const TimedPass& timed : passes) {
    const bool forward = timed.pass.kind == PassKind::forward;
    moments.push_back({timed.start, forward ? What::keep : What::work, timed.pass});
    if (!forward) moments.push_back({timed.finish, What::free, timed.pass});
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::pair(a.at, static_cast<int>(a.what)) < std::pair(b.at, static_cast<int>(b.what));
  });
  return moments;
}

}  // namespace

HighWater high_water(const std::vector<Pass>& passes, const std::vector<PassBytes>& chunks) {
  HighWater most;
  double held = 0;
  WholeGradients gradients(passes, chunks);
  std::size_t at = passes.size();
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const PassBytes& bytes = kept_by(passes[i], chunks);
    if (passes[i].kind == PassKind::forward) held += bytes.kept;
    gradients.begin(passes[i]);
    const double working = working_in(passes[i], bytes);
    if (at == passes.size() || held + working + gradients.held() > most.bytes()) {
      most.held = held;
      most.working = working;
      most.units = working > 0 ? bytes.units : 0;
      most.gradients = gradients.held();
      at = i;
    }
    held -= freed(passes[i], bytes);
    gradients.end(passes[i]);
  }
  most.in_flight.assign(chunks.size(), 0);
  if (at == passes.size()) return most;
  most.pass = passes[at];
  for (std::size_t i = 0; i <= at; ++i) {
    std::int32_t& count = most.in_flight[static_cast<std::size_t>(passes[i].chunk)];
    if (passes[i].kind == PassKind::forward) ++count;
    if (ends_microbatch(passes[i].kind) && i < at) --count;
  }
  return most;
}

HighWater counted_high_water(const sim::Record& record, const sim::Program& program, const std::vector<OpNote>& notes,
                             const std::vector<PassBytes>& chunks) {
  HighWater most;
  std::vector<std::int32_t> live(chunks.size(), 0);
  double held = 0;
  const std::vector<TimedPass> passes = timed_passes(record, program, notes);
  WholeGradients gradients(passes, chunks);
  for (const Moment& moment : moments_of(passes)) {
    const PassBytes& bytes = kept_by(moment.pass, chunks);
    std::int32_t& count = live[static_cast<std::size_t>(moment.pass.chunk)];
    if (moment.what == What::keep) {
      held += bytes.kept;
      ++count;
    }
    if (moment.what == What::free) {
      held -= freed(moment.pass, bytes);
      gradients.end(moment.pass);
    }
    if (moment.what == What::work) gradients.begin(moment.pass);
    if (moment.what == What::free && ends_microbatch(moment.pass.kind)) --count;
    const double working = moment.what == What::work ? working_in(moment.pass, bytes) : 0;
    if (most.in_flight.empty() || held + working + gradients.held() > most.bytes()) {
      const double at_s = static_cast<double>(moment.at) / sim::kPicosecondsPerSecond;
      most = {held, working, gradients.held(), moment.pass, live, working > 0 ? bytes.units : 0, at_s};
    }
  }
  return most;
}

std::vector<HeldBytes> held_over_time(const sim::Record& record, const sim::Program& program,
                                      const std::vector<OpNote>& notes, const std::vector<PassBytes>& chunks) {
  std::vector<HeldBytes> points;
  double held = 0;
  const std::vector<TimedPass> passes = timed_passes(record, program, notes);
  WholeGradients gradients(passes, chunks);
  for (const Moment& moment : moments_of(passes)) {
    const PassBytes& bytes = kept_by(moment.pass, chunks);
    if (moment.what == What::keep) held += bytes.kept;
    if (moment.what == What::free) {
      held -= freed(moment.pass, bytes);
      gradients.end(moment.pass);
    }
    if (moment.what == What::work) gradients.begin(moment.pass);
    const double working = moment.what == What::work ? working_in(moment.pass, bytes) : 0;
    points.push_back({moment.at, held + working + gradients.held()});
  }
  return points;
}

}  // namespace orrery::workloads
