#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/graph/compile/planned_kernels.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/operators/op_table.h"

namespace kiln::graph {
namespace {

// Raise it when the same segment gives other kernels.
constexpr int kPlanKeyVersion = 8;

std::string HexOfSha256(std::string_view text) {
  std::array<uint8_t, 32> digest;
  // Fails only without memory, or in an OpenSSL without SHA-256.
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

// The segment without elements of constants.
Segment WithoutElements(const Segment& segment) {
  Segment bare = segment;
  for (Value& value : bare.values) value.bytes = nullptr;
  return bare;
}

// What the operation becomes, as text.
std::string LoweredText(const Segment& segment, const Operation& operation) {
  const auto programs = Lower(segment, operation);
  if (!programs.ok()) return std::string(programs.status().message());
  std::string text;
  for (const LoopProgram& program : *programs) text += ToText(program);
  return text;
}

// A field a line. Symbols and values are numbers.
class KeyText {
 public:
  explicit KeyText(const Segment& segment) : segment_(segment), bare_(WithoutElements(segment)) {
    Add("kiln plan {}", kPlanKeyVersion);
  }

  void AddPlanConfig(const PlanConfig& config) {
    Add("fuses {} small {} splits {} views {}", config.fuses, config.keeps_small_sections,
        config.splits_ranges, config.gives_views);
    for (const SectionType type : config.off) Add("off {}", FactsOf(type).name);
    const CostModel& model = config.model;
    Add("model {} {} {} {} {}", model.operations_per_byte, model.special_function_cost,
        model.launch_bytes, model.recompute_max, model.worthwhile_elements);
    Add("pressure {} {} {} {} {} {}", model.jump_bytes, model.tile_operands_max, model.spill_bytes,
        model.factor_loads_max, model.attention_loads_max, model.tile_width);
    Add("factors {} {} {}", model.tile_function_slowdown, model.staged_bytes, model.tile_queries);
    Add("splits {} {} {} {}", model.split_multiple, model.split_small, model.split_small_ratio,
        model.splits_max);
    Add("barriers {} {}", static_cast<int>(config.barriers), model.barrier_bytes);
  }

  void AddCompileConfig(const CompileConfig& config) {
    const auto usable = UsableCompilers(config);
    Add("target {} fast {}", config.target, config.fast_math);
    Add("compilers {}", usable.ok() ? NamesOf(*usable) : "");
  }

  void AddSegment() {
    for (const Symbol& symbol : segment_.symbols) {
      Add("symbol {} {} {} {}", symbol.min, symbol.max, symbol.typical, symbol.multiple_of);
    }
    for (const Value& value : segment_.values) AddValue(value);
    for (const Operation& operation : segment_.operations) AddOperation(operation);
  }

  const std::string& text() const { return text_; }

 private:
  template <typename... Arguments>
  void Add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  static std::string Sizes(const std::vector<Size>& sizes) {
    std::string text;
    for (const Size& size : sizes) text += size.ToString({}) + ",";  // without names: s0, s1
    return text;
  }

  void AddValue(const Value& value) {
    Add("value {} [{}] {}{}{}", FactsOf(value.type).name, Sizes(value.shape), value.is_input,
        value.is_output, value.is_constant);
    if (value.strides) Add("strides {}", Sizes(*value.strides));
  }

  void AddOperation(const Operation& operation) {
    const Operator* const op = FindOperator(operation.name);
    const bool is_kept = !operation.kept_because.empty();
    Add("{} {} {} -> {}", is_kept ? "kept" : "operation", is_kept ? operation.name : op->name,
        fmt::join(operation.inputs, ","), fmt::join(operation.outputs, ","));
    if (is_kept) return;
    for (const auto& [name, attribute] : WithDefaults(*op, operation.attributes)) {
      std::visit([this, &name = name](const auto& held) { AddAttribute(name, held); }, attribute);
    }
    AddConstants(operation);
  }

  template <typename T>
  void AddAttribute(const std::string& name, const T& value) {
    Add("{} {}", name, value);
  }
  template <typename T>
  void AddAttribute(const std::string& name, const std::vector<T>& values) {
    Add("{} [{}]", name, fmt::join(values, ","));
  }
  void AddAttribute(const std::string& name, const std::string& value) {
    Add("{} {} bytes {}", name, value.size(), value);
  }

  // The elements of its constants, where they make another kernel.
  void AddConstants(const Operation& operation) {
    std::vector<const Value*> constants;
    for (const int input : operation.inputs) {
      const Value* const value =
          input == kOmitted ? nullptr : &segment_.values[static_cast<size_t>(input)];
      if (value != nullptr && value->is_constant && value->bytes) constants.push_back(value);
    }
    if (constants.empty()) return;
    if (LoweredText(segment_, operation) == LoweredText(bare_, operation)) return;
    for (const Value* value : constants) Add("elements {}", HexOfSha256(*value->bytes));
  }

  const Segment& segment_;
  const Segment bare_;
  std::string text_;
};

}  // namespace

std::string PlanKey(const Segment& segment, const PlanConfig& plan_config,
                    const CompileConfig& config) {
  KeyText key(segment);
  key.AddPlanConfig(plan_config);
  key.AddCompileConfig(config);
  key.AddSegment();
  return HexOfSha256(key.text());
}

}  // namespace kiln::graph
