// The engine behind the what-if page: a request in JSON goes in, its answer in JSON comes out. The page runs it as
// WebAssembly in a worker; `orrery page` runs it natively behind HTTP. Both give the same answers.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace orrery::tools {

/// Answers requests, one at a time, and remembers what the next one may share with the last: the cluster, the groups of
/// a layout, a loaded scenario. One object per thread.
class WhatIfEngine {
 public:
  /// What names in a scenario may stand for: shipped documents alone, or files as well, as on the command line.
  enum class Names { shipped, files };
  /// Whether anybody still waits for an answer.
  using Wanted = std::function<bool()>;

  explicit WhatIfEngine(Names names);
  ~WhatIfEngine();
  WhatIfEngine(const WhatIfEngine&) = delete;
  WhatIfEngine& operator=(const WhatIfEngine&) = delete;

  /// `request` is a JSON object whose member "do" says what is wanted:
  ///   catalogue  what ships by name, the scenarios as YAML, and the keys of the language with their meanings;
  ///   run        {"text": YAML, "file": name for messages, "sets": ["key.path=value"], "charts": bool}: one training
  ///              step as `orrery run --json` reports it ("result"), the values that the layout resolves to ("layout"),
  ///              the scenario with the sets laid over it ("yaml"), what the timeline is drawn from ("charts");
  ///              Where it does not fit, the search for what would takes longest: "remedies": false leaves it out;
  ///              "nearest": true and "changed": KEY: what does not load comes back as {"error", "nearest": {"set",
  ///              "keeps", "follows"}, "layout"} with the nearest that does (nearest.h);
  ///   advise     {"text", "file", "sets"}: what would make it faster, as `orrery advise --json`;
  ///              A scenario with a section serving or rl is answered as `orrery serving --json` or `orrery rl --json`
  ///              does ("kind": "serve" or "rl"), its charts being the data of their reports;
  ///   splits     {"text", "file", "sets"}: the GPUs shared out, as `orrery rl --split --json`;
  ///   remedies   {"text", "file", "sets"}: what would fit, {"would_fit": [{"set", "peak_bytes"}]};
  ///   points     {"text", "file", "points": [[sets]]}: a step for each list of sets, in short;
  ///   import     {"form": "hf" | "megatron" | "nemo", "text", "file"}: a scenario as YAML.
  /// What is wrong with the input comes back as {"error": the line that the command line would print}; an error of the
  /// program's own as {"bug": text}. Throws nothing.
  /// `wanted`, where there is one, is asked before each point, and what is no longer wanted goes no further.
  std::string answer(const std::string& request, const Wanted& wanted = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery::tools
