// The passes of router_kernels.h.
#include "calibration/device/router_kernels.h"

namespace orrery::calibration {
namespace {

constexpr double kScore = 4, kMask = 1, kIndex = 8, kRowId = 4;  // bytes

double cells(const RouterShape& s) { return s.tokens * s.experts; }
double row_bytes(const RouterShape& s) { return s.hidden * s.element_bytes; }

}  // namespace

Kernels choose_kernels(const RouterShape& s, bool fused) {
  const double all = cells(s), chosen = s.tokens * s.top_k;
  // Scores are read once; weights, mask and the scores' own softmax or sigmoid are written, the last for the backward.
  if (fused) return {{"choose", all * kScore, all * (kScore + kMask + kScore)}};
  return {{"top-k", all * kScore, chosen * (kScore + kIndex)},
          {"softmax", chosen * kScore, chosen * kScore},
          {"zero weights", 0, all * kScore},
          {"scatter weights", chosen * (kScore + kIndex), chosen * kScore},
          {"zero mask", 0, all * kScore},
          {"scatter mask", chosen * kIndex, chosen * kScore},
          {"mask", all * kScore, all * kMask}};
}

Kernels choose_backward_kernels(const RouterShape& s, bool fused) {
  const double all = cells(s), chosen = s.tokens * s.top_k;
  if (fused) return {{"choose backward", all * (kScore + kMask + kScore), all * kScore}};
  return {{"gather weights", chosen * (kScore + kIndex), chosen * kScore},
          {"softmax backward", 2 * chosen * kScore, chosen * kScore},
          {"zero scores", 0, all * kScore},
          {"scatter scores", chosen * (kScore + kIndex), chosen * kScore}};
}

Kernels balance_loss_kernels(const RouterShape& s, bool fused) {
  const double all = cells(s);
  if (fused)
    return {{"loss scores", all * kScore, all * (kScore + kMask + kScore)},
            {"balance loss", all * kScore, 0},
            {"mask sum", all * kMask, 0}};
  return {{"loss softmax", all * kScore, all * kScore},
          {"loss top-k", all * kScore, s.tokens * s.top_k * kIndex},
          {"zero mask", 0, all * kScore},
          {"mask", all * kScore, all * kMask},
          {"mask sum", all * kMask, 0},
          {"score sum", all * kScore, 0}};
}

Kernels z_loss_kernels(const RouterShape& s) { return {{"log-sum-exp", cells(s) * kScore, s.tokens * kScore}}; }

Kernels permute_kernels(const RouterShape& s, double rows, bool fused) {
  const double all = cells(s), row = row_bytes(s);
  // Three passes make a map of row numbers from the mask; a token's row is then read once, however often it is written.
  if (fused)
    return {{"row map, sums in blocks", all * kMask, all * kRowId},
            {"row map, sums", all * kRowId, all * kRowId},
            {"row map, dense", all * kRowId, 2 * s.tokens * s.top_k * kRowId},
            {"permute", s.tokens * row + all * kScore, rows * (row + kScore)}};
  return {{"transpose mask", all * kMask, all * kMask},
          {"select rows", all * kMask, rows * kIndex},
          {"transpose weights", all * kScore, all * kScore},
          {"select weights", all * (kScore + kMask), rows * kScore},
          {"permute", rows * (row + kIndex), rows * row}};
}

Kernels unpermute_kernels(const RouterShape& s, double rows, bool fused) {
  const double row = row_bytes(s);
  if (fused) return {{"unpermute", rows * (row + kRowId), s.tokens * row}};
  // Rows are added into zeros one by one: what is there is read and written for each.
  return {{"zero tokens", 0, s.tokens * row}, {"unpermute", rows * (2 * row + kIndex), rows * row}};
}

Kernels sort_chunks_kernels(const RouterShape& s, double rows) {
  return {{"sort chunks", rows * (row_bytes(s) + kRowId), rows * row_bytes(s)}};
}

}  // namespace orrery::calibration
