// Files of others, as the page receives them: by their text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace orrery::tools {

/// {"yaml": the scenario with remarks above it}. `form`: hf, megatron or nemo; `file`: its name, for messages. Throws
/// sim::UserError as the importers do, and for another form.
nlohmann::ordered_json draft_json(const std::string& form, const std::string& text, const std::string& file);

}  // namespace orrery::tools
