// Names of optimizers. See known_optimizers.h. Spellings differ in case and hyphens, and carry how the update is fused,
// paged or distributed, which is the framework's; what tells them apart is a word inside.
#include "tools/import/known_optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace orrery::tools {

namespace {

struct Spelling {
  const char *part, *optimizer;
};
// The first that is met: Muon and Adafactor are no Adam, and AdaLomo is none of these.
constexpr std::array<Spelling, 8> kSpellings{{{"muon", "muon"},
                                              {"adafactor", "adafactor"},
                                              {"lion", "lion"},
                                              {"adagrad", "adagrad"},
                                              {"lamb", "lamb"},
                                              {"sgd", "sgd"},
                                              {"adam", "adam"},
                                              {"mcore_distributed_optim", "adam"}}};

}  // namespace

void take_optimizer(const std::string& name, Draft& draft) {
  std::string word;
  for (const char c : name) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto has = [&](const char* part) { return word.find(part) != std::string::npos; };
  const auto found = std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return has(s.part); });
  const std::string optimizer = found != kSpellings.end() ? found->optimizer : "adam";
  const bool eight = has("8bit") || has("8-bit");
  draft.set("optimizer", eight && optimizer == "adam" ? std::string("adamw_8bit") : optimizer);
  if (found == kSpellings.end()) {
    draft.first(fmt::format("optimizer {}: simulated as adam", name));
  } else if ((eight && optimizer != "adam") || has("4bit") || has("fp8")) {
    draft.first(
        fmt::format("optimizer {}: simulated as {} with states in full width, which are larger", name, optimizer));
  } else if (has("onebit") || has("zeroone") || has("paged") || has("muonclip")) {
    draft.first(fmt::format("optimizer {}: simulated as {}{}", name, optimizer,
                            has("paged")      ? " whose states stay with the device"
                            : has("muonclip") ? " without its clipping of queries and keys"
                                              : ", whose reductions are not compressed"));
  }
}

}  // namespace orrery::tools
