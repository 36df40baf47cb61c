// What people call what the language has a name for: tp, zero3, fsdp, float16, h100, megatron. The command line takes
// them; files are read as they are written, so that what is kept has one spelling.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::scenarios {

/// A key by its own path, by a word of the field, or by its last part where one key alone ends so; else as it is.
std::string key_meant(const std::string& word);
/// A value of `key`, as `zero3` of parallelism.sharding; else as it is.
std::string value_meant(const std::string& key, const std::string& value);
/// The key that a word of the field is a value of, as parallelism.sharding for fsdp; empty: none.
std::string key_of_value(const std::string& word);

/// Of the names of a shelf (library.h), the one that a word is short for: what it usually means, or the only one of
/// which it is a part, between hyphens. Empty: none. `several`: those that it may be short for, where they are more.
std::string name_meant(std::string_view kind, const std::string& word, const std::vector<std::string>& names,
                       std::vector<std::string>* several = nullptr);

/// The document of a shelf that a name without one of its own stands for, as nemo-26.06 for nemo-26.08; else empty.
std::string other_name_of(std::string_view kind, const std::string& name);

/// Those of `names` that a mistyped or half-typed word may stand for: of which a part begins with it, else the nearest,
/// else of which a part begins with the word's begin.
std::vector<std::string> names_near(const std::string& word, const std::vector<std::string>& names);
/// The first eight, and how many more there are.
std::string names_text(const std::vector<std::string>& names);
/// As the end of a complaint: "; did you mean \"X\"?", "; expected one of X, Y"; empty: nothing is near.
std::string near_text(const std::vector<std::string>& near);
/// What a key without dots that the language does not know may stand for, as parallelism.tensor for tensr; else empty.
std::string key_near(const std::string& word);

}  // namespace orrery::scenarios
