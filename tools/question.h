// A question without a file: `orrery search --model llama3.1-70b --device h100 --gpus 512 --tokens 2e12 --price 2.5`.
// The flags are the few keys that a first question has; what they leave open is taken as most would and said. Left out:
// what is not a first question, which is a scenario's to say.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/study/layouts.h"

namespace orrery::tools {

struct FirstQuestion {
  std::string model, device, fabric, software, tokens, price, batch_tokens, seq, out;
  std::int64_t gpus = 0;
  bool asked() const { return !model.empty() || !device.empty() || gpus > 0; }
};

/// Flags of a command that takes a scenario or a question. `tokens`: whether --tokens is declared here; `keeps`:
/// whether --out is.
void declare_question(CommandOptions app, FirstQuestion& question, bool tokens);

/// The scenario of `file`, which the flags that have a key change, or of the question, with `sets` laid over it.
/// `assumed`: what the question left open, and how it was taken. Throws sim::UserError: for neither, for both, for a
/// question without model, device or GPUs.
sim::Settings asked_scenario(const std::string& file, const FirstQuestion& question,
                             const std::vector<std::string>& sets, std::vector<std::string>& assumed);
/// What a command calls the scenario.
std::string name_of(const std::string& file, const FirstQuestion& question);

/// Refuses what stands where a scenario does beside a question's flags: with the flag that it lacks, where it is what
/// a flag takes.
[[noreturn]] void refuse_beside_flags(const std::string& word);

/// A model as Hugging Face calls it, meta-llama/Llama-3.1-8B, without its publisher, unless a file is called so; where
/// no model is called that, the one whose sizes it has, which `assumed` then says.
std::string model_word(const std::string& typed, std::vector<std::string>& assumed);
/// The document that a name stands for, complaining of the flag.
scenarios::Resolved named_by_flag(const char* kind, const char* flag, const std::string& name);
/// How a scenario that lies nowhere refers to what a flag names: a file by its whole path.
sim::Settings reference_by_flag(const std::string& flag, const std::string& text, const std::string& name);
/// Whether one of `sets` says that key, what it stands in, or something within.
bool is_set(const std::vector<std::string>& sets, const std::string& key);
/// A number from `least`, as in 2e12. Throws sim::UserError naming the flag.
double number_of_flag(const char* flag, const std::string& text, double least);

/// Lays the layout that is predicted the fastest of those that the software has over `document`, and adds it to `sets`;
/// what these say of a layout stays. Throws sim::UserError where none fits.
void lay_out(sim::Settings& document, std::vector<std::string>& sets, unsigned jobs);
/// What stands behind `orrery run`, as it is typed: the file that --out keeps, the scenario or the flags.
std::string typed(const std::string& file, const FirstQuestion& question);
/// How far a question's search goes: a tensor group stays among GPUs that NVLink joins and shares the sequence out too,
/// and a pass takes no more tokens than fill a GPU many times over. Beyond lie layouts by the thousand, and a step that
/// is faster hardly ever.
Reach reach_of(const workloads::Machine& machine);
std::string reach_text(const Reach& reach);
/// The question as it is typed.
std::string flags_of(const FirstQuestion& question);

/// What a scenario's step comes to, as cards of a report: a name, a value and a note each; the step with its interval,
/// and days and dollars where the tokens and the price are known.
std::vector<std::array<std::string, 3>> answer_cards(const sim::Settings& document);

/// What a run by flags answers, in lines: layout, step, days and dollars, each with its interval, and the launch line;
/// writes the scenario where --out says.
void write_answer(std::ostream& out, const sim::Settings& document, const FirstQuestion& question,
                  const std::vector<std::string>& assumed);

}  // namespace orrery::tools
