#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "client/graph/operators/layers/attention_plan.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/operators/views.h"
#include "client/graph/plan/operator_section.h"
#include "client/graph/plan/output_views.h"
#include "client/graph/plan/plan.h"
#include "client/graph/program/opcode.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

// What is fused is computed recursively, and names and parameters grow with it.
constexpr int kSectionOperationsMax = 64;
// Values and symbols that a section of several operations reads and writes: every OpenCL device
// takes 128 parameters of 8 bytes, and each kernel has them in registers.
constexpr size_t kSectionParametersMax = 128;
// The result, and all keys and values. An attention that gives its scores has two loops for them.
constexpr size_t kAttentionOutputsMax = 3;

// How many additions take as long as an element, both branches of a select counted.
struct Work {
  double anywhere = 0;
  double in_tiles = 0;  // of a product that has it as its factor

  Work& operator+=(const Work& other) {
    anywhere += other.anywhere;
    in_tiles += other.in_tiles;
    return *this;
  }
};

Work WorkOf(const Operator& op, const CostModel& model) {
  if (!op.parsed) return {1, 1};
  double plain = 0;
  double special = 0;
  for (const Expression::Node& node : op.parsed->nodes()) {
    if (node.kind != Expression::Node::Kind::kCall) continue;
    (IsSpecialFunction(node.opcode) ? special : plain) += 1;
  }
  special *= model.special_function_cost;
  return {std::max(plain + special, 1.0),
          std::max(plain + special * model.tile_function_slowdown, 1.0)};
}

bool IsTiled(SectionType type) { return FactsOf(type).tiling == Tiling::kProduct; }

class Planner {
 public:
  Planner(const Segment& segment, const PlanConfig& config)
      : segment_(segment), config_(config), nodes_(segment.operations.size()) {
    for (const Symbol& symbol : segment.symbols) typical_.push_back(symbol.typical);
  }

  Plan Make();

 private:
  struct Node {
    SectionType type = SectionType::kElementwise;
    int rank = 0;         // in the order of execution
    std::string refusal;  // empty: a section can have it
    bool is_inlined = false;
    // One for each output, where strides alone say where its elements lie in memory; else empty.
    std::vector<View> views;
    Work work;              // of one element
    bool has_loop = false;  // it, or what is inlined into it
    // Where that is a product or a convolution, whose results are tiles in registers: its loads.
    std::optional<int> factors;
  };
  // An operation with all that is computed where its element is needed, each of them once.
  struct Cone {
    int operations = 0;
    size_t inputs = 0;  // values
    Work work;          // of one element
    // Values in memory that have an element for each of the operation's, at least.
    int loads = 0;
    double loaded_bytes = 0;  // of those, for one element
    bool gathers = false;     // has an operation of type kGather
  };

  const Value& ValueAt(int value) const { return segment_.values[static_cast<size_t>(value)]; }
  const Operation& OperationAt(int number) const {
    return segment_.operations[static_cast<size_t>(number)];
  }
  Node& NodeAt(int number) { return nodes_[static_cast<size_t>(number)]; }
  double Elements(int value) const;  // at the typical sizes
  double BytesOf(int value) const { return FactsOf(ValueAt(value).type).bits / 8.0; }  // an element
  double Typical(const Size& size) const;
  // The first that is given; kOmitted: none is.
  int OutputOf(int operation) const {
    const std::vector<int>& outputs = OperationAt(operation).outputs;
    const auto given = std::ranges::find_if(outputs, [](int one) { return one != kOmitted; });
    return given == outputs.end() ? kOmitted : *given;
  }
  size_t OutputPlace(int operation, int value) const {
    const std::vector<int>& outputs = OperationAt(operation).outputs;
    return static_cast<size_t>(std::ranges::find(outputs, value) - outputs.begin());
  }

  void Connect();
  void SortTopologically();
  void Classify(int operation);
  std::vector<View> ViewsOnMemory(int operation);
  void Inline(int operation);
  Cone ConeOf(int operation, int with) const;
  bool JumpsInMemory(int operation) const;
  FusionChoice Choose(int producer, const Cone& from, int consumer, int value);
  bool HasTileType(int value) const;
  double TileWidth(int consumer, int value, const Cone& from);
  bool IsStaged(int consumer, int value) const;
  double NormalizationReads(const Operation& operation) const;
  double ReadsPerElement(int consumer, int value, double tile);
  std::optional<double> AttentionReads(int consumer, int value);
  Section SectionOf(int root);
  std::string WhyNotWorthwhile(const Section& section);
  void AddSteps();

  const Segment& segment_;
  const PlanConfig& config_;
  std::vector<Node> nodes_;
  std::vector<int64_t> typical_;           // sizes of symbols
  std::vector<int> producers_;             // by value, -1: none
  std::vector<std::vector<int>> readers_;  // by value, each operation once
  std::vector<int> order_;                 // of operations
  Plan plan_;
};

double Planner::Elements(int value) const {
  double elements = 1;
  for (const Size& extent : ValueAt(value).shape) elements *= Typical(extent);
  return elements;
}

double Planner::Typical(const Size& size) const {
  return static_cast<double>(size.Evaluate(typical_).value_or(INT64_MAX));
}

void Planner::Connect() {
  producers_.assign(segment_.values.size(), -1);
  readers_.resize(segment_.values.size());
  for (size_t number = 0; number < segment_.operations.size(); ++number) {
    for (const int output : segment_.operations[number].outputs) {
      if (output != kOmitted) producers_[static_cast<size_t>(output)] = static_cast<int>(number);
    }
    for (const int input : segment_.operations[number].inputs) {
      if (input == kOmitted) continue;
      std::vector<int>& readers = readers_[static_cast<size_t>(input)];
      if (readers.empty() || readers.back() != static_cast<int>(number)) {
        readers.push_back(static_cast<int>(number));
      }
    }
  }
}

void Planner::SortTopologically() {
  std::vector<int> missing(nodes_.size(), 0);
  for (size_t value = 0; value < readers_.size(); ++value) {
    if (producers_[value] < 0) continue;
    for (const int reader : readers_[value]) ++missing[static_cast<size_t>(reader)];
  }
  std::set<int> ready;  // the earliest first: the engine's order, where that is one
  for (size_t number = 0; number < missing.size(); ++number) {
    if (missing[number] == 0) ready.insert(static_cast<int>(number));
  }
  while (!ready.empty()) {
    const int number = *ready.begin();
    ready.erase(ready.begin());
    NodeAt(number).rank = static_cast<int>(order_.size());
    order_.push_back(number);
    for (const int output : OperationAt(number).outputs) {
      if (output == kOmitted) continue;
      for (const int reader : readers_[static_cast<size_t>(output)]) {
        if (--missing[static_cast<size_t>(reader)] == 0) ready.insert(reader);
      }
    }
  }
}

void Planner::Classify(int number) {
  const Operation& operation = OperationAt(number);
  Node& node = NodeAt(number);
  node.refusal = operation.kept_because;
  if (!node.refusal.empty()) return;
  const Operator& op = *FindOperator(operation.name);
  const LoweringRule* const rule = FindLoweringRule(op.name);
  node.type = SectionTypeOf(op.category);
  node.has_loop = !FactsOf(node.type).is_pointwise;
  node.work = WorkOf(op, config_.model);
  if (rule == nullptr) {
    node.refusal = op.why_not.empty() ? "nothing lowers it" : std::string(op.why_not);
  } else if (std::ranges::count(config_.off, node.type) > 0) {
    node.refusal = fmt::format("{} sections are switched off", FactsOf(node.type).name);
  } else if (const auto outputs = InferOutputs(segment_, operation); !outputs.ok()) {
    node.refusal = std::string(outputs.status().message());
  }
}

// Whether Triton has tiles of such elements, and is there.
bool Planner::HasTileType(int value) const {
  const DType type = ValueAt(value).type;
  return config_.multiplies_tiles &&
         (FactsOf(type).bits <= 8 || (IsFloat(type) && FactsOf(type).bits <= 32));
}

// How many rows or columns of a product's result share the elements of its factor. From more bytes
// than its own, a factor has shared memory in small tiles alone.
double Planner::TileWidth(int consumer, int value, const Cone& from) {
  return HasTileType(value) && IsTiled(NodeAt(consumer).type) && from.loaded_bytes <= BytesOf(value)
             ? config_.model.tile_width
             : 1;
}

// Whether a computed factor goes through shared memory before it is multiplied. sm_90 reads the
// left factor of a matrix product from registers; f32 has no matrix unit there.
bool Planner::IsStaged(int consumer, int value) const {
  if (nodes_[static_cast<size_t>(consumer)].type != SectionType::kMatmul) return false;
  return ValueAt(value).type == DType::kF32 || value != OperationAt(consumer).inputs.front();
}

// Two reductions, then the elements. Triton computes those of a row once that a block holds.
double Planner::NormalizationReads(const Operation& operation) const {
  const std::vector<Size>& shape = ValueAt(operation.outputs.front()).shape;
  const LoweringRule* const rule = FindLoweringRule(operation.name);
  if (!config_.multiplies_tiles || shape.empty() || rule->inner == nullptr) return 3;
  const std::vector<int> inner = rule->inner(segment_, operation);
  double row = 1;
  for (const int axis : inner) row *= Typical(shape[static_cast<size_t>(axis)]);
  const bool is_along_memory = std::ranges::count(inner, std::ssize(shape) - 1) > 0;
  return is_along_memory && row <= static_cast<double>(kBlocks.elements_max) ? 1 : 3;
}

// How often the consumer's loops compute each element of one of its inputs.
double Planner::ReadsPerElement(int consumer, int value, double tile) {
  const Operation& operation = OperationAt(consumer);
  const double outputs = Elements(OutputOf(consumer));
  const double elements = std::max(Elements(value), 1.0);
  switch (NodeAt(consumer).type) {
    case SectionType::kReduction:
      return 1;
    case SectionType::kNormalization:
      return NormalizationReads(operation);
    case SectionType::kMatmul: {  // [.., M, K] by [.., K, N]
      const std::vector<Size>& shape = ValueAt(operation.inputs[0]).shape;
      return shape.empty() ? 1 : std::ceil(outputs * Typical(shape.back()) / elements / tile);
    }
    case SectionType::kConvolution: {  // weights: [filters, ..]
      const double filters = std::max(Typical(ValueAt(operation.inputs[1]).shape.front()), 1.0);
      if (value == operation.inputs[1]) return std::ceil(outputs / filters / tile);
      const auto found = operation.attributes.find("group");
      const int64_t* const groups =
          found == operation.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
      const double of_a_group =
          std::max(filters / static_cast<double>(groups == nullptr ? 1 : *groups), 1.0);
      const double reads = outputs * Elements(operation.inputs[1]) / filters / elements;
      return reads / of_a_group * std::ceil(of_a_group / tile);
    }
    default:
      return std::max(outputs / elements, 1.0);
  }
}

// How often an attention's loops compute each element of one of its inputs. Nothing where it reads
// that input from memory alone.
std::optional<double> Planner::AttentionReads(int consumer, int value) {
  const Operation& operation = OperationAt(consumer);
  const auto plan = AttentionPlanOf(segment_, operation);
  if (!plan.ok() || operation.outputs.size() > kAttentionOutputsMax) return std::nullopt;
  const Value& query = ValueAt(operation.inputs[0]);
  // A program has a tile of queries, with whole heads (emit/triton/attention.cc).
  const bool has_tiles = HasTileType(operation.inputs[0]) && query.shape.size() == 4 &&
                         std::max(Typical(plan->q.width), Typical(plan->v.width)) <= kWidestHead;
  const double rows = Typical(plan->q.length);
  const double keys = Typical(plan->total);
  const double blocks = has_tiles ? std::ceil(rows / config_.model.tile_queries) : rows;
  // For the largest score, the sum of weights, and each column of the result.
  const double passes = has_tiles ? 1 : 2 + Typical(plan->v.width);
  double reads = 0;
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] != value) continue;
    if (i == 0) {
      reads += has_tiles ? 1 : keys * passes;
    } else if (i == 1 || i == plan->past_keys) {
      reads += Typical(plan->queries_per_head) * blocks * passes;
    } else if (i == 2 || i == plan->past_values) {
      reads += Typical(plan->queries_per_head) * blocks;
    } else if (i == plan->mask) {
      const std::vector<Size>& shape = ValueAt(value).shape;
      const bool is_row = shape.size() < 2 || shape[shape.size() - 2] == Size(1);
      const double scores = Typical(query.shape[0]) * Typical(plan->q.heads) * keys;
      reads += scores * (is_row ? blocks : rows) * passes / std::max(Elements(value), 1.0);
    } else {
      return std::nullopt;
    }
  }
  return std::max(reads, 1.0) + static_cast<double>(operation.outputs.size() - 1);
}

// With what is inlined into it, and with the producer `with`.
Planner::Cone Planner::ConeOf(int operation, int with) const {
  Cone cone;
  std::set<int> loaded;  // values
  std::set<int> operations{operation};
  std::vector<int> left{operation};
  while (!left.empty()) {
    const int number = left.back();
    left.pop_back();
    ++cone.operations;
    cone.gathers |= nodes_[static_cast<size_t>(number)].type == SectionType::kGather;
    cone.work += nodes_[static_cast<size_t>(number)].work;
    for (const int input : OperationAt(number).inputs) {
      if (input == kOmitted) continue;
      const int producer = producers_[static_cast<size_t>(input)];
      if (producer < 0 || (producer != with && !nodes_[static_cast<size_t>(producer)].is_inlined)) {
        loaded.insert(input);
      } else if (operations.insert(producer).second) {
        left.push_back(producer);
      }
    }
  }
  cone.inputs = loaded.size();
  const int output = OutputOf(operation);
  const double elements = output == kOmitted ? 0 : Elements(output);
  for (const int value : loaded) {
    if (Elements(value) < elements) continue;
    ++cone.loads;
    cone.loaded_bytes += BytesOf(value);
  }
  return cone;
}

// Whether neighbours of its output are apart in its input, as those of a transpose.
bool Planner::JumpsInMemory(int number) const {
  const Operation& operation = OperationAt(number);
  if (nodes_[static_cast<size_t>(number)].type != SectionType::kView) return false;
  const Value& input = ValueAt(operation.inputs.front());
  const auto view = ViewOf(segment_, operation, 0, {0, StridesOf(input)});
  const std::vector<Size>& shape = ValueAt(OutputOf(number)).shape;
  for (size_t axis = shape.size(); view && axis-- > 0;) {
    if (shape[axis] != Size(1)) return Typical(view->strides[axis]) > 1;
  }
  return false;
}

FusionChoice Planner::Choose(int producer, const Cone& from, int consumer, int value) {
  const Node& node = NodeAt(producer);
  const Node& to = NodeAt(consumer);
  FusionChoice choice{producer, consumer, false, ""};
  const Cone fused = ConeOf(consumer, producer);
  if (!to.refusal.empty()) {
    choice.reason = "the consumer is the engine's";
  } else if (fused.operations > kSectionOperationsMax) {
    choice.reason = fmt::format("a section has at most {} operations", kSectionOperationsMax);
  } else if (fused.inputs + OperationAt(consumer).outputs.size() + segment_.symbols.size() >
                 kSectionParametersMax &&
             fused.inputs > std::max(from.inputs, ConeOf(consumer, kOmitted).inputs)) {
    choice.reason = fmt::format("a section has at most {} parameters", kSectionParametersMax);
  } else if (!FactsOf(to.type).takes_prologue && node.views.empty()) {
    choice.reason = fmt::format("a section of type {} reads memory alone", FactsOf(to.type).name);
  } else if (to.type == SectionType::kAttention && node.views.empty() && from.gathers) {
    choice.reason = "before attention, elementwise operations and views alone are fused";
  } else if (node.has_loop && to.has_loop) {
    choice.reason = "both have loops";
  } else if (node.has_loop &&
             (to.type != SectionType::kElementwise || !FactsOf(node.type).takes_epilogue ||
              ValueAt(OutputOf(consumer)).shape != ValueAt(value).shape)) {
    choice.reason = "the consumer does not read each element once, in order";
  }
  if (!choice.reason.empty()) return choice;
  if (!node.views.empty()) {
    choice.is_fused = true;
    choice.reason = "a view: strides alone";
    return choice;
  }
  const CostModel& model = config_.model;
  const bool is_attention = to.type == SectionType::kAttention;
  // Queries stay in registers.
  const std::vector<int>& inputs = OperationAt(consumer).inputs;
  const bool has_tiles =
      IsTiled(to.type) || (is_attention && std::count(inputs.begin() + 1, inputs.end(), value) > 0);
  const double most = is_attention ? model.attention_loads_max : model.factor_loads_max;
  if (const double more = from.loaded_bytes / BytesOf(value); has_tiles && more > most) {
    choice.reason =
        fmt::format("shared memory: tiles would be {:.1f} times as large, {} fit", more, most);
    return choice;
  }
  const double tile = TileWidth(consumer, value, from);
  const std::optional<double> found =
      is_attention ? AttentionReads(consumer, value) : ReadsPerElement(consumer, value, tile);
  if (!found) {
    choice.reason = "attention reads such an input from memory alone";
    return choice;
  }
  const double reads = *found;
  if (reads > model.recompute_max && from.work.anywhere > 1) {
    choice.reason = fmt::format("would compute each element {:.0f} times", reads);
    return choice;
  }
  const FusionFacts facts{
      .producer_elements = Elements(value),
      .bytes_per_element = BytesOf(value),
      .operations_per_element = tile > 1 ? from.work.in_tiles : from.work.anywhere,
      .reads_per_element = reads,
      .is_factor_of_tiles = tile > 1,
      .is_staged = tile > 1 && IsStaged(consumer, value),
      .loads_that_jump = JumpsInMemory(consumer) ? from.loads - 1 : 0,
      .tile_operands = node.factors ? fused.loads - *node.factors : 0};
  const FusionScore score = ScoreOf(facts, model);
  choice.is_fused = score.Sum() > 0;
  choice.reason =
      fmt::format("score {:.1f} MB: {:.1f} MB between them, read {:.0f} times{}", score.Sum() / 1e6,
                  facts.producer_elements * facts.bytes_per_element / 1e6, reads, CostsOf(score));
  return choice;
}

std::vector<View> Planner::ViewsOnMemory(int number) {
  const Operation& operation = OperationAt(number);
  if (operation.inputs.empty() || operation.inputs.front() == kOmitted) return {};
  const int input = operation.inputs.front();
  View base{0, StridesOf(ValueAt(input))};
  const int producer = producers_[static_cast<size_t>(input)];
  if (producer >= 0 && NodeAt(producer).is_inlined) {
    const std::vector<View>& views = NodeAt(producer).views;
    if (views.empty()) return {};
    base = views[OutputPlace(producer, input)];
  }
  std::vector<View> views;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    auto view = ViewOf(segment_, operation, i, base);
    if (!view) return {};
    views.push_back(*std::move(view));
  }
  return views;
}

// Decides whether each reader of the operation computes its elements, or memory holds them.
void Planner::Inline(int number) {
  Node& node = NodeAt(number);
  if (!config_.fuses || !node.refusal.empty()) return;
  node.views = ViewsOnMemory(number);
  if (!node.views.empty()) node.work = {};
  const Cone cone = ConeOf(number, kOmitted);
  if (IsTiled(node.type)) node.factors = cone.loads;
  const std::vector<int>& outputs = OperationAt(number).outputs;
  if (outputs.size() != 1 && node.views.empty()) return;
  std::vector<FusionChoice> choices;
  for (const int value : outputs) {
    if (value == kOmitted) continue;
    const bool is_view = config_.gives_views && !node.views.empty() && !ValueAt(value).strides;
    if (ValueAt(value).is_output && !is_view) return;
    const std::vector<int>& readers = readers_[static_cast<size_t>(value)];
    if (node.has_loop && readers.size() > 1) return;
    for (const int reader : readers) choices.push_back(Choose(number, cone, reader, value));
  }
  node.is_inlined = std::ranges::all_of(choices, &FusionChoice::is_fused);
  for (FusionChoice& choice : choices) {
    if (node.is_inlined) {
      Node& consumer = NodeAt(choice.consumer);
      consumer.has_loop |= node.has_loop;
      if (node.factors) consumer.factors = node.factors;
    } else if (choice.is_fused) {
      choice.is_fused = false;
      choice.reason = "another reader needs it in memory";
    }
    plan_.choices.push_back(std::move(choice));
  }
}

Section Planner::SectionOf(int root) {
  Section section;
  section.root = root;
  section.type = NodeAt(root).type;
  std::set<int> operations{root};
  std::set<int> inputs;
  std::vector<int> left{root};
  while (!left.empty()) {
    const int number = left.back();
    left.pop_back();
    if (!FactsOf(NodeAt(number).type).is_pointwise) section.type = NodeAt(number).type;
    for (const int input : OperationAt(number).inputs) {
      if (input == kOmitted) continue;
      const int producer = producers_[static_cast<size_t>(input)];
      if (producer < 0 || !NodeAt(producer).is_inlined) {
        inputs.insert(input);
      } else if (operations.insert(producer).second) {
        left.push_back(producer);
      }
    }
  }
  section.operations.assign(operations.begin(), operations.end());
  std::ranges::sort(section.operations, {}, [this](int each) { return NodeAt(each).rank; });
  section.inputs.assign(inputs.begin(), inputs.end());
  for (const int output : OperationAt(root).outputs) {
    if (output != kOmitted &&
        (ValueAt(output).is_output || !readers_[static_cast<size_t>(output)].empty())) {
      section.outputs.push_back(output);
    }
  }
  return section;
}

std::string Planner::WhyNotWorthwhile(const Section& section) {
  if (config_.keeps_small_sections || !FactsOf(section.type).is_pointwise) return "";
  if (section.operations.size() == 1) return "one operation is not worth a kernel of its own";
  const double elements = Elements(section.outputs.front());
  if (elements >= static_cast<double>(config_.model.worthwhile_elements)) return "";
  return fmt::format("{:.0f} elements are not worth a kernel of their own", elements);
}

void Planner::AddSteps() {
  std::set<int> refused;
  const auto refuse = [this, &refused](int operation, const std::string& reason) {
    if (!refused.insert(operation).second) return;
    plan_.order.push_back({false, static_cast<int>(plan_.refusals.size())});
    plan_.refusals.push_back({operation, reason});
  };
  for (const int number : order_) {
    const Node& node = NodeAt(number);
    if (!node.refusal.empty()) {
      refuse(number, node.refusal);
      continue;
    }
    if (node.is_inlined) continue;
    Section section = SectionOf(number);
    if (section.outputs.empty()) continue;  // nobody needs it
    if (const std::string reason = WhyNotWorthwhile(section); !reason.empty()) {
      for (const int each : section.operations) refuse(each, reason);
      continue;
    }
    plan_.order.push_back({true, static_cast<int>(plan_.sections.size())});
    plan_.sections.push_back(std::move(section));
  }
}

Plan Planner::Make() {
  Connect();
  SortTopologically();
  for (const int number : order_) Classify(number);
  for (const int number : order_) Inline(number);
  AddSteps();
  if (config_.gives_views) plan_.views = OutputViewsOf(segment_, plan_);
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Segment& segment, const PlanConfig& config) {
  if (const absl::Status status = Check(segment); !status.ok()) return status;
  return Planner(segment, config).Make();
}

}  // namespace kiln::graph
