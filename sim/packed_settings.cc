// Writes and reads packed documents. Left out: checks of texts, which were made when they were parsed.
#include "sim/packed_settings.h"

#include <cstdint>
#include <utility>

#include "sim/packing.h"
#include "sim/settings_children.h"

namespace orrery::sim {

namespace {

constexpr std::uint64_t kQuoted = 4;  // beside Settings::Kind

void pack_node(const Settings& node, bool quoted, int& line, Packing& out) {
  out.number(static_cast<std::uint64_t>(node.kind()) | (quoted ? kQuoted : 0));
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
    pack_node(node, node.quoted_, line, out);
    if (node.is_scalar()) out.text(node.text_);
    if (node.is_sequence()) {
      out.number(node.items().size());
      for (const Settings& item : node.items()) pack(item, line, out);
    }
    if (node.is_mapping()) {
      out.number(node.members().size());
      for (const auto& [key, value] : node.members()) {
        out.text(key);
        pack(value, line, out);
      }
    }
  }

  Settings document() {
    Settings root;
    node(root, {});
    SIM_CHECK(in_.done(), "a packed document of {} goes on behind its end", file_.text());
    return root;
  }

 private:
  /// `path`: where the node lies; of a plain item of a list, which has the list's, empty.
  void node(Settings& into, std::string path) {
    const std::uint64_t head = in_.number();
    SIM_CHECK(head < 2 * kQuoted, "a packed document of {} has a node of kind {}", file_.text(), head);
    into.kind_ = static_cast<Settings::Kind>(head % kQuoted);
    into.quoted_ = head >= kQuoted;
    into.place_.file = file_;
    into.place_.line = line_ += static_cast<int>(in_.difference());
    into.place_.column = static_cast<int>(in_.number());
    if (into.kind_ == Settings::Kind::scalar) into.text_ = in_.text();
    into.path_ = std::move(path);
    const std::size_t count = into.kind_ >= Settings::Kind::sequence ? in_.number() : 0;
    if (count == 0) return;
    into.children_ = std::make_shared<Settings::Children>();
    into.children_->checked_as = checked_as_;
    into.kind_ == Settings::Kind::sequence ? items(into, count) : members(into, count);
  }

  void items(Settings& list, std::size_t count) {
    Settings::Children& children = *list.children_;
    children.path = std::make_shared<const std::string>(list.path_);
    children.items.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      Settings& item = children.items.emplace_back();
      // A list or a mapping has a path of its own, unless it holds nothing.
      node(item, in_.peek() % kQuoted >= static_cast<unsigned>(Settings::Kind::sequence) ? list.path_of(i) : "");
      if (item.children_ != nullptr) continue;
      item.path_.clear();
      item.list_ = children.path;
      item.item_ = static_cast<std::uint32_t>(i);
    }
  }

  void members(Settings& mapping, std::size_t count) {
    Settings::Children& children = *mapping.children_;
    children.members.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto& [key, value] = children.members.emplace_back();
      key = in_.text();
      std::string path;
      if (mapping.path_.empty())
        path = key;
      else
        path = mapping.path_of(key);
      node(value, std::move(path));
    }
  }

  Unpacked in_;
  const FileName& file_;
  std::string_view checked_as_;
  int line_ = 0;
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

}  // namespace orrery::sim
