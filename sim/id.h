// Ids that open only their own table. An id is an index with a type; a Table is a vector that takes no other index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::sim {

enum class LinkId : std::uint32_t {};          // one direction of a physical link, or of a bundle of them
enum class RouteId : std::uint32_t {};         // a weighted set of links that one transfer loads
enum class ProgramId : std::uint32_t {};       // the operation list of one pipeline stage
enum class InstanceId : std::uint32_t {};      // one rank (or one class of ranks) that runs a program
enum class CommunicatorId : std::uint32_t {};  // the instances that meet in a collective or a send/receive pair

template <class Id>
constexpr std::uint32_t index(Id id) {
  return static_cast<std::uint32_t>(id);
}

template <class Id, class T>
class Table {
 public:
  Table() = default;
  explicit Table(std::size_t n, T value = T{}) : rows_(n, value) {}
  Id push_back(T value) {
    rows_.push_back(std::move(value));
    return Id{static_cast<std::uint32_t>(rows_.size() - 1)};
  }
  decltype(auto) operator[](Id id) { return rows_[index(id)]; }
  decltype(auto) operator[](Id id) const { return rows_[index(id)]; }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  void reserve(std::size_t n) { rows_.reserve(n); }
  void resize(std::size_t n, T value = T{}) { rows_.resize(n, value); }
  auto begin() { return rows_.begin(); }
  auto end() { return rows_.end(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  std::vector<T>& rows() { return rows_; }
  const std::vector<T>& rows() const { return rows_; }

 private:
  std::vector<T> rows_;
};

}  // namespace orrery::sim
