// Finds devices in names; see known_devices.h.
#include "tools/import/known_devices.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace orrery::tools {

const KnownDevice* device_in(std::string_view name) {
  static constexpr KnownDevice kDevices[] = {{"gb300", "gb300", 4},         {"gb200", "gb200", 4},
                                             {"b300", "b300-sxm-288gb", 8}, {"b200", "b200-sxm-180gb", 8},
                                             {"gh200", "gh200-96gb", 4},    {"h200", "h200-sxm-141gb", 8},
                                             {"h100", "h100-sxm-80gb", 8},  {"h800", "h800-sxm-80gb", 8},
                                             {"a100", "a100-sxm-80gb", 8},  {"mi300x", "mi300x", 8},
                                             {"mi325x", "mi325x", 8},       {"mi350x", "mi350x", 8},
                                             {"mi355x", "mi355x", 8},       {"vr200", "vr200", 4},
                                             {"r100", "vr200", 4},          {"h20", "h20-sxm-96gb", 8},
                                             {"a800", "a800-sxm-80gb", 8},  {"l40s", "l40s-48gb", 8},
                                             {"a40", "a40-48gb", 8},        {"v100-16g", "v100-sxm-16gb", 8},
                                             {"v100", "v100-sxm-32gb", 8},  {"mi250x", "mi250x-gcd", 8},
                                             {"mi250", "mi250x-gcd", 8}};
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (const KnownDevice& known : kDevices) {
    const std::string_view word = known.word;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      const bool counted = at > 1 && text[at - 1] == 'x' && is_digit(text[at - 2]);  // 8xB200
      if ((at == 0 || counted || !is_letter(text[at - 1])) && (end == text.size() || !is_digit(text[end])))
        return &known;
    }
  }
  return nullptr;
}

std::string_view usual_fabric(std::string_view device) {
  static constexpr std::pair<std::string_view, std::string_view> kFabrics[] = {
      {"a100", "selene-hdr"}, {"b300", "xdr-rail"},        {"gb200", "nvl72-ndr"},    {"gb300", "nvl72-xdr"},
      {"vr200", "nvl72-xdr"}, {"gh200", "jupiter-ndr200"}, {"mi250x", "slingshot11"}, {"mi3", "amd-400g-rail"}};
  for (const auto& [beginning, fabric] : kFabrics) {
    if (device.starts_with(beginning)) return fabric;
  }
  return "ndr-rail";
}

}  // namespace orrery::tools
