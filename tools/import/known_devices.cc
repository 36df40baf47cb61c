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

const KnownDevice* device_of_instance(std::string_view type) {
  // aws.amazon.com/ec2/instance-types, cloud.google.com/compute/docs/gpus and
  // learn.microsoft.com/azure/virtual-machines/ sizes; a type that names its device (p6-b200.48xlarge,
  // Standard_ND96isr_H100_v5) is read by that name.
  static constexpr KnownDevice kTypes[] = {{"p3.", "v100-sxm-16gb", 8},
                                           {"p3dn.", "v100-sxm-32gb", 8},
                                           {"p4d.", "a100-sxm-40gb", 8},
                                           {"p4de.", "a100-sxm-80gb", 8},
                                           {"p5.", "h100-sxm-80gb", 8},
                                           {"p5e.", "h200-sxm-141gb", 8},
                                           {"p5en.", "h200-sxm-141gb", 8},
                                           {"g5.", "a10-24gb", 8},
                                           {"g6e.", "l40s-48gb", 8},
                                           {"a2-highgpu-", "a100-sxm-40gb", 8},
                                           {"a2-ultragpu-", "a100-sxm-80gb", 8},
                                           {"a3-highgpu-", "h100-sxm-80gb", 8},
                                           {"a3-megagpu-", "h100-sxm-80gb", 8},
                                           {"a3-ultragpu-", "h200-sxm-141gb", 8},
                                           {"a4-highgpu-", "b200-sxm-180gb", 8},
                                           {"a4x-highgpu-", "gb200", 4},
                                           {"a4x-maxgpu-", "gb300", 4}};
  for (const KnownDevice& known : kTypes)
    if (type.starts_with(known.word)) return &known;
  return device_in(type);
}

std::string_view usual_fabric(std::string_view device) {
  // The first that a name begins with counts. Servers of PCIe boards: two boards to a port of 200 Gb/s (NVIDIA's
  // enterprise reference configuration 2-8-5-200 of L40S and H100 NVL systems).
  static constexpr std::pair<std::string_view, std::string_view> kFabrics[] = {
      {"a100-pcie", "roce-4x200g"}, {"a100", "selene-hdr"},       {"a800", "selene-hdr"},
      {"a10-", "roce-1x100g"},      {"a40", "roce-1x100g"},       {"b300", "xdr-rail"},
      {"gb10-", "roce-1x200g"},     {"gb200", "nvl72-ndr"},       {"gb300", "nvl72-xdr"},
      {"gh200", "jupiter-ndr200"},  {"h100-pcie", "roce-4x200g"}, {"h200-nvl", "roce-4x200g"},
      {"l40s", "roce-4x200g"},      {"mi250x", "slingshot11"},    {"mi3", "amd-400g-rail"},
      {"rtx-pro", "roce-4x200g"},   {"rtx-", "roce-1x100g"},      {"v100", "edr-4x100g"},
      {"vr200", "nvl72-xdr"}};
  for (const auto& [beginning, fabric] : kFabrics) {
    if (device.starts_with(beginning)) return fabric;
  }
  return "ndr-rail";
}

}  // namespace orrery::tools
