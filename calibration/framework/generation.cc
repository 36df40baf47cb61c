// Features first, as lists of names over the whole chain; then keys, document by document. See generation.h.
#include "calibration/framework/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibration/framework/software.h"
#include "sim/error.h"

namespace orrery::calibration {

using sim::Settings;

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A value as it is written in one line.
std::string written(const Settings& value) {
  if (!value.is_sequence()) return value.text();
  std::vector<std::string> items;
  for (const Settings& item : value.items()) items.push_back(item.text());
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void flatten(const Settings& keys, const std::string& above, std::vector<std::pair<std::string, Settings>>& flat) {
  for (const auto& [name, value] : keys.members()) {
    const std::string key = above + name;
    if (!is_block(key)) {
      flat.emplace_back(key, value);
      continue;
    }
    if (!value.is_mapping())
      value.expected(key == "recipe" ? "parts and their variants, as in {rotary: fused}"
                                     : "a mapping of keys and values");
    flatten(value, key + ".", flat);
  }
}

/// Keys and values, those of blocks as recipe.<part>.
std::vector<std::pair<std::string, Settings>> flat_keys(const Settings& keys) {
  std::vector<std::pair<std::string, Settings>> flat;
  flatten(keys, "", flat);
  return flat;
}

void put_at(Settings& document, const std::string& key, const Settings& value) {
  key.find('.') != std::string::npos ? document.set_path(key, value) : document.set(key, value);
}

/// What a feature sets, as a generation's document holds it, where keys of blocks may be written as recipe.<part>.
Settings nested(const Settings& keys) {
  Settings whole = Settings::mapping(keys.place(), keys.path());
  for (const auto& [key, value] : flat_keys(with_present_keys(keys))) put_at(whole, key, value);
  return whole;
}

/// Keys as they are written, without the blocks that they stand in.
Settings flattened(const Settings& keys) {
  Settings flat = Settings::mapping(keys.place(), keys.path());
  for (const auto& [key, value] : flat_keys(keys)) flat.set(key, value);
  return flat;
}

/// The same. Throws UserError for names that are not `known`, and for values that are not theirs.
Settings checked(const Settings& keys, const std::vector<std::string>& known) {
  if (!keys.is_mapping()) keys.expected("a mapping of keys and values");
  const Settings whole = nested(keys);
  refuse_other_keys(flattened(with_present_keys(keys)), known);
  software_keys().check(whole);
  return whole;
}

/// The items of a list of names, or of none.
std::vector<Settings> list_of(const Settings& document, std::string_view key) {
  const Settings* list = document.find(key);
  if (list == nullptr) return {};
  if (!list->is_sequence()) list->fail("expected a list of features, as in [flash-attention]");
  return list->items();
}

struct Active {
  Feature feature;
  Settings reference;  // where it is listed
  std::size_t document = 0;
  bool overrides(const Active& other) const { return contains(feature.overrides, other.feature.name); }
};

class Resolver {
 public:
  Resolver(const std::vector<WrittenGeneration>& chain, const Lookup& feature, const Lookup& collectives)
      : chain_(chain), feature_(feature), collectives_(collectives) {
    out_.document = Settings::mapping(chain.empty() ? sim::Place{} : chain.front().document.place());
  }

  Generation resolve() {
    for (std::size_t i = chain_.size(); i-- > 0;) {
      const std::vector<std::string> dropped = drop_features(chain_[i].document);
      add_features(i, dropped);
    }
    refuse_contradictions();
    for (const Feature& feature : dropped_)
      put_all(feature.absent, KeySource::Kind::absent, feature.name, chain_.size());
    for (std::size_t i = chain_.size(); i-- > 0;) put_document(i);
    for (const Active& one : active_)
      out_.features.push_back({one.feature.name, one.feature.meaning, chain_[one.document].name});
    return std::move(out_);
  }

 private:
  auto find_active(const std::string& name) {
    return std::find_if(active_.begin(), active_.end(), [&](const Active& one) { return one.feature.name == name; });
  }

  /// The names of those that the document goes without.
  std::vector<std::string> drop_features(const Settings& document) {
    std::vector<std::string> names;
    for (const Settings& reference : list_of(document, "without")) {
      Feature feature = read_feature(feature_(reference));
      const auto at = find_active(feature.name);
      if (at != active_.end())
        active_.erase(at);
      else if (feature.absent.is_null())
        refuse_idle(reference);
      names.push_back(feature.name);
      dropped_.push_back(std::move(feature));
    }
    return names;
  }

  /// What is not there cannot be dropped, unless its absence says something.
  [[noreturn]] void refuse_idle(const Settings& reference) const {
    std::vector<std::string> names;
    for (const Active& one : active_) names.push_back(one.feature.name);
    const std::string nearest = sim::nearest_word(reference.text(), names);
    reference.fail(
        fmt::format("got \"{}\", which is not inherited{}", reference.text(),
                    nearest.empty() ? ", expected one that is" : fmt::format("; did you mean \"{}\"?", nearest)));
  }

  void add_features(std::size_t document, const std::vector<std::string>& dropped) {
    for (const Settings& reference : list_of(chain_[document].document, "features")) {
      Active one{read_feature(feature_(reference)), reference, document};
      const std::string& name = one.feature.name;
      if (contains(dropped, name))
        reference.fail(fmt::format("got \"{}\", which `without` lists too, expected once", name));
      if (const auto at = find_active(name); at != active_.end()) {
        if (at->document == document) reference.fail(fmt::format("got \"{}\" twice, expected once", name));
        active_.erase(at);
      }
      active_.push_back(std::move(one));
    }
  }

  void refuse_contradictions() const {
    for (std::size_t b = 0; b < active_.size(); ++b) {
      const std::vector<std::pair<std::string, Settings>> keys = flat_keys(active_[b].feature.sets);
      for (std::size_t a = 0; a < b; ++a) {
        if (active_[a].overrides(active_[b]) != active_[b].overrides(active_[a])) continue;
        for (const auto& [key, value] : keys) {
          const Settings* other = active_[a].feature.sets.find_path(key);
          if (other != nullptr && written(*other) != written(value)) refuse(active_[a], active_[b], key);
        }
      }
    }
  }

  [[noreturn]] void refuse(const Active& a, const Active& b, const std::string& key) const {
    const Active& nearer = a.document < b.document ? a : b;
    const Active& other = &nearer == &a ? b : a;
    nearer.reference.fail(
        fmt::format("got \"{0}\", which sets {1} to {2} where \"{3}\" sets it to {4}, expected `without: [{3}]`, or "
                    "`overrides` in one of their files",
                    nearer.feature.name, key, written(*nearer.feature.sets.find_path(key)), other.feature.name,
                    written(*other.feature.sets.find_path(key))));
  }

  void put(const std::string& key, const Settings& value, KeySource::Kind kind, const std::string& name,
           std::size_t document) {
    put_at(out_.document, key, value);
    const auto same = [&](const KeySource& source) { return source.key == key; };
    std::erase_if(out_.sources, same);
    out_.sources.push_back({key, kind, name, document});
  }

  void put_all(const Settings& keys, KeySource::Kind kind, const std::string& name, std::size_t document) {
    for (const auto& [key, value] : flat_keys(keys)) put(key, value, kind, name, document);
  }

  void put_feature(const Active& one) {
    for (const auto& [key, value] : flat_keys(one.feature.sets)) {
      const bool gives_way = std::any_of(active_.begin(), active_.end(), [&, &name = key](const Active& other) {
        return other.overrides(one) && other.feature.sets.find_path(name) != nullptr;
      });
      if (!gives_way) put(key, value, KeySource::Kind::feature, one.feature.name, one.document);
    }
  }

  void put_library(const Settings& reference, std::size_t document) {
    const Settings library = collectives_(reference);
    std::vector<std::string> known{"name", "meaning", "source"};
    const std::vector<std::string>& keys = keys_of(SoftwareBlock::collectives);
    known.insert(known.end(), keys.begin(), keys.end());
    library.refuse_unknown(known);
    for (const auto& [key, value] : library.members()) {
      if (contains(keys, key)) put(key, value, KeySource::Kind::collectives, library.get_text("name", ""), document);
    }
  }

  /// Numbers that were fitted, which may stand nowhere else in their document.
  static Settings fitted_in(const Settings& document, const Settings& others) {
    const Settings* keys = document.find("fitted");
    if (keys == nullptr) return {};
    Settings fitted = flattened(*keys);
    refuse_other_keys(fitted, keys_of(SoftwareBlock::fitted));
    for (const auto& [key, value] : fitted.members()) {
      const Settings* again = others.find(key);
      if (again != nullptr) value.fail(fmt::format("given twice, first in line {}", again->place().line));
    }
    return fitted;
  }

  void put_document(std::size_t i) {
    const Settings document = with_present_keys(chain_[i].document);
    const std::string& name = chain_[i].name;
    if (const Settings* library = document.find("collectives")) put_library(*library, i);
    for (const Active& one : active_) {
      if (one.document == i) put_feature(one);
    }
    Settings rest = Settings::mapping(document.place());
    for (const auto& [key, value] : document.members()) {
      if (key != "recipe" && is_block(key)) value.refuse_unknown(software_keys().names_below(key));
      if (key == "name" || key == "provenance" || key == "facts" || key == "offers")
        out_.document.set(key, value);
      else if (key == "adapters")
        out_.adapters = value;
      else if (key != "features" && key != "without" && key != "collectives" && key != "fitted")
        rest.set(key, value);
    }
    const Settings flat = flattened(rest), fitted = fitted_in(document, flat);
    put_all(flat, KeySource::Kind::generation, name, i);
    if (!fitted.is_null()) put_all(fitted, KeySource::Kind::fitted, name, i);
  }

  const std::vector<WrittenGeneration>& chain_;
  const Lookup& feature_;
  const Lookup& collectives_;
  std::vector<Active> active_;
  std::vector<Feature> dropped_;
  Generation out_;
};

}  // namespace

Feature read_feature(const Settings& document) {
  const bool right = document.checked_as() == kCheckedFeature;
  if (!right) document.refuse_unknown({"name", "meaning", "source", "overrides", "sets", "absent"});
  Feature feature;
  feature.name = document.at("name").text();
  feature.meaning = document.get_text("meaning", "");
  const Settings& sets = document.at("sets");
  feature.sets = right ? nested(sets) : checked(sets, keys_of(SoftwareBlock::all));
  if (feature.sets.members().empty()) document.at("sets").fail("sets nothing, expected a key and its value");
  for (const Settings& other : list_of(document, "overrides")) feature.overrides.push_back(other.text());
  if (const Settings* absent = document.find("absent")) {
    std::vector<std::string> own;
    for (const auto& [key, value] : flat_keys(feature.sets)) own.push_back(key);
    feature.absent = right ? nested(*absent) : checked(*absent, own);
  }
  return feature;
}

std::string text(const KeySource& source) {
  const std::string whole = source.name.empty() ? "the scenario" : source.name;
  switch (source.kind) {
    case KeySource::Kind::absent:
      return "without " + whole;
    case KeySource::Kind::feature:
      return "feature " + whole;
    case KeySource::Kind::fitted:
      return "fitted, " + whole;
    case KeySource::Kind::collectives:
    case KeySource::Kind::generation:
      break;
  }
  return whole;
}

const KeySource* Generation::source_of(std::string_view key) const {
  const auto at = std::find_if(sources.begin(), sources.end(), [&](const KeySource& s) { return s.key == key; });
  return at != sources.end() ? &*at : nullptr;
}

Generation resolve_generation(const std::vector<WrittenGeneration>& chain, const Lookup& feature,
                              const Lookup& collectives) {
  return Resolver(chain, feature, collectives).resolve();
}

}  // namespace orrery::calibration
