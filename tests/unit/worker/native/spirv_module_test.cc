#include "daemon/worker/native/spirv_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace kiln {
namespace {

using testing::ElementsAre;

// Writes instructions of a module; ids are the caller's.
class Module {
 public:
  Module& Add(uint32_t opcode, std::vector<uint32_t> words) {
    words_.push_back((static_cast<uint32_t>(words.size()) + 1) << 16 | opcode);
    words_.insert(words_.end(), words.begin(), words.end());
    return *this;
  }
  Module& AddNamed(uint32_t opcode, std::vector<uint32_t> words, const std::string& text) {
    std::vector<uint32_t> packed(text.size() / 4 + 1);
    std::memcpy(packed.data(), text.data(), text.size());
    words.insert(words.end(), packed.begin(), packed.end());
    return Add(opcode, std::move(words));
  }
  std::string Bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(uint32_t)};
  }

 private:
  std::vector<uint32_t> words_ = {0x07230203, 0x00010200, 14, 100, 0};
};

constexpr uint32_t kI32 = 1, kF32 = 2, kFloat3 = 3, kPacked = 4, kNatural = 5, kI8 = 6, kF64 = 7;
constexpr uint32_t kFunction = 20;

// A module with one kernel that has these parameters, each of (type, name).
Module WithKernel(Module module, const std::vector<std::pair<uint32_t, std::string>>& parameters) {
  module.AddNamed(15, {6, kFunction}, "k");
  uint32_t id = 50;
  for (const auto& [type, name] : parameters) module.AddNamed(5, {id++}, name);
  module.Add(21, {kI32, 32, 0}).Add(22, {kF32, 32}).Add(21, {kI8, 8, 0}).Add(22, {kF64, 64});
  module.Add(23, {kFloat3, kF32, 3});
  module.Add(71, {kPacked, 10}).Add(30, {kPacked, kI8, kI32}).Add(30, {kNatural, kI8, kF64, kI8});
  for (uint32_t storage = 0; storage < 9; ++storage) {
    module.Add(32, {30 + storage, storage, kF32}).Add(32, {40 + storage, storage, kNatural});
  }
  module.Add(26, {9});
  module.Add(54, {8, kFunction, 0, 11});
  id = 50;
  for (const auto& [type, name] : parameters) module.Add(55, {type, id++});
  return module;
}

std::vector<std::string> TypesOf(const Module& module) {
  const auto kernels = ReadSpirv(module.Bytes());
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  std::vector<std::string> types;
  for (const KernelParameter& each : kernels->entries.at(0).parameters) types.push_back(each.type);
  return types;
}

TEST(SpirvModuleTest, NumbersByTheirBits) {
  EXPECT_THAT(TypesOf(WithKernel({}, {{kI32, "n"}, {kI8, "c"}, {kF32, "a"}, {kF64, "d"}})),
              ElementsAre("i32", "i8", "f32", "f64"));
}

TEST(SpirvModuleTest, PointersByTheirAddressSpace) {
  EXPECT_THAT(TypesOf(WithKernel({}, {{30, "c"}, {34, "l"}, {35, "g"}, {38, "x"}})),
              ElementsAre("*constant f32", "*local f32", "*f32", "*generic f32"));
}

TEST(SpirvModuleTest, VectorsAndStructsByTheirBytes) {
  EXPECT_THAT(TypesOf(WithKernel({}, {{kFloat3, "v"}, {kPacked, "p"}, {47, "s"}, {45, "g"}})),
              ElementsAre("b8[16]", "b8[5]", "b8[24]", "*b8[24]"));
}

TEST(SpirvModuleTest, WhatHasNoSizeByItsName) {
  EXPECT_THAT(TypesOf(WithKernel({}, {{9, "s"}})), ElementsAre("sampler"));
}

TEST(SpirvModuleTest, NamesOfParametersAndOfTheKernel) {
  const auto kernels = ReadSpirv(WithKernel({}, {{kI32, "count"}, {kF32, ""}}).Bytes());
  ASSERT_TRUE(kernels.ok());
  EXPECT_EQ(kernels->entries[0].name, "k");
  EXPECT_EQ(kernels->entries[0].parameters[0].name, "count");
  EXPECT_EQ(kernels->entries[0].parameters[1].name, "");
}

TEST(SpirvModuleTest, TheRequiredWorkGroup) {
  const auto with = ReadSpirv(WithKernel(Module().Add(16, {kFunction, 17, 8, 4, 2}), {}).Bytes());
  EXPECT_EQ(with->entries[0].required_threads, (Extent{8, 4, 2}));
  EXPECT_EQ(ReadSpirv(WithKernel({}, {}).Bytes())->entries[0].required_threads, std::nullopt);
}

TEST(SpirvModuleTest, LocalMemoryOfTheKernelThatItIsNamedAfter) {
  Module module = WithKernel(Module().AddNamed(5, {60}, "k.tile").AddNamed(5, {61}, "k2.tile"), {});
  module.Add(43, {kI32, 70, 64}).Add(28, {71, kF32, 70}).Add(32, {72, 4, 71});
  module.Add(59, {72, 60, 4}).Add(59, {72, 61, 4});
  EXPECT_EQ(ReadSpirv(module.Bytes())->usage.at("k").shared_bytes, 256);
}

TEST(SpirvModuleTest, AnArrayLargerThanAnyMemoryIsAsLargeAsIsSaid) {
  Module module = WithKernel(Module().AddNamed(5, {60}, "k.tile"), {});
  module.Add(43, {kI32, 70, 0xffffffff, 0xffffffff}).Add(28, {71, kF64, 70}).Add(32, {72, 4, 71});
  module.Add(59, {72, 60, 4});
  EXPECT_EQ(ReadSpirv(module.Bytes())->usage.at("k").shared_bytes, int64_t{1} << 40);
}

TEST(SpirvModuleTest, WhatIsCutOffOrNoModuleIsRefused) {
  const std::string whole = WithKernel({}, {{kI32, "n"}}).Bytes();
  EXPECT_FALSE(ReadSpirv("").ok());
  EXPECT_FALSE(ReadSpirv("BC\xc0\xde" + whole.substr(4)).ok());
  EXPECT_FALSE(ReadSpirv(whole.substr(0, whole.size() - 4)).ok());
  EXPECT_FALSE(ReadSpirv(whole.substr(0, whole.size() - 1)).ok());
}

TEST(SpirvModuleTest, InstructionsOfAnyLengthAreReadWithinTheModule) {
  for (uint32_t opcode = 0; opcode < 80; ++opcode) {
    Module module;
    for (uint32_t length = 0; length < 6; ++length) {
      module.Add(opcode, std::vector<uint32_t>(length, 1));
    }
    EXPECT_TRUE(ReadSpirv(module.Bytes()).ok()) << opcode;
  }
}

}  // namespace
}  // namespace kiln
