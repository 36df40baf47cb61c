// Finds devices in names; see known_devices.h.
#include "tools/import/known_devices.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace orrery::tools {

const KnownDevice* device_in(std::string_view name) {
  static constexpr KnownDevice kDevices[] = {
      {"gb300", "gb300", "nvl72-xdr", 4},        {"gb200", "gb200", "nvl72-ndr", 4},
      {"b300", "b300-sxm-288gb", "xdr-rail", 8}, {"b200", "b200-sxm-180gb", "ndr-rail", 8},
      {"gh200", "gh200-96gb", "ndr-rail", 4},    {"h200", "h200-sxm-141gb", "ndr-rail", 8},
      {"h100", "h100-sxm-80gb", "ndr-rail", 8},  {"h800", "h800-sxm-80gb", "ndr-rail", 8},
      {"a100", "a100-sxm-80gb", "ndr-rail", 8},  {"mi300x", "mi300x", "amd-400g-rail", 8},
      {"mi325x", "mi325x", "amd-400g-rail", 8},  {"mi350x", "mi350x", "amd-400g-rail", 8},
      {"mi355x", "mi355x", "amd-400g-rail", 8}};
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (const KnownDevice& known : kDevices) {
    const std::string_view word = known.word;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_digit(text[end]))) return &known;
    }
  }
  return nullptr;
}

}  // namespace orrery::tools
