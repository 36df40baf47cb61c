// How well differences are predicted: what tells whether a gain is more than the prediction's error. Two layouts of one
// model on one cluster share most causes of error, so their ratio is better known than either step. The evidence is
// pairs of published rows: of one list, device, software, number of GPUs and model, measured and predicted alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/explain/like_rows.h"

namespace orrery::tools {

struct ChangeError {
  double pairs = 0;  // how many independent pairs the weights amount to (Kish)
  /// |ln| of measured over predicted ratios of two steps that 68 and 90 % of such pairs stay below.
  double half68 = 0, half90 = 0;
};

/// Pairs weighed by how like both rows are to `features` (like_rows.h); nothing where no two known rows make a pair.
/// `left_out`: of `known`, a row that is asked about.
std::optional<ChangeError> change_error(const Features& features, const std::vector<KnownRow>& known,
                                        const KnownRow* left_out = nullptr);

/// Whether a gain, as |ln| of the ratio of two predicted steps, is more than such errors.
enum class Confidence : std::uint8_t { unknown, within, likely, beyond };
Confidence confidence_of(double gain, const std::optional<ChangeError>& error);
/// "within the error of such predictions", and so on: a clause.
std::string_view text_of(Confidence confidence);
/// One word, for programs: unknown, within, likely or beyond.
std::string_view name_of(Confidence confidence);

}  // namespace orrery::tools
