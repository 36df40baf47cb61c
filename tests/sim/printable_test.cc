// Which characters would a terminal obey?
#include "sim/printable.h"

#include "sim/error.h"
#include "tests/catch.h"

using namespace orrery::sim;

TEST_CASE("text, also in other scripts, stays; what a terminal obeys goes") {
  for (const char* text : {"", "plain text", "tab\tand\nline\r\n", "\xc2\xb5s \xce\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
                           "\xe2\x80\x93 dash", "\xef\xbb\xbfmarked"})
    CHECK(printable(text) == text);
  CHECK(printable("a\x1b[31mb") == "a[31mb");
  CHECK(printable("a\xc2\x9b"
                  "31mb") == "a31mb");  // C1: control sequence introducer
  CHECK(printable("a\xc2\x85"
                  "b") == "ab");  // C1: next line
  CHECK(printable("a\xe2\x80\xae"
                  "b") == "ab");  // right-to-left override
  CHECK(printable("a\xe2\x81\xa6"
                  "b\xe2\x81\xa9") == "ab");  // isolates
  CHECK(printable("a\xe2\x80\x8f"
                  "b\xd8\x9c") == "ab");  // marks
  CHECK(printable("a\xe2\x80\xa8"
                  "b") == "ab");  // line separator
  CHECK(printable("a\x9b"
                  "b\xff\xc0\xaf") == "ab");  // no UTF-8
  CHECK(printable("a\x7f") == "a");
  CHECK(printable("cut \xe2\x80") == "cut ");
}

TEST_CASE("text is printable if nothing of it goes") {
  for (const char* text :
       {"", "plain text ~", "tab\tand\nline\r\n", "\xc2\xb5s \xf0\x9f\x98\x80", "a\x1b[31mb", "a\x7f", "\x01",
        "a\xc2\x85", "cut \xe2\x80", "a\xff", "\xe2\x80\xa8", "\xef\xbb\xbfmarked", "not first \xef\xbb\xbf"})
    CHECK(is_printable(text) == (printable(text) == text));
  CHECK_FALSE(is_printable(std::string("a\0b", 3)));
}

TEST_CASE("messages are one line of such text, cut at a character") {
  CHECK(std::string(UserError("a\nb\x1b\xc2\x9b\xe2\x80\xae"
                              "c")
                        .what()) == "a bc");
  std::string micro;
  for (int i = 0; i < 400; ++i) micro += "\xc2\xb5";
  const std::string message = UserError("x" + micro).what();
  CHECK(message.ends_with("\xc2\xb5..."));
  CHECK(message.size() <= 603);
  CHECK(printable(message) == message);
}
