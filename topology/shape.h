// What one kind of fabric alone has, as a value whose type only its own file knows.
#pragma once

#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "sim/error.h"

namespace orrery::topology {

/// Any comparable value, or none. Copies share it, as it never changes.
class FabricShape {
 public:
  FabricShape() = default;
  template <class T>
  requires(!std::is_same_v<T, FabricShape>) explicit FabricShape(T value)
      : value_(std::make_shared<const T>(std::move(value))),
        type_(&typeid(T)),
        equal_([](const void* a, const void* b) { return *static_cast<const T*>(a) == *static_cast<const T*>(b); }) {}

  /// The value, which is a T.
  template <class T>
  const T& as() const {
    SIM_CHECK(type_ != nullptr && *type_ == typeid(T), "a fabric has another kind's shape");
    return *static_cast<const T*>(value_.get());
  }
  bool operator==(const FabricShape& other) const {
    if (value_ == other.value_) return true;
    return value_ != nullptr && other.value_ != nullptr && *type_ == *other.type_ &&
           equal_(value_.get(), other.value_.get());
  }

 private:
  std::shared_ptr<const void> value_;
  const std::type_info* type_ = nullptr;
  bool (*equal_)(const void*, const void*) = nullptr;
};

}  // namespace orrery::topology
