// See batch_lines.h.
#include "tools/import/batch_lines.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>

namespace orrery::tools {

namespace {

constexpr std::size_t kLongestNumber = 9;  // digits, which an int64 holds with room for products

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kLongestNumber &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Behind the last colon: "gpu:h100:8", "h100:8", "8".
std::string_view behind_colon(std::string_view text) { return text.substr(text.rfind(':') + 1); }

struct Request {
  std::string_view name, value;
};

void take(const Request& request, std::map<std::string, std::string>& variables) {
  const auto set = [&](std::initializer_list<const char*> names, std::string_view value) {
    for (const char* name : names) variables[name] = std::string(value);
  };
  const bool generic = request.name == "--gres" && request.value.starts_with("gpu");
  if (generic || request.name == "--gpus-per-node") {
    const std::string_view count = behind_colon(request.value);
    if (is_number(count)) set({"SLURM_GPUS_ON_NODE"}, count);
  }
  // What a job asks for by name says which boards its nodes have.
  if (request.name == "--constraint" || request.name == "-C") set({"SBATCH_CONSTRAINT"}, request.value);
  if (request.name == "--partition" || request.name == "-p") set({"SBATCH_PARTITION"}, request.value);
  if ((generic || request.name == "--gpus-per-node" || request.name == "--gpus") &&
      request.value.find(':') != std::string_view::npos)
    set({"SBATCH_GRES"}, request.value);
  if (!is_number(request.value)) return;
  if (request.name == "--nodes" || request.name == "-N") set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, request.value);
  if (request.name == "--ntasks" || request.name == "-n") set({"SLURM_NTASKS"}, request.value);
  if (request.name == "--ntasks-per-node") set({"SLURM_NTASKS_PER_NODE"}, request.value);
}

/// The options of one line: "--nodes=4", "-N 4", "-N4".
void take_line(std::string_view line, std::map<std::string, std::string>& variables) {
  std::istringstream words{std::string(line)};
  std::vector<std::string> all;
  for (std::string word; words >> word && !word.starts_with('#');) all.push_back(std::move(word));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view word = all[i];
    const std::size_t equals = word.find('=');
    const bool brief = word.size() > 2 && word[0] == '-' && word[1] != '-';
    if (equals != std::string_view::npos)
      take({word.substr(0, equals), word.substr(equals + 1)}, variables);
    else if (brief)
      take({word.substr(0, 2), word.substr(2)}, variables);
    else if (i + 1 < all.size() && word.starts_with('-'))
      take({word, all[i + 1]}, variables);
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> batch_variables(const std::string& script) {
  constexpr std::string_view kMark = "#SBATCH";
  std::map<std::string, std::string> variables;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    if (line[begin] != '#') break;
    if (line.starts_with(kMark)) take_line(std::string_view(line).substr(kMark.size()), variables);
  }
  return {variables.begin(), variables.end()};
}

}  // namespace orrery::tools
