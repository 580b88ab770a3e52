#include "daemon/worker/native/spirv_module.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace kiln {
namespace {

using Words = std::span<const uint32_t>;

// Numbers of the SPIR-V specification, section 3.
constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
enum Opcode : uint32_t {
  kName = 5,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeImage = 25,
  kTypeSampler = 26,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kTypeEvent = 34,
  kTypeDeviceEvent = 35,
  kTypeReserveId = 36,
  kTypeQueue = 37,
  kTypePipe = 38,
  kConstant = 43,
  kFunction = 54,
  kFunctionParameter = 55,
  kVariable = 59,
  kDecorate = 71,
};
enum StorageClass : uint32_t {
  kUniformConstant = 0,
  kWorkgroup = 4,
  kCrossWorkgroup = 5,
  kFunctionLocal = 7,  // of a kernel's parameter: passed by value
};
constexpr uint32_t kLocalSize = 17;
constexpr uint32_t kPacked = 10;

constexpr uint64_t kPointerBytes = 8;  // of spirv64
constexpr uint64_t kSpirvBytesMax = uint64_t{1} << 40;

struct Type {
  std::string_view letter = {};  // "i", "f": a number
  std::string_view word = {};    // "image", …: of no size
  bool is_pointer = false;
  uint32_t storage = 0;
  uint32_t pointee = 0;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
};

uint64_t RoundUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// More than any device has is as good as the most that is said.
uint64_t Times(uint64_t bytes, uint64_t count) {
  return bytes == 0 || count <= kSpirvBytesMax / bytes ? bytes * count : kSpirvBytesMax;
}

std::string TextIn(Words words) {
  const auto* const begin = reinterpret_cast<const char*>(words.data());
  return {begin, ::strnlen(begin, words.size_bytes())};
}

std::string_view WordOf(uint32_t opcode) {
  switch (opcode) {
    case kTypeImage:
      return "image";
    case kTypeSampler:
      return "sampler";
    case kTypeEvent:
      return "event";
    case kTypeDeviceEvent:
      return "device_event";
    case kTypeReserveId:
      return "reserve_id";
    case kTypeQueue:
      return "queue";
    case kTypePipe:
      return "pipe";
    default:
      return "";
  }
}

class Reader {
 public:
  // `words`: of one instruction, behind the first.
  void Read(uint32_t opcode, Words words) {
    if (opcode == kName && words.size() > 1) names_[words[0]] = TextIn(words.subspan(1));
    if (opcode == kEntryPoint && words.size() > 2) AddEntry(words[1], TextIn(words.subspan(2)));
    if (opcode == kExecutionMode && words.size() == 5 && words[1] == kLocalSize) {
      sizes_[words[0]] = {words[2], words[3], words[4]};
    }
    if (opcode == kDecorate && words.size() > 1 && words[1] == kPacked) packed_.push_back(words[0]);
    if (opcode == kConstant && words.size() > 2) constants_[words[1]] = NumberIn(words.subspan(2));
    if (opcode == kVariable && words.size() > 2 && words[2] == kWorkgroup) AddLocal(words);
    if (opcode == kFunction && words.size() > 1) function_ = words[1];
    if (opcode == kFunctionParameter && words.size() > 1) {
      parameters_[function_].push_back({names_[words[1]], Spelled(words[0])});
    }
    if (opcode >= kTypeBool && opcode <= kTypePipe) AddType(opcode, words);
  }

  SpirvKernels Take() {
    SpirvKernels kernels;
    for (const auto& [id, name] : entries_) {
      PtxEntry& entry = kernels.entries.emplace_back();
      entry.name = name;
      entry.parameters = parameters_[id];
      if (const auto size = sizes_.find(id); size != sizes_.end()) {
        entry.required_threads = size->second;
      }
      uint64_t bytes = 0;
      for (const auto& [variable, own] : locals_) {
        if (variable.starts_with(name + ".")) bytes += own;
      }
      kernels.usage[name].shared_bytes = static_cast<int64_t>(std::min(bytes, kSpirvBytesMax));
    }
    return kernels;
  }

 private:
  void AddEntry(uint32_t id, std::string name) { entries_.emplace_back(id, std::move(name)); }

  void AddLocal(Words words) {
    locals_.emplace_back(names_[words[1]], types_[types_[words[0]].pointee].bytes);
  }

  static uint64_t NumberIn(Words words) {
    return words.size() == 1 ? words[0] : words[0] | uint64_t{words[1]} << 32;
  }

  void AddType(uint32_t opcode, Words words) {
    if (words.empty()) return;
    Type& type = types_[words[0]];
    if (const std::string_view word = WordOf(opcode); !word.empty()) type.word = word;
    if (opcode == kTypeBool) type = Number("i", 1);
    if (opcode == kTypeInt && words.size() > 1) type = Number("i", words[1]);
    if (opcode == kTypeFloat && words.size() > 1) type = Number("f", words[1]);
    if (opcode == kTypeVector && words.size() > 2) {
      // One of three takes the place of one of four.
      type.bytes = Times(types_[words[1]].bytes, std::bit_ceil(words[2]));
      type.alignment = type.bytes;
    }
    if (opcode == kTypeArray && words.size() > 2) {
      const Type element = types_[words[1]];
      type.bytes = Times(element.bytes, constants_[words[2]]);
      type.alignment = element.alignment;
    }
    if (opcode == kTypeStruct) LayOut(words, type);
    if (opcode == kTypePointer && words.size() > 2) {
      type = {.is_pointer = true,
              .storage = words[1],
              .pointee = words[2],
              .bytes = kPointerBytes,
              .alignment = kPointerBytes};
    }
  }

  static Type Number(std::string_view letter, uint32_t bits) {
    const uint64_t bytes = (bits + 7) / 8;
    return {.letter = letter, .bytes = bytes, .alignment = std::max<uint64_t>(bytes, 1)};
  }

  void LayOut(Words words, Type& type) {
    const bool is_packed = std::find(packed_.begin(), packed_.end(), words[0]) != packed_.end();
    for (const uint32_t member : words.subspan(1)) {
      const Type& each = types_[member];
      const uint64_t alignment = is_packed ? 1 : std::max<uint64_t>(each.alignment, 1);
      type.bytes = RoundUp(type.bytes, alignment) + each.bytes;
      type.alignment = std::max(type.alignment, alignment);
    }
    type.bytes = std::min(RoundUp(type.bytes, type.alignment), kSpirvBytesMax);
  }

  std::string Spelled(uint32_t id) {
    const Type type = types_[id];
    if (!type.word.empty()) return std::string(type.word);
    if (!type.letter.empty()) return fmt::format("{}{}", type.letter, 8 * type.bytes);
    if (!type.is_pointer) return fmt::format("b8[{}]", type.bytes);
    if (type.storage == kFunctionLocal) return fmt::format("b8[{}]", types_[type.pointee].bytes);
    const std::string pointee = Spelled(type.pointee);
    switch (type.storage) {
      case kCrossWorkgroup:
        return "*" + pointee;
      case kUniformConstant:
        return "*constant " + pointee;
      case kWorkgroup:
        return "*local " + pointee;
      default:
        return "*generic " + pointee;
    }
  }

  std::vector<std::pair<uint32_t, std::string>> entries_;
  std::map<uint32_t, std::string> names_;
  std::map<uint32_t, Extent> sizes_;
  std::vector<uint32_t> packed_;
  std::map<uint32_t, uint64_t> constants_;
  std::map<uint32_t, Type> types_;
  std::vector<std::pair<std::string, uint64_t>> locals_;
  uint32_t function_ = 0;
  std::map<uint32_t, std::vector<KernelParameter>> parameters_;
};

}  // namespace

absl::StatusOr<SpirvKernels> ReadSpirv(std::string_view module) {
  const absl::Status not_one = Internal("what llvm-spirv wrote is no SPIR-V module");
  if (module.size() % sizeof(uint32_t) != 0 || module.size() < kHeaderWords * sizeof(uint32_t)) {
    return not_one;
  }
  std::vector<uint32_t> words(module.size() / sizeof(uint32_t));
  std::memcpy(words.data(), module.data(), module.size());
  if (words[0] != kMagic) return not_one;
  Reader reader;
  Words rest = Words(words).subspan(kHeaderWords);
  while (!rest.empty()) {
    const uint32_t length = rest[0] >> 16;
    if (length == 0 || length > rest.size()) return Internal("the SPIR-V module is cut off");
    reader.Read(rest[0] & 0xffff, rest.subspan(1, length - 1));
    rest = rest.subspan(length);
  }
  return reader.Take();
}

}  // namespace kiln
