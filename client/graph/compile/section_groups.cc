#include "client/graph/compile/section_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/graph/compile/loop_buffers.h"
#include "client/graph/emit/stages.h"

namespace kiln::graph {
namespace {

// A kernel that takes minutes to compile, or has more parameters than there may be, helps nobody.
constexpr size_t kGroupSectionsMax = 32;
constexpr size_t kGroupValuesMax = 128;
constexpr int kCapabilityMin = 70;  // acquire and release

bool CanBeStage(SectionType type) { return FactsOf(type).tiling == Tiling::kBlocks; }

// Empty where a kernel with barriers can be written.
std::string WhyImpossible(const CompileConfig& config) {
  const auto target = ParseTarget(config.target);
  const auto usable = UsableCompilers(config);
  if (!target.ok() || !usable.ok() || target->backend != "cuda" ||
      target->capability < kCapabilityMin) {
    return fmt::format("no kernels with grid barriers are written for {}", config.target);
  }
  if (std::ranges::count(*usable, Compiler::kCuda) > 0) return "";
  return "kernels with grid barriers are CUDA C++, which may not be used";
}

class Grouping {
 public:
  Grouping(const Segment& segment, const PlanConfig& config, std::string why_impossible, Plan& plan)
      : segment_(segment),
        config_(config),
        why_impossible_(std::move(why_impossible)),
        plan_(plan) {
    for (const Symbol& symbol : segment.symbols) typical_.push_back(symbol.typical);
  }

  void Run() {
    for (const Plan::Step& step : plan_.order) {
      if (!step.is_section || !CanBeStage(SectionAt(step.number).type)) {
        Close();
        continue;
      }
      Take(step.number);
    }
    Close();
  }

 private:
  const Section& SectionAt(int number) const { return plan_.sections[static_cast<size_t>(number)]; }

  double BytesOf(const Section& section) const {
    double bytes = 0;
    for (const std::vector<int>* values : {&section.inputs, &section.outputs}) {
      for (const int number : *values) {
        const Value& value = segment_.values[static_cast<size_t>(number)];
        double elements = 1;
        for (const Size& extent : value.shape) {
          elements *= static_cast<double>(extent.Evaluate(typical_).value_or(INT64_MAX));
        }
        bytes += elements * FactsOf(value.type).bits / 8;
      }
    }
    return bytes;
  }

  void Take(int number) {
    const Section& section = SectionAt(number);
    std::set<int> values = values_;
    values.insert(section.inputs.begin(), section.inputs.end());
    values.insert(section.outputs.begin(), section.outputs.end());
    const double bytes = BytesOf(section);
    const bool is_large =
        config_.barriers == GridBarriers::kByScore && bytes >= config_.model.barrier_bytes;
    if (current_.size() == kGroupSectionsMax || values.size() > kGroupValuesMax || is_large) {
      Close();
    }
    if (is_large) return;
    current_.push_back(number);
    values_.insert(section.inputs.begin(), section.inputs.end());
    values_.insert(section.outputs.begin(), section.outputs.end());
    bytes_ += bytes;
  }

  void Close() {
    if (current_.size() > 1) plan_.groups.push_back(Decided());
    current_.clear();
    values_.clear();
    bytes_ = 0;
  }

  SectionGroup Decided() const {
    if (!why_impossible_.empty()) return {current_, false, why_impossible_};
    if (config_.barriers == GridBarriers::kAlways) return {current_, true, "it is forced"};
    const double score = BarrierScore(current_.size(), bytes_, config_.model);
    return {current_, score > 0,
            fmt::format("score {:.2f} MB: {} launches less, {:.2f} MB moved", score / 1e6,
                        current_.size() - 1, bytes_ / 1e6)};
  }

  const Segment& segment_;
  const PlanConfig& config_;
  const std::string why_impossible_;
  Plan& plan_;
  std::vector<int64_t> typical_;
  std::vector<int> current_;
  std::set<int> values_;  // that `current_` reads or writes
  double bytes_ = 0;
};

}  // namespace

void GroupSections(const Segment& segment, const PlanConfig& plan_config,
                   const CompileConfig& config, Plan& plan) {
  const bool by_score = plan_config.barriers == GridBarriers::kByScore;
  if (plan_config.barriers == GridBarriers::kNever || (by_score && !plan_config.fuses)) return;
  Grouping(segment, plan_config, WhyImpossible(config), plan).Run();
}

absl::StatusOr<GroupPrograms> LowerGroup(const Segment& segment, const Plan& plan,
                                         const SectionGroup& group) {
  GroupPrograms made;
  for (const int number : group.sections) {
    auto programs = LowerSection(segment, plan.sections[static_cast<size_t>(number)]);
    if (!programs.ok()) return programs.status();
    for (LoopProgram& program : *programs) {
      DropUnusedBuffers(program);
      made.programs.push_back(std::move(program));
    }
  }
  LoopProgram common = CommonParameters(made.programs);
  const std::vector<Buffer> named = common.buffers;
  made.values = TakeValues(common);
  for (LoopProgram& program : made.programs) {
    program.symbols = common.symbols;
    for (Buffer& buffer : program.buffers) {
      const auto place = std::ranges::find(named, buffer.name, &Buffer::name) - named.begin();
      buffer.name = common.buffers[static_cast<size_t>(place)].name;
    }
  }
  return made;
}

}  // namespace kiln::graph
