// The tensors of a case, in as many sets as it takes for a round of launches to find nothing of its own in the L2
// cache. Inputs are random but known: the host makes any element again from (seed, index), rounded as it is stored.
#pragma once

#include <cstdint>
#include <vector>

#include "calibration/kernels/device_state.h"
#include "calibration/kernels/launches.h"

namespace orrery::calibration::gpu {

/// How an element is stored.
enum class Storage : std::int32_t { bf16, fp16, fp32, e4m3, e5m2, int32, byte, e4m3_fnuz, e5m2_fnuz, e2m1 };
/// Bytes of so many elements; two of e2m1 share a byte.
std::int64_t bytes_of(Storage s, std::int64_t count);
int width_of(Storage s);  // not of e2m1
/// FNUZ: fp8 as AMD's gfx94x has it.
enum class Fp8 { ocp, fnuz };
Fp8 fp8_of(const Device& device);
Storage storage_of(CaseType t, Fp8 fp8 = Fp8::ocp);

enum class Role { input, output, scratch };

struct Tensor {
  Storage storage = Storage::bf16;
  std::int64_t count = 0;
  Role role = Role::input;
  Fill fill = Fill::normal;
  double scale = 1;  // of normal and square; limit of an index
  std::size_t offset = 0;
};

class Buffers {
 public:
  /// Returns the number that the other calls take.
  int add(const Tensor& tensor);
  int input(Storage storage, std::int64_t count, double scale = 1, Fill fill = Fill::normal);
  int output(Storage storage, std::int64_t count);
  int scratch(Storage storage, std::int64_t count);

  /// Allocates enough sets to go past the L2 cache (as memory allows, one at least) and fills the inputs. Throws
  /// Failure with out_of_memory.
  void allocate(Device& device);
  int sets() const { return sets_; }
  const Tensor& tensor(int number) const { return tensors_[static_cast<std::size_t>(number)]; }

  template <class T>
  T* at(int number, int set) const {
    return reinterpret_cast<T*>(static_cast<char*>(memory_.data()) + static_cast<std::size_t>(set) * set_bytes_ +
                                tensor(number).offset);
  }

  /// An element of an input of set 0, as stored.
  double value(int number, std::int64_t index) const;
  /// Elements [first, first + count) of set 0.
  std::vector<double> read(int number, std::int64_t first, std::int64_t count) const;
  /// One element of each of `rows` rows of `columns`.
  std::vector<double> read_column(int number, std::int64_t rows, std::int64_t columns, std::int64_t column) const;
  /// Fills the outputs of set 0 with a value that no kernel writes.
  void poison(Device& device) const;
  /// How many elements of the outputs of set 0 still hold it.
  std::uint64_t unwritten(Device& device) const;

 private:
  std::vector<Tensor> tensors_;
  std::size_t set_bytes_ = 0;
  int sets_ = 0;
  Memory memory_;
};

/// Sums of squares of a difference and of the reference.
class Difference {
 public:
  void add(double measured, double reference) {
    const double d = measured - reference;
    difference_ += d * d;
    reference_ += reference * reference;
  }
  /// Infinite where nothing or only zeros were compared, or where a NaN was.
  double relative() const;

 private:
  double difference_ = 0, reference_ = 0;
};

}  // namespace orrery::calibration::gpu
