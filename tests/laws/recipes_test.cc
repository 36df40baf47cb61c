// Who reads which part of the recipes: the files that its document names, and no other. A part that more files read
// than one room's is a sign that what it says is not said in its lines.
#include <algorithm>
#include <set>
#include <string>

#include "calibration/framework/recipe.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/laws/code.h"
#include "tests/laws/tree.h"

using namespace orrery;

TEST_CASE("each part of the recipes is read by the files that it names", "[tree]") {
  const std::vector<laws::SourceFile> files = laws::source_files();
  for (std::size_t i = 0; i < calibration::kRecipeParts; ++i) {
    const std::string part(calibration::name_of(static_cast<calibration::RecipePart>(i)));
    std::string enumerator = "RecipePart::" + part;
    std::replace(enumerator.begin(), enumerator.end(), '-', '_');
    INFO(part);
    const sim::Settings document =
        scenarios::read_yaml(scenarios::data_directory() + "/calibration/recipes/" + part + ".yaml");
    std::set<std::string> named, reading;
    for (const sim::Settings& file : document.at("read_by").items()) named.insert(file.text());
    for (const laws::SourceFile& file : files) {
      const bool reads = file.is_code() && file.room() != "tests" && !file.path.starts_with("calibration/recipe.") &&
                         laws::code_of(file.text).find(enumerator) != std::string::npos;
      if (reads) reading.insert(file.path);
    }
    CHECK(reading == named);
  }
}
