// Can any text make the loader do anything but load it or refuse it? Shipped scenarios with random bytes changed.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// One to six edits: a byte changed, inserted or taken out, a piece repeated or cut.
std::string mutated(std::string text, std::mt19937_64& random) {
  const std::string favourites = "[]{}:,-#&*!|>'\"%@`?\n\t 0123456789e.~<\\/";
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1)); };
  const std::size_t edits = 1 + below(6);
  for (std::size_t i = 0; i < edits; ++i) {
    const std::size_t at = below(text.size());
    const char byte = below(3) == 0 ? static_cast<char>(below(256)) : favourites[below(favourites.size())];
    switch (below(5)) {
      case 0:
        if (!text.empty()) text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      case 2:
        text.erase(at, 1 + below(3));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      default:
        text.erase(at, below(40));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("random edits of shipped scenarios are loaded or refused") {
  std::mt19937_64 random(20240229);
  std::vector<std::string> texts{small_scenario()};
  for (const std::string& name : shipped("scenarios")) {
    texts.push_back(text_of(std::filesystem::path(data_directory()) / "scenarios" / (name + ".yaml")));
  }
  int refused = 0, loaded = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutated(texts[static_cast<std::size_t>(i) % texts.size()], random);
    INFO("round " << i << "\n" << text);
    std::string error;
    REQUIRE_NOTHROW(error = user_error([&] { load_text(text); }));
    ++(error == "(no error)" ? loaded : refused);
    REQUIRE(error.find('\n') == std::string::npos);
  }
  // Both must happen, or the edits test nothing.
  CHECK(refused > 200);
  CHECK(loaded > 20);
}
