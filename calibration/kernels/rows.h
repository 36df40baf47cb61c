// The arithmetic of the streaming kernels, one element or one pair at a time, in the type of its arguments: kernels use
// it in float, the reference in double, and the tests of this room compare both with differences of closed forms.
// GeLU by tanh: Hendrycks and Gimpel, arXiv 1606.08415. SwiGLU: Shazeer, arXiv 2002.05202. Adam: Kingma and Ba, arXiv
// 1412.6980. LAMB: You et al., arXiv 1904.00962.
#pragma once

#include "calibration/kernels/values.h"

namespace orrery::calibration::gpu {

inline constexpr double kNormEpsilon = 1e-5;
inline constexpr int kDropThreshold = 26;  // of 256: a probability of 0.1
inline constexpr double kKeepScale = 256.0 / (256 - kDropThreshold);

ORRERY_BOTH float hyperbolic(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  float y;  // one instruction, good to 2^-11: below the rounding of a 16-bit result
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return tanhf(x);
#endif
}
ORRERY_BOTH double hyperbolic(double x) { return tanh(x); }

ORRERY_BOTH float exponential(float x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return __expf(x);
#else
  return expf(x);
#endif
}
ORRERY_BOTH double exponential(double x) { return exp(x); }

template <class T>
ORRERY_BOTH T gelu(T x) {
  const T inner = T(0.7978845608028654) * x * (T(1) + T(0.044715) * x * x);
  return T(0.5) * x * (T(1) + hyperbolic(inner));
}
template <class T>
ORRERY_BOTH T gelu_slope(T x) {
  const T inner = T(0.7978845608028654) * x * (T(1) + T(0.044715) * x * x);
  const T t = hyperbolic(inner);
  const T inner_slope = T(0.7978845608028654) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_slope;
}

template <class T>
ORRERY_BOTH T logistic(T x) {
  return T(1) / (T(1) + exponential(-x));
}
template <class T>
ORRERY_BOTH T swiglu(T gate, T up) {
  return gate * logistic(gate) * up;
}
/// d swiglu / d gate; d / d up is gate * logistic(gate).
template <class T>
ORRERY_BOTH T swiglu_gate_slope(T gate, T up) {
  const T s = logistic(gate);
  return up * s * (T(1) + gate * (T(1) - s));
}

/// Whether dropout keeps element `i`: eight elements share one draw.
ORRERY_BOTH bool kept(std::uint64_t draw, unsigned i) {
  return static_cast<int>((draw >> (8 * (i & 7u))) & 0xff) >= kDropThreshold;
}
inline constexpr std::uint64_t kDropoutSeed = 0x5eed;

/// The rate is large, so that a check sees the step beside the parameter.
struct AdamRates {
  double rate = 0.05, first = 0.9, second = 0.95, epsilon = 1e-8, decay = 0.1;
  double first_correction = 1 / (1 - 0.9), second_correction = 1 / (1 - 0.95);  // of the first step
};
template <class T>
struct AdamState {
  T parameter, momentum, variance;
};
/// The direction of a step, before the rate; updates momentum and variance.
template <class T>
ORRERY_BOTH T adam_direction(AdamState<T>& s, T gradient, const AdamRates& r) {
  s.momentum = T(r.first) * s.momentum + T(1 - r.first) * gradient;
  s.variance = T(r.second) * s.variance + T(1 - r.second) * gradient * gradient;
  const T m = s.momentum * T(r.first_correction), v = s.variance * T(r.second_correction);
  return m / (T(sqrt(v)) + T(r.epsilon)) + T(r.decay) * s.parameter;
}

}  // namespace orrery::calibration::gpu
