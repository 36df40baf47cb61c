// Does --vary mean what it says: lists, ranges, the order of the product, and a refusal for what it cannot mean?
#include "tools/study/variation.h"

#include "sim/error.h"
#include "tests/catch.h"

using namespace orrery;
using tools::parse_variation;
using tools::Product;
using Texts = std::vector<std::string>;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_variation(text);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("values are a list, and commas within brackets and quotes are their own") {
  CHECK(parse_variation("parallelism.tensor=4,8").texts == Texts{"4", "8"});
  CHECK(parse_variation("parallelism.tensor= 4 , 8 ").texts == Texts{"4", "8"});
  CHECK(parse_variation("overlap={tensor: true, pipeline: false},true").texts ==
        Texts{"{tensor: true, pipeline: false}", "true"});
  CHECK(parse_variation("name='a,b',c").texts == Texts{"'a,b'", "c"});
  CHECK(parse_variation("cluster.fabric.nic_rate=100 Gb/s,400 Gb/s").texts == Texts{"100 Gb/s", "400 Gb/s"});
}

TEST_CASE("ranges multiply, or add with a plus") {
  CHECK(parse_variation("batch.micro=1:8:2").texts == Texts{"1", "2", "4", "8"});
  CHECK(parse_variation("batch.micro=1:7:2").texts == Texts{"1", "2", "4"});
  CHECK(parse_variation("batch.micro=2:8:+3").texts == Texts{"2", "5", "8"});
  CHECK(parse_variation("batch.micro=1,4:16:2,3").texts == Texts{"1", "4", "8", "16", "3"});
  // Steps that no binary fraction holds still reach the end.
  CHECK(parse_variation("perturb.jitter.sigma=0.1:0.3:+0.1").texts.size() == 3);
}

TEST_CASE("a list in brackets is the values where the key takes none, and two numbers with a hyphen are no value") {
  CHECK(parse_variation("parallelism.tensor=[2,4,8]").texts == Texts{"2", "4", "8"});
  CHECK(parse_variation("tp=[2,4]").key == "parallelism.tensor");
  CHECK(parse_variation("software.without=[cuda-graphs]").texts == Texts{"[cuda-graphs]"});  // takes a list
  const std::string hyphen = refusal("parallelism.tensor=2-8");
  CHECK(hyphen.find("2:8:2") != std::string::npos);
  CHECK(hyphen.find("2:8:+1") != std::string::npos);
}

TEST_CASE("what --vary cannot mean is refused, with what was expected") {
  CHECK(refusal("parallelism.tensr=4").find("parallelism.tensor") != std::string::npos);
  CHECK(refusal("zzzzzzzz=4").find("no such key") != std::string::npos);
  for (const char* text : {"parallelism.tensor", "=4", "parallelism.tensor=", "parallelism.tensor=4,,8",
                           "parallelism.tensor=4,4", "batch.micro=8:1:2", "batch.micro=1:8:1", "batch.micro=0:8:2",
                           "batch.micro=1:8:+0", "batch.micro=1:1000000000:+1", "parallelism.tensor=[4"}) {
    INFO(text);
    CHECK(refusal(text).starts_with("--vary"));
  }
}

TEST_CASE("a product counts its points with the first key slowest") {
  const Product product({parse_variation("parallelism.tensor=1,2"), parse_variation("batch.micro=1,2,4")}, 6);
  REQUIRE(product.size() == 6);
  CHECK(product.texts(0) == Texts{"1", "1"});
  CHECK(product.texts(1) == Texts{"1", "2"});
  CHECK(product.texts(3) == Texts{"2", "1"});
  CHECK(product.texts(5) == Texts{"2", "4"});
  sim::Settings document = scenarios::parse_yaml("batch: {global: 8}", "d.yaml");
  product.apply(4, document);
  CHECK(document.at("parallelism").at("tensor").text() == "2");
  CHECK(document.at("batch").at("micro").text() == "2");
  CHECK(document.at("batch").at("global").text() == "8");
  CHECK_THROWS_AS(Product({parse_variation("batch.micro=1:8:2")}, 3), sim::UserError);
  CHECK_THROWS_AS(Product({}, 3), sim::UserError);
  CHECK_THROWS_AS(Product({parse_variation("batch.micro=1"), parse_variation("batch.micro=2")}, 9), sim::UserError);
  // A thousand values seven times over are more than any machine counts through, and more than 64 bits hold.
  tools::Variation many = parse_variation("batch.micro=1:1000:+1");
  std::vector<tools::Variation> seven;
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    many.key = key;
    seven.push_back(many);
  }
  CHECK_THROWS_WITH(Product(seven, 1'000'000'000), ContainsSubstring("1e+21"));
}
