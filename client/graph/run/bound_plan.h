// A plan on a device: its kernels loaded, its launches made from addresses and symbols.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/compile/kernel_plan.h"
#include "client/graph/run/memory_layout.h"
#include "client/graph/run/observed_shapes.h"
#include "client/graph/run/symbol_ranges.h"
#include "client/launch/kiln_launch.h"

namespace kiln::graph {

struct Execution {
  size_t first_step = 0;
  size_t steps = 0;  // 0: all
  // An address for each buffer of the layout; that of one in the workspace is not read.
  std::span<const uint64_t> buffers;
  std::span<const int64_t> symbols;
  uint64_t workspace = 0;
  uint64_t workspace_bytes = 0;
  void* stream = nullptr;
  uint64_t kernels_mark = 0;  // KernelsMark() when it was captured; 0: CheckReplay compares none
};

// Set and prepare on one thread. Execute and what only reads may then be called on any number of
// threads at once. Errors of the launch library keep their code and its words.
class BoundPlan {
 public:
  // `device` as kiln_launch_kernel_open takes it. The plan is not needed afterwards.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BoundPlan>> Make(const KernelPlan& plan,
                                                                       kiln_launch_runtime* runtime,
                                                                       int device);

  // What the daemon answered for a kernel, or any artifact. FAILED_PRECONDITION: its step is the
  // engine's.
  [[nodiscard]] absl::Status SetResponse(size_t kernel, std::string_view response);
  [[nodiscard]] absl::Status SetArtifact(size_t kernel, kiln_launch_artifact* artifact);
  // Loads every kernel, and asks how many blocks of kernels with stages the device has room for.
  // FAILED_PRECONDITION: one has not been set. Without a variant the kernel of the whole range does
  // its work. Goes on behind a kernel that cannot be loaded, and ends with the first one's error.
  [[nodiscard]] absl::Status Prepare();
  // A kernel that SetResponse, SetArtifact or Prepare failed for, where another compiler's may do:
  // the device has too little for it, or does not take the code.
  struct LoadFailure {
    size_t kernel = 0;
    absl::Status why;
  };
  [[nodiscard]] std::vector<LoadFailure> LoadFailures() const;
  // A line for each kernel with stages of a prepared plan: one launch, or one for each stage where
  // the device cannot have all blocks resident, and why.
  const std::string& explanation() const { return explanation_; }

  // Lives as long as this object. FAILED_PRECONDITION: it has not been set.
  [[nodiscard]] absl::StatusOr<kiln_launch_kernel*> KernelAt(size_t number) const;

  [[nodiscard]] absl::StatusOr<uint64_t> WorkspaceBytes(std::span<const int64_t> symbols) const;
  [[nodiscard]] absl::StatusOr<uint64_t> BufferBytes(size_t buffer,
                                                     std::span<const int64_t> symbols) const;

  // Counts from now on the sizes that Execute is asked for, once for all steps: with the first one
  // that is not the engine's. To be called like Prepare.
  void Observe() {
    if (observed_ == nullptr) observed_ = std::make_unique<ObservedShapes>(symbols_.size());
  }
  // By symbol. FAILED_PRECONDITION: Observe was not called.
  [[nodiscard]] absl::StatusOr<std::vector<ObservedSymbol>> Observed() const;
  const std::vector<Symbol>& symbols() const { return symbols_; }

  // Puts the launches of steps on the stream, up to the first one that is the engine's. `next_step`
  // becomes that step, or the one after the last. Everything is checked before the first launch.
  // Allocates nothing. INVALID_ARGUMENT: symbols outside of their ranges; a buffer that is null,
  // misaligned, or written and overlapped by another; a workspace that is missing or too small;
  // more blocks than a grid has.
  [[nodiscard]] absl::Status Execute(const Execution& execution, size_t& next_step) const;
  // Stands for the kernels that are set now: no other bound plan of the process ever has it, nor
  // does this one after the next SetArtifact or SetResponse.
  uint64_t KernelsMark() const { return first_mark_ + sets_; }
  // Before a graph is replayed that captured `captured`, in place of executing `wanted`: a graph
  // has its addresses, sizes and kernels for good. INVALID_ARGUMENT: the name of the first symbol,
  // or buffer of a captured step, that is another one; another workspace where a captured step has
  // a buffer in it; a step that one of both launches and the other does not; with `kernels_mark`,
  // a kernel of a captured step that was set behind it, or another bound plan. What `wanted` asks
  // for behind the first of the engine's steps after the captured ones is for a later Execute. The
  // stream does not count.
  [[nodiscard]] absl::Status CheckReplay(const Execution& captured, const Execution& wanted) const;

 private:
  struct CloseKernel {
    void operator()(kiln_launch_kernel* kernel) const { kiln_launch_kernel_close(kernel); }
  };
  struct BoundKernel {
    std::string entry;
    std::vector<int> buffers;  // of the layout, in the order of parameters
    std::vector<GridFactor> grid;
    std::vector<GridFactor> stages;
    uint32_t resident_blocks = 0;  // 0: each stage is a launch
    uint32_t threads = 0;          // 0: as it was compiled
    bool is_variant = false;
    bool is_dropped = false;
    uint64_t mark = 0;          // since when it is set
    std::vector<Symbol> parts;  // the ranges of a variant
    std::unique_ptr<kiln_launch_kernel, CloseKernel> kernel;
    absl::Status load_failure;
  };
  struct BoundStep {
    bool is_engines = false;
    size_t first_kernel = 0;
    size_t end_kernel = 0;
  };

  struct Range {  // of addresses
    uint64_t begin;
    uint64_t end;
    int buffer;
  };
  // Ranges that are sorted at once, on the stack.
  static constexpr size_t kRangesAtOnce = 1024;
  struct External {
    int buffer;
    size_t written;  // its place in written_, SIZE_MAX: it is only read
  };

  // -1: more than a number has.
  static int64_t BlocksOf(const GridFactor& factor, std::span<const int64_t> symbols) {
    const auto extent = factor.extent.EvaluateAt(symbols);
    return extent ? *extent / factor.tile + (*extent % factor.tile != 0 ? 1 : 0) : -1;
  }
  BoundPlan(const KernelPlan& plan, MemoryLayout layout, kiln_launch_runtime* runtime, int device);
  absl::Status Keep(size_t kernel, kiln_launch_code code, kiln_launch_kernel* opened);
  absl::Status Load(BoundKernel& kernel);
  absl::Status CheckIsOurs(size_t kernel) const;
  absl::Status CheckIsSet(size_t kernel) const;
  std::string_view NameOf(int buffer) const;
  // Calls `use` for each kernel that is launched at these sizes: the first variant that fits and
  // has been set, otherwise the kernel of the whole range. Ends at the first error.
  absl::Status ForEachLaunch(const BoundStep& step, std::span<const int64_t> symbols,
                             auto use) const {
    bool is_done = false;  // by a variant
    for (size_t i = step.first_kernel; i < step.end_kernel; ++i) {
      const BoundKernel& kernel = kernels_[i];
      if (kernel.is_variant &&
          (is_done || kernel.kernel == nullptr || !HoldsSizes(kernel.parts, symbols))) {
        continue;
      }
      absl::Status status = is_done ? absl::OkStatus() : use(i);
      if (!status.ok()) return status;
      is_done = kernel.is_variant;
    }
    return absl::OkStatus();
  }
  // The step behind the last one that it asks for.
  size_t EndOf(const Execution& execution) const;
  // Symbols, and how many addresses and steps there are.
  absl::Status CheckSizes(const Execution& execution) const;
  absl::Status CheckSteps(const Execution& captured, const Execution& wanted) const;
  absl::Status CheckKernel(size_t kernel, const Execution& captured) const;
  absl::Status CheckAddresses(size_t kernel, const Execution& captured,
                              const Execution& wanted) const;
  absl::Status CheckBuffer(int buffer, const Execution& execution) const;
  absl::Status CheckOverlaps(const Execution& execution) const;
  Range RangeOf(int buffer, const Execution& execution) const;
  absl::Status CheckNeighbours(std::span<const Range> sorted, const Execution& execution) const;
  absl::Status CheckAgainst(std::span<const Range> sorted, const Range& other) const;
  absl::Status GridAt(const BoundKernel& kernel, std::span<const int64_t> symbols,
                      uint32_t grid[3]) const;
  absl::Status CheckStages(const BoundKernel& kernel, std::span<const int64_t> symbols) const;
  absl::Status CheckStep(const BoundStep& step, const Execution& execution) const;
  absl::Status CheckWorkspace(std::optional<uint64_t> bytes, const Execution& execution) const;
  absl::Status Launch(const BoundKernel& kernel, const uint64_t* offsets,
                      const Execution& execution) const;
  absl::Status AskForRoom(BoundKernel& kernel);
  absl::Status LaunchStages(const BoundKernel& kernel, kiln_launch_config& config,
                            const void** arguments, uint32_t count,
                            std::span<const int64_t> symbols) const;

  std::vector<Symbol> symbols_;
  std::vector<std::string> names_;  // of the layout's buffers
  std::vector<External> external_;
  std::unique_ptr<ObservedShapes> observed_;  // null: it was not asked for
  std::vector<int> written_;                  // the external buffers that kernels write
  MemoryLayout layout_;
  std::vector<BoundStep> steps_;
  size_t first_own_step_ = 0;  // steps before are the engine's
  std::vector<BoundKernel> kernels_;
  std::string explanation_;
  const uint64_t first_mark_;
  uint64_t sets_ = 0;      // of kernels
  const uint32_t ticket_;  // of launches with barriers
  kiln_launch_runtime* const runtime_;
  const int device_;
};

}  // namespace kiln::graph
