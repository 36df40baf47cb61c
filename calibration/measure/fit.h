// Fits of the kernel-time model to measured samples, and how well they hold: pure functions, no files. Structural
// parameters by Levenberg-Marquardt or Nelder-Mead on the mean robust log error, corrections by iteratively reweighted
// ridge regression (so that outliers, heuristics' bad days, do not bend the surface). Cross-validation deals samples
// into folds by a hash of their place in the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/device/attention_model.h"
#include "calibration/device/collective_model.h"
#include "calibration/device/expert_layer.h"
#include "calibration/device/gemm_model.h"
#include "calibration/device/optimise.h"
#include "calibration/device/power.h"
#include "calibration/device/profile_model.h"
#include "calibration/device/uncertainty.h"
#include "calibration/measure/samples.h"

namespace orrery::calibration {

inline constexpr int kFolds = 5;

/// Which fold a sample belongs to: a hash of its place, so that neighbours in the table fall into different folds.
int fold_of(std::size_t place, int folds);

struct SurfaceOptions {
  std::vector<double> m, n, k;  // knots
  double smoothness = 0.3;      // weight of second differences, in samples at a knot
  double shrinkage = 1e-3;      // weight of the values themselves
  double flatness = 0.0;        // weight of first differences: where there are no samples, the surface runs on level
  /// Largest fall between two knots: where the structure is flat (inside a wave), a fall makes larger shapes faster.
  double largest_fall = 0.5;
  double largest_fall_k = 0.5;  // along k, where work grows with the size inside a wave too
  double flatness_k = 0.0;      // added to flatness along k
};
struct SurfacePoint {
  double m = 1, n = 1, k = 1;
  double log_error = 0;  // ln(measured / structure), to be met by share * surface
  double share = 1;
  /// Where the surface counts at a second place too, as for a time of two products.
  double other_m = 1, other_n = 1, other_k = 1, other_share = 0;
};
Surface fit_surface(const SurfaceOptions& options, std::span<const SurfacePoint> points);

struct GemmFitOptions {
  SurfaceOptions surface;
  SurfaceOptions detail;              // no knots in m: none
  int iterations = 25;                // of the structural search
  std::size_t search_samples = 1500;  // samples that the structural search looks at
};

/// A device's facts with first guesses and tile shapes that libraries ship. Their rates and set-up times follow from
/// five numbers of the device: a tile of (m, n) runs at best / (1 + a / m + b / n) of peak, as smaller tiles move more
/// operands per product, and takes s + e * m * n to fill its pipeline and to write its results. Single tiles may leave
/// this law where samples ask for it.
GemmModel gemm_start(double peak, double processors, double memory_bandwidth, DataType type);
/// Knots for `samples`: as dense as their number allows.
GemmFitOptions gemm_options(std::span<const GemmSample> samples);
/// Fits structure and corrections; `start` gives the device's facts.
GemmModel fit_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options);
FitError gemm_error(const GemmModel& model, std::span<const GemmSample> samples);
/// Fits on all folds but one and predicts that one, for each fold; then fits on all but the largest tenth by FLOPs and
/// predicts that tenth.
FitQuality judge_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options,
                      int folds);
/// The same model with what rows that fill no tiles take (GemmModel::row_step, ragged), fitted to those of `samples`
/// whose m is no multiple of kWholeRows; the rest of it stays. Fewer than a hundred of them: unchanged.
GemmModel fit_ragged(const GemmModel& whole, std::span<const GemmSample> samples);
/// Of these samples alone, each judged by a fit that has not seen it.
FitQuality judge_ragged(const GemmModel& whole, std::span<const GemmSample> samples, int folds);

/// Products on several streams; nothing: too few were measured.
std::optional<GemmModel::Streams> fit_streams(const GemmModel& dense, std::span<const GroupedSample> samples,
                                              DataType type);

/// The products of a type's experts, and what serving libraries do around them.
struct ExpertModel {
  GroupedModel products;
  ServedExperts around;
};
/// Tiles of the library's grouped products, rows of tokens by columns of the weight, that its tuner tries on a device
/// that computes what the data sheet says: NVIDIA TensorRT-LLM, cpp/tensorrt_llm/kernels/cutlass_kernels/
/// cutlass_heuristic.cpp (get_candidate_tiles of Ampere; get_candidate_tiles_sm90 of Hopper, either side for tokens).
/// Blackwell's are many, and products by blocks have kernels of their own: sides from 16 and 64 to 256.
std::vector<Tile> served_tiles(const DeviceProfile::Model::Sheet& sheet, DataType type);
/// Fits both, and a correction, to the rows that were tuned (samples.h). `device` gives the device's facts, the launch
/// and the shapes of tiles. Errors: SIM_CHECK that there are such rows.
ExpertModel fit_experts(const GroupedModel& device, std::span<const ExpertSample> samples);
/// Fits on one half of the rows that were tuned and predicts the other, and the other way round.
FitQuality judge_experts(const GroupedModel& device, std::span<const ExpertSample> samples);

/// Knots for `samples`.
SurfaceOptions attention_options(std::span<const AttentionSample> samples);
/// Forward samples give the model, backward samples, where there are any, the rate of the backward pass over it.
AttentionModel fit_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                             const SurfaceOptions& surface);
FitError attention_error(const AttentionModel& model, std::span<const AttentionSample> samples);
/// Of the forward pass.
FitQuality judge_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                           const SurfaceOptions& surface, int folds);

/// How rates and switches go with the size of a group: by a law that rises, as between GPUs that switches join, or not,
/// where larger groups share links of which smaller ones had their own.
enum class GroupRates : std::uint8_t { by_law, own };

/// Fits one operation of one device. `line_rate`: bytes/s per GPU and direction, which no protocol exceeds;
/// `in_switch_from`: as in CollectiveModel.
CollectiveModel fit_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from,
                               GroupRates rates = GroupRates::by_law);
/// Of the samples with from_bytes <= bytes < to_bytes.
FitError collective_error(const CollectiveModel& model, std::span<const CollectiveSample> samples, double from_bytes,
                          double to_bytes);
/// Fits on all folds but one and predicts that one, for each fold.
FitQuality judge_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from,
                            int folds, GroupRates rates = GroupRates::by_law);

/// One floor for all kernels and a share of `memory_bandwidth` for each kernel of the samples, above 1 where they moved
/// more than that; kernels without a sample keep what `start` says.
StreamingModel fit_streaming(const StreamingModel& start, std::span<const StreamingSample> samples,
                             double memory_bandwidth);
/// In-sample.
FitQuality judge_streaming(const StreamingModel& model, std::span<const StreamingSample> samples,
                           double memory_bandwidth);

GemmModel::Shape model_shape(const Gemm& g);
AttentionModel::Shape model_shape(const Attention& a);
/// The sizes that uncertainty is told by, and the work that classes are told by (FLOPs).
Sizes sizes_of(const Gemm& g);
Sizes sizes_of(const Attention& a);
double flops_of(const Gemm& g);
double flops_of(const Attention& a);

struct PowerFit {
  PowerModel power;  // what stands, activity, energies of the types that samples have, how both follow the clock
  double largest_error = 0;  // W, of any sample
  /// What the samples determine: products at several clocks tell how speed and power follow it, attention its energy.
  /// What they do not is `inherited`'s.
  bool tells_clock = false, tells_attention = false;
};
/// Clocks are told as shares of `boost_mhz`. None without a board at rest, a copy and a product among the samples.
std::optional<PowerFit> fit_power(const std::vector<PowerSample>& samples, double boost_mhz,
                                  const PowerModel& inherited = {});

}  // namespace orrery::calibration
