#include "client/graph/emit/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "client/graph/emit/c_printer.h"
#include "client/graph/emit/c_text.h"

namespace kiln::graph {
namespace {

class StagesPrinter {
 public:
  StagesPrinter(size_t stages, const CDialect& dialect) : stages_(stages), dialect_(dialect) {}

  absl::Status Add(const LoopProgram& program, CPrinter& printer) {
    auto stage = printer.PrintStage();
    if (!stage.ok()) return stage.status();
    if (ReadsWhatIsNew(program)) {
      text_ += fmt::format("  if (stage == {}) kiln_grid_barrier(state, ticket, {});\n", stages_,
                           ++barriers_);
      new_.clear();
    }
    for (const Buffer& buffer : program.buffers) {
      if (buffer.is_written) new_.insert(buffer.name);
    }
    text_ +=
        fmt::format("  if (stage == {} || stage == {}) {{\n{}  }}\n", number_++, stages_, *stage);
    declarations_.types.insert(printer.declarations().types.begin(),
                               printer.declarations().types.end());
    declarations_.functions.insert(printer.declarations().functions.begin(),
                                   printer.declarations().functions.end());
    return absl::OkStatus();
  }

  std::string Text(const LoopProgram& common, int threads) && {
    std::string kernel;
    if (barriers_ > 0) {
      kernel = GridBarrierOf(dialect_);
      text_ = fmt::format("  if (stage == {}) kiln_grid_open(state, ticket);\n{}", stages_, text_);
    }
    kernel += fmt::format("{} {}({}{}u64* state, u32 ticket, u32 stage) {{\n",
                          fmt::format(fmt::runtime(dialect_.kernel), threads), common.name,
                          CParameters(common, dialect_), common.buffers.empty() ? "" : ", ");
    kernel += fmt::format("  const u32 thread = (u32){};\n{}}}\n", dialect_.thread, text_);
    return WithDeclarations(dialect_, declarations_, kernel);
  }

 private:
  bool ReadsWhatIsNew(const LoopProgram& program) const {
    return std::ranges::any_of(program.buffers, [this](const Buffer& buffer) {
      return !buffer.is_written && new_.contains(buffer.name);
    });
  }
  static std::string GridBarrierOf(const CDialect& dialect);

  const size_t stages_;
  const CDialect& dialect_;
  size_t number_ = 0;
  size_t barriers_ = 0;
  std::set<std::string> new_;  // buffers that are written since the last barrier
  std::string text_;
  CDeclarations declarations_;
};

std::string StagesPrinter::GridBarrierOf(const CDialect& dialect) {
  std::string text(dialect.grid_barrier);
  const std::string_view mark = "FUNCTION";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), dialect.function);
  }
  return text + "\n";
}

}  // namespace

LoopProgram CommonParameters(const std::vector<LoopProgram>& programs) {
  LoopProgram common;
  common.symbols = programs.front().symbols;
  for (const LoopProgram& program : programs) {
    for (const Buffer& buffer : program.buffers) {
      const auto known = std::ranges::find(common.buffers, buffer.name, &Buffer::name);
      if (known == common.buffers.end()) {
        common.buffers.push_back(buffer);
      } else {
        known->is_written |= buffer.is_written;
        known->alignment = std::max(known->alignment, buffer.alignment);
      }
    }
  }
  return common;
}

// Any number of blocks computes the whole program.
absl::StatusOr<std::string> CPrinter::PrintStage() {
  const auto body = Body(false);
  if (!body.ok()) return body;
  const auto groups = Groups();
  if (!groups.ok()) return groups;
  const std::string total = fmt::format("({}){}", position_type_, Text(total_));
  if (layout_.shares_positions) {
    return fmt::format(
        "  for ({0} position = {1}; position < {2}; position += {3}) {{\n{4}  {5};\n  }}\n",
        position_type_, dialect_.block, total, dialect_.blocks, *body, dialect_.barrier);
  }
  const std::string first = fmt::format("(({}){} * {} + thread) * {}", position_type_,
                                        dialect_.block, layout_.threads, layout_.elements);
  const std::string step = fmt::format("({}){} * {}", position_type_, dialect_.blocks,
                                       layout_.threads * layout_.elements);
  return fmt::format("  for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{\n{5}{6}  }}\n",
                     position_type_, layout_.elements > 1 ? "first" : "position", first, total,
                     step, layout_.elements > 1 ? Tail(*body, "continue") : *body, *groups);
}

absl::StatusOr<EmittedKernel> EmitStages(std::string name, const std::vector<LoopProgram>& programs,
                                         const CDialect& dialect, const EmitOptions& options) {
  EmittedKernel kernel;
  kernel.threads = 0;
  for (const LoopProgram& program : programs) {
    if (absl::Status status = CheckC(program); !status.ok()) return status;
    kernel.threads = std::max(kernel.threads, CPrinter(program, dialect, options).threads());
  }
  StagesPrinter stages(programs.size(), dialect);
  for (const LoopProgram& program : programs) {
    CPrinter printer(program, dialect, options, kernel.threads);
    kernel.stages.push_back(printer.Grid());
    if (absl::Status status = stages.Add(program, printer); !status.ok()) return status;
  }
  LoopProgram common = CommonParameters(programs);
  common.name = kernel.entry = std::move(name);
  kernel.text = std::move(stages).Text(common, kernel.threads);
  return kernel;
}

}  // namespace kiln::graph
