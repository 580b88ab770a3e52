#include "daemon/kernel/compile_key.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "daemon/kernel/launch_options.h"
#include "daemon/kernel/request_resolver.h"
#include "tests/testing/fake_catalog.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

OptionValue ValueFrom(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return {json.get<std::string>()};
  OptionTuple items;
  for (const Json& item : json) items.push_back(ValueFrom(item));
  return {std::move(items)};
}

CompileRequest RequestFrom(const Json& json) {
  CompileRequest request;
  const Json& source = json["source"];
  request.source.kind = *ParseSourceKind(source["kind"].get<std::string>());
  request.source.text = source.contains("text_hex") ? FromHex(source["text_hex"].get<std::string>())
                                                    : source["text"].get<std::string>();
  request.target = {json["target"]["backend"], json["target"]["architecture"],
                    json["target"]["warp_size"]};
  for (const Json& given : json["parameters"]) {
    Parameter& parameter = request.specialization.parameters.emplace_back();
    parameter.name = given["name"];
    parameter.type = given["type"];
    parameter.attributes = given.value("attributes", std::map<std::string, int64_t>());
    if (given.contains("constant")) parameter.constant = ValueFrom(given["constant"]);
  }
  for (const auto& [name, value] : json["launch"].items()) {
    EXPECT_TRUE(SetLaunchParameter(request.launch, name, ValueFrom(value)).ok());
  }
  for (const auto& [name, value] : json["options"].items()) {
    request.options[name] = ValueFrom(value);
  }
  request.ptxas = json.value("ptxas", "");
  const Json headers = json.value("headers", Json::object());
  for (const auto& [name, text] : headers.items()) {
    request.headers.push_back({name, text.get<std::string>()});
  }
  return request;
}

Json ReadVectors() {
  std::ifstream file(KILN_SOURCE_DIR "/tests/vectors/compile_key.json");
  return Json::parse(file);
}

TEST(CompileKey, AgreesWithThePublishedVectors) {
  const Json vectors = ReadVectors();
  EXPECT_EQ(vectors["scheme"], "kiln-key-v1");
  EXPECT_GE(vectors["cases"].size(), 25u);
  for (const Json& vector : vectors["cases"]) {
    SCOPED_TRACE(vector["name"].get<std::string>());
    const CompileRequest request = RequestFrom(vector["request"]);
    const Digest fingerprint =
        *Digest::FromHex(vector["request"]["toolchain_fingerprint"].get<std::string>());
    EXPECT_EQ(CompileKey(request, fingerprint).Hex(), vector["key"]);
    if (vector.contains("encoding")) {
      EXPECT_EQ(ToHex(CanonicalEncoding(request, fingerprint)), vector["encoding"]);
    }
  }
}

// What the properties below are tried on: requests made from a printed seed.
class KeyProperties : public testing::Test {
 protected:
  KeyProperties() : random_(seed_) { RecordProperty("seed", std::to_string(seed_)); }
  void TearDown() override {
    if (HasFailure()) std::cerr << "seed: " << seed_ << "\n";
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  std::string Text() {
    std::string text;
    for (uint64_t i = Below(8); i > 0; --i) text += static_cast<char>('a' + Below(26));
    return text;
  }
  OptionValue Value(int depth = 0) {
    switch (Below(depth < 3 ? 5 : 4)) {
      case 0:
        return {Below(2) == 0};
      case 1:
        return {static_cast<int64_t>(random_())};
      case 2:
        return {static_cast<double>(Below(1000)) / 8};
      case 3:
        return {Text()};
      default: {
        OptionTuple items;
        for (uint64_t i = Below(3); i > 0; --i) items.push_back(Value(depth + 1));
        return {std::move(items)};
      }
    }
  }
  CompileRequest Request() {
    CompileRequest request;
    request.source.text = "module " + Text();
    request.target = {"cuda", "90", 32};
    for (uint64_t i = Below(4); i > 0; --i) {
      Parameter parameter{Text(), Text(), {}, std::nullopt};
      for (uint64_t j = Below(3); j > 0; --j) parameter.attributes["a" + Text()] = random_() % 64;
      if (Below(2) == 0) parameter.constant = Value();
      request.specialization.parameters.push_back(std::move(parameter));
    }
    for (uint64_t i = Below(6); i > 0; --i) request.options["o" + Text()] = Value();
    if (Below(2) == 0) request.launch.num_warps = 1 << Below(6);
    if (Below(2) == 0) request.launch.launch_pdl = Below(2) == 0;
    return request;
  }

 private:
  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_;
};

// Every way to change one thing that decides the bytes.
using Change = std::function<void(CompileRequest&)>;
std::vector<Change> DecidingChanges() {
  return {
      [](CompileRequest& r) { r.source.kind = SourceKind::kPtx; },
      [](CompileRequest& r) { r.source.text += " "; },
      [](CompileRequest& r) { r.source.text[0] ^= 1; },
      [](CompileRequest& r) { r.target.backend = "hip"; },
      [](CompileRequest& r) { r.target.architecture = "100"; },
      [](CompileRequest& r) { r.target.warp_size = 64; },
      [](CompileRequest& r) { r.specialization.parameters.push_back({}); },
      [](CompileRequest& r) {
        r.specialization.parameters.insert(r.specialization.parameters.begin(),
                                           {"first", "i32", {}, {}});
      },
      [](CompileRequest& r) { r.launch.num_warps = r.launch.num_warps.value_or(1) * 2; },
      [](CompileRequest& r) { r.launch.num_stages = 5; },
      [](CompileRequest& r) { r.launch.num_ctas = 2; },
      [](CompileRequest& r) { r.launch.maxnreg = 64; },
      [](CompileRequest& r) {
        r.launch.cluster_dims = {1, 2, 1};
      },
      [](CompileRequest& r) { r.launch.launch_pdl = !r.launch.launch_pdl.value_or(false); },
      [](CompileRequest& r) { r.launch.launch_cooperative_grid = true; },
      [](CompileRequest& r) { r.options["another"] = {true}; },
      [](CompileRequest& r) {
        r.headers = {{"a.h", "text"}};
      },
      [](CompileRequest& r) {
        r.headers = {{"a.h", ""}, {"text", ""}};
      },
      [](CompileRequest& r) { r.ptxas = Digest::Of("a ptxas").Hex(); },
      [](CompileRequest& r) { r.ptxas = Digest::Of("another ptxas").Hex(); },
      [](CompileRequest& r) { r.options["another"] = {OptionTuple{{int64_t{1}}}}; },
  };
}

TEST_F(KeyProperties, EveryDecidingFieldChangesTheKey) {
  for (int round = 0; round < 200; ++round) {
    const CompileRequest request = Request();
    const Digest fingerprint = Digest::Of(Text());
    std::set<Digest> keys = {CompileKey(request, fingerprint)};
    size_t expected = 1;
    for (const Change& change : DecidingChanges()) {
      CompileRequest changed = request;
      change(changed);
      keys.insert(CompileKey(changed, fingerprint));
      EXPECT_EQ(keys.size(), ++expected);
    }
    keys.insert(CompileKey(request, Digest::Of("another toolchain")));
    EXPECT_EQ(keys.size(), ++expected);
  }
}

TEST_F(KeyProperties, EveryFieldOfAParameterChangesTheKey) {
  for (int round = 0; round < 200; ++round) {
    CompileRequest request = Request();
    request.specialization.parameters.push_back({"p", "*fp32", {{"tt.divisibility", 16}}, {}});
    std::set<Digest> keys = {CompileKey(request, Digest())};
    const auto add = [&](auto change) {
      CompileRequest changed = request;
      change(changed.specialization.parameters.back());
      keys.insert(CompileKey(changed, Digest()));
    };
    add([](Parameter& p) { p.name = "q"; });
    add([](Parameter& p) { p.type = "*fp16"; });
    add([](Parameter& p) { p.attributes["tt.divisibility"] = 8; });
    add([](Parameter& p) { p.attributes["tt.pointer_range"] = 32; });
    add([](Parameter& p) { p.attributes.clear(); });
    add([](Parameter& p) { p.constant = OptionValue{int64_t{1}}; });
    add([](Parameter& p) { p.constant = OptionValue{true}; });
    EXPECT_EQ(keys.size(), 8u);
  }
}

TEST_F(KeyProperties, ValuesOfDifferentTypesAreDifferent) {
  const std::vector<OptionValue> values = {
      {int64_t{1}},
      {true},
      {1.0},
      {std::string("1")},
      {OptionTuple{{int64_t{1}}}},
      {int64_t{0}},
      {false},
      {0.0},
      {std::string()},
      {OptionTuple{}},
      {-0.0},
      {OptionTuple{{OptionTuple{}}}},
  };
  std::set<std::string> encoded;
  for (const OptionValue& value : values) encoded.insert(EncodedValue(value));
  EXPECT_EQ(encoded.size(), values.size());
}

TEST_F(KeyProperties, NamesAndPlacesAreNotInTheKey) {
  const auto triton = MakeTriton();
  const auto elsewhere = MakeTriton();
  elsewhere->directory = "/opt/elsewhere";
  elsewhere->interpreter = "/opt/elsewhere/bin/python";
  const FakeCatalog here({triton});
  const FakeCatalog there({elsewhere});
  for (int round = 0; round < 50; ++round) {
    CompileRequest request = Request();
    request.options = {{"enable_fp_fusion", {false}}};
    const Digest key = (*RequestResolver(here).Resolve(request))->key;

    request.source.name = Text();
    request.stages = {"ptx", "cubin"};
    request.cache_policy = CachePolicy::kRefresh;
    request.toolchain = "triton==3.6.0";
    request.target.warp_size = 32;
    EXPECT_EQ((*RequestResolver(there).Resolve(request))->key, key);
  }
}

TEST_F(KeyProperties, ExplicitDefaultsAreNotInTheKey) {
  const FakeCatalog catalog({MakeTriton()});
  const RequestResolver resolver(catalog);
  CompileRequest request = Request();
  request.options.clear();
  request.launch = {};
  const Digest key = (*resolver.Resolve(request))->key;
  request.options = {{"enable_fp_fusion", {true}}, {"warp_size", {int64_t{32}}}};
  request.options["num_stages"] = {int64_t{3}};
  request.launch.num_warps = 4;
  request.launch.launch_pdl = false;
  request.launch.cluster_dims = {1, 1, 1};
  EXPECT_EQ((*resolver.Resolve(request))->key, key);
}

TEST_F(KeyProperties, TheOrderOfInsertionIsNotInTheKey) {
  for (int round = 0; round < 50; ++round) {
    const CompileRequest request = Request();
    CompileRequest reversed = request;
    reversed.options.clear();
    for (auto option = request.options.rbegin(); option != request.options.rend(); ++option) {
      reversed.options.insert(*option);
    }
    EXPECT_EQ(CompileKey(reversed, Digest()), CompileKey(request, Digest()));
  }
}

}  // namespace
}  // namespace kiln
