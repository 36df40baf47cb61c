// Do packed numbers, documents and tables hold what was put in, and is what ends early told?
#include <limits>
#include <string>
#include <vector>

#include "sim/error.h"
#include "sim/packed_settings.h"
#include "sim/packed_table.h"
#include "sim/packing.h"
#include "tests/catch.h"

using namespace orrery::sim;

TEST_CASE("numbers and texts come back in their order", "[packed]") {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  Packing out;
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, kLargest})
    out.number(value);
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{63}, kLeast}) out.difference(value);
  out.text("");
  out.text(std::string(300, 'x'));
  const std::string bytes = out.take();
  Unpacked in(bytes);
  CHECK(in.number() == 0);
  CHECK(in.peek() == 127);
  CHECK(in.number() == 127);
  CHECK(in.number() == 128);
  CHECK(in.number() == kLargest);
  CHECK(in.difference() == 0);
  CHECK(in.difference() == -1);
  CHECK(in.difference() == 63);
  CHECK(in.difference() == kLeast);
  CHECK(in.text().empty());
  CHECK(in.text() == std::string(300, 'x'));
  CHECK(in.done());
  CHECK_THROWS_AS(in.number(), InternalError);
  Packing text;
  text.text(std::string(300, 'x'));
  const std::string whole = text.take();
  CHECK(Unpacked(whole).text().size() == 300);
  CHECK_THROWS_AS(Unpacked(std::string_view(whole).substr(0, whole.size() - 1)).text(), InternalError);
}

TEST_CASE("texts that differ in a byte have other sums", "[packed]") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 64U}) {
    const std::string text(size, 'a');
    CHECK(sum_of(text) != sum_of(text + 'a'));
    CHECK(sum_of(text) != sum_of(text + '\0'));
    for (std::size_t at = 0; at < size; ++at) {
      std::string other = text;
      other[at] = 'b';
      CHECK(sum_of(text) != sum_of(other));
    }
  }
  CHECK(sum_of("12345678abcdefgh") != sum_of("abcdefgh12345678"));
  const std::string row(24, 'z'), one = "12345678", two = "abcdefgh";
  CHECK(sum_of(one + two + row) != sum_of(two + one + row));  // of those that are summed side by side
}

TEST_CASE("a document comes back with its places and paths", "[packed]") {
  Settings root = Settings::mapping({"f.yaml", 1, 1});
  Settings list = Settings::sequence({"f.yaml", 3, 5});
  list.append(Settings::scalar("1", {"f.yaml", 4, 7}));
  list.append(Settings::scalar("", {"f.yaml", 5, 7}));            // null
  list.append(Settings::scalar("null", {"f.yaml", 6, 7}, true));  // text
  Settings inner = Settings::mapping({"f.yaml", 7, 7});
  inner.set("x", Settings::scalar("y", {"f.yaml", 7, 8}));
  list.append(inner);
  list.append(Settings::mapping({"f.yaml", 8, 7}));  // of nothing
  root.set("a", list);
  root.set("b.c", Settings::scalar("earlier", {"f.yaml", 2, 1}));  // a line above that of the value ahead
  const Settings read = unpacked(packed(root), "g.yaml");
  const Settings& items = read.at("a");
  REQUIRE(items.items().size() == 5);
  CHECK(items.place().line == 3);
  CHECK(items.place().column == 5);
  CHECK(items.place().file.text() == "g.yaml");
  CHECK(items.items()[0].path() == "a[0]");
  CHECK(items.items()[0].as_int() == 1);
  CHECK(items.items()[1].is_null());
  CHECK(items.items()[2].text() == "null");
  CHECK(items.items()[3].at("x").path() == "a[3].x");
  CHECK(items.items()[4].is_mapping());
  CHECK(items.items()[4].path() == "a[4]");
  CHECK(read.members()[1].second.place().line == 2);
  CHECK(packed(read) == packed(root));
  // What is read may be changed as any other.
  Settings changed = read;
  changed.set_path("a", Settings::scalar("z", {}));
  CHECK(changed.at("a").text() == "z");
  CHECK(read.at("a").items().size() == 5);
  const std::string bytes = packed(root);
  CHECK_THROWS_AS(unpacked(bytes.substr(0, bytes.size() - 1), "g.yaml"), InternalError);
  CHECK_THROWS_AS(unpacked(bytes + bytes, "g.yaml"), InternalError);
}

TEST_CASE("a list of numbers is read with its items and without", "[packed]") {
  Settings root = Settings::mapping({"f.yaml", 1, 1});
  Settings list = Settings::sequence({"f.yaml", 2, 3});
  list.append(Settings::scalar("1", {"f.yaml", 2, 4}));
  list.append(Settings::scalar("2.5", {"f.yaml", 3, 4}, true));
  list.append(Settings::scalar("-3e4", {"f.yaml", 5, 4}));
  root.set("a", list);
  list.append(Settings::scalar("4 GB", {"f.yaml", 6, 4}));
  root.set("b", list);
  root.set("c", Settings::scalar("7", {"f.yaml", 7, 1}));
  const std::string bytes = packed(root);
  const std::vector<double> numbers{1, 2.5, -3e4};
  const auto read = [&] { return unpacked(bytes, "f.yaml", "right"); };

  const Settings first = read();
  CHECK(first.at("a").item_count() == 3);
  CHECK(first.at("a").as_numbers() == numbers);
  CHECK(first.at("b").item_count() == 4);
  CHECK_THROWS_AS(first.at("b").as_numbers(), UserError);
  CHECK(first.at("c").place().line == 7);
  const Settings copy = first;
  REQUIRE(copy.at("a").items().size() == 3);
  CHECK(first.at("a").items()[1].text() == "2.5");
  CHECK(first.at("a").items()[2].place().line == 5);
  CHECK(first.at("a").items()[2].path() == "a[2]");
  CHECK(first.at("a").as_numbers() == numbers);
  CHECK(first.at("a").checked_as() == "right");
  CHECK(packed(first) == bytes);

  Settings longer = read().at("a");
  longer.append(Settings::scalar("5", {"f.yaml", 9, 1}));
  CHECK(longer.as_numbers() == std::vector<double>{1, 2.5, -3e4, 5});
  CHECK(longer.items()[3].path() == "a[3]");
  CHECK(longer.checked_as().empty());
  Settings holder = Settings::mapping({"f.yaml", 1, 1});
  holder.set("x", read());
  CHECK(holder.at("x").at("a").item_count() == 3);
  CHECK(holder.at("x").at("a").items()[0].path() == "x.a[0]");
  CHECK(holder.at("x").at("a").as_numbers() == numbers);
}

TEST_CASE("a table's columns are numbers where all cells are", "[packed]") {
  const std::string bytes =
      packed_table({{"id", "x", "y", "x"}, {"a", "1", "0.5", "7"}, {"b", "", "1e19", "-8.25"}, {"a", "3", "", "9"}});
  const PackedTable table(bytes);
  REQUIRE(table.rows() == 3);
  const auto id = table.column("id"), x = table.column("x"), y = table.column("y");
  REQUIRE((id && x && y));
  CHECK_FALSE(table.column("z").has_value());
  CHECK_FALSE(id->numbers);
  CHECK(x->numbers);        // the later of two of this name
  CHECK_FALSE(y->numbers);  // for what is too large is none
  CHECK(table.text(*id, 0) == "a");
  CHECK(table.text(*id, 1) == "b");
  CHECK(table.text(*id, 2).data() == table.text(*id, 0).data());  // once
  CHECK(table.number(*x, 0) == 7);
  CHECK(table.number(*x, 1) == -8.25);
  CHECK(table.text(*y, 1) == "1e19");
  CHECK_THROWS_AS(PackedTable(std::string_view(bytes).substr(0, 30)), InternalError);
  CHECK_THROWS_AS(packed_table({{"a", "b"}, {"1"}}), InternalError);
}
