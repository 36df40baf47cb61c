// Writes and reads packed documents. Left out: checks of texts, which were made when they were parsed.
#include "sim/packed_settings.h"

#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "sim/packing.h"
#include "sim/settings_children.h"

namespace orrery::sim {

namespace {

constexpr std::uint64_t kQuoted = 4, kNumbers = 8;  // beside Settings::Kind

/// The items of a list as numbers, one behind the other; empty where one of them is none.
std::string bytes_of_numbers(const Settings& list) {
  std::string bytes;
  for (const Settings& item : list.items()) {
    try {
      const double number = item.as_number();
      bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    } catch (const UserError&) {
      return {};
    }
  }
  return bytes;
}

void pack_node(const Settings& node, std::uint64_t flags, int& line, Packing& out) {
  out.number(static_cast<std::uint64_t>(node.kind()) | flags);
  out.difference(node.place().line - line);
  out.number(static_cast<std::uint64_t>(node.place().column));
  line = node.place().line;
}

}  // namespace

/// Goes through a document's nodes; what knows how Settings lie in memory.
class Unpacking {
 public:
  Unpacking(std::string_view bytes, const FileName& file, std::string_view checked_as)
      : in_(bytes), file_(file), checked_as_(checked_as) {}

  static void pack(const Settings& node, int& line, Packing& out) {
    const std::string numbers = node.is_sequence() ? bytes_of_numbers(node) : "";
    pack_node(node, (node.quoted_ ? kQuoted : 0) | (numbers.empty() ? 0 : kNumbers), line, out);
    if (node.is_scalar()) out.text(node.text_);
    if (node.is_sequence()) {
      out.number(node.items().size());
      Packing items;
      int within = line;  // what follows a list of numbers knows nothing of their lines
      for (const Settings& item : node.items()) pack(item, numbers.empty() ? line : within, items);
      const std::string bytes = items.take();
      if (!numbers.empty()) out.number(bytes.size());
      out.append(bytes);
      out.append(numbers);
    }
    if (node.is_mapping()) {
      out.number(node.members().size());
      for (const auto& [key, value] : node.members()) {
        out.text(key);
        pack(value, line, out);
      }
    }
  }

  /// Makes the items of a list of numbers.
  static void make(const Settings& list) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    Settings::Children& children = *list.children_;
    const char* unmade = children.unmade.load(std::memory_order_relaxed);
    if (unmade == nullptr) return;  // somebody else was faster
    const auto [count, numbers] = packed_numbers(unmade);
    Unpacked head({unmade, static_cast<std::size_t>(numbers - unmade)});
    head.number();
    const std::size_t size = head.number();
    Unpacking one({head.at(), size}, list.place_.file, children.checked_as);
    one.line_ = list.place_.line;
    one.path_ = list.path_;
    one.items(children, count);
    SIM_CHECK(one.in_.done(), "a packed list of {} goes on behind its end", list.place_.file.text());
    children.unmade.store(nullptr, std::memory_order_release);
  }

  Settings document() {
    Settings root;
    node(root, true);
    SIM_CHECK(in_.done(), "a packed document of {} goes on behind its end", file_.text());
    return root;
  }

 private:
  /// `path_` is where the node lies. `keeps`: it has a path of its own, as all but plain items of a list.
  void node(Settings& into, bool keeps) {
    const std::uint64_t head = in_.number();
    SIM_CHECK(head < 2 * kNumbers, "a packed document of {} has a node of kind {}", file_.text(), head);
    into.kind_ = static_cast<Settings::Kind>(head % kQuoted);
    into.quoted_ = (head & kQuoted) != 0;
    into.place_.file = file_;
    into.place_.line = line_ += static_cast<int>(in_.difference());
    into.place_.column = static_cast<int>(in_.number());
    if (into.kind_ == Settings::Kind::scalar) into.text_ = in_.text();
    if (keeps) into.path_ = path_;
    const char* body = in_.at();
    const std::size_t count = into.kind_ >= Settings::Kind::sequence ? in_.number() : 0;
    if (count == 0) return;
    into.children_ = std::make_shared<Settings::Children>();
    into.children_->checked_as = checked_as_;
    if ((head & kNumbers) != 0) {
      in_.skip(in_.number());
      in_.skip(count * sizeof(double));
      into.children_->unmade.store(body, std::memory_order_relaxed);
      return;
    }
    into.kind_ == Settings::Kind::sequence ? items(*into.children_, count) : members(*into.children_, count);
  }

  void items(Settings::Children& children, std::size_t count) {
    children.path = std::make_shared<const std::string>(path_);
    children.items.reserve(count);
    const std::size_t above = path_.size();
    for (std::size_t i = 0; i < count; ++i) {
      Settings& item = children.items.emplace_back();
      // A list or a mapping has a path of its own, unless it holds nothing.
      const bool keeps = in_.peek() % kQuoted >= static_cast<unsigned>(Settings::Kind::sequence);
      if (keeps) {
        path_ += '[';
        path_ += fmt::format_int(i).c_str();
        path_ += ']';
      }
      node(item, keeps);
      if (keeps) path_.resize(above);
      if (item.children_ != nullptr) continue;
      item.path_.clear();
      item.list_ = children.path;
      item.item_ = static_cast<std::uint32_t>(i);
    }
  }

  void members(Settings::Children& children, std::size_t count) {
    children.members.reserve(count);
    const std::size_t above = path_.size();
    for (std::size_t i = 0; i < count; ++i) {
      auto& [key, value] = children.members.emplace_back();
      key = in_.text();
      if (above > 0 && !key.starts_with('[')) path_ += '.';
      path_ += key;
      node(value, true);
      path_.resize(above);
    }
  }

  Unpacked in_;
  const FileName& file_;
  std::string_view checked_as_;
  int line_ = 0;
  std::string path_;  // of the node that is read
};

std::string packed(const Settings& document) {
  Packing out;
  int line = 0;
  Unpacking::pack(document, line, out);
  return out.take();
}

Settings unpacked(std::string_view bytes, const FileName& file, std::string_view checked_as) {
  return Unpacking(bytes, file, checked_as).document();
}

void make_items(const Settings& list) { Unpacking::make(list); }

std::pair<std::size_t, const char*> packed_numbers(const char* unmade) {
  constexpr std::size_t kTwoNumbers = 20;  // bytes, at most; its numbers lie behind
  Unpacked head({unmade, kTwoNumbers});
  const std::size_t count = head.number(), size = head.number();
  return {count, head.at() + size};
}

}  // namespace orrery::sim
