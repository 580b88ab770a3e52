// libkiln_graph for C++: segments of a graph become kernels, which the daemon compiles and
// libkiln_launch launches. Installed as <kiln/graph.h>; link kiln_graph::kiln_graph and kiln::kiln.
// docs/graph.md has a first program.
//
//   kiln::graph::Segment segment("gated");
//   segment.AddSymbol("batch", {.max = 4096});
//   const int x = segment.AddInput("x", "f16", {"batch", 784});
//   const int w = segment.AddConstant("w", "f16", {784, 16});
//   const int h = segment.Add("MatMul", {x, w});
//   segment.SetOutput(segment.Add("Elu", {h}, R"({"alpha": 0.5})"), "y");
//   auto plan = kiln::graph::Plan::Make(segment, "cuda:90");
//   auto compiled = plan->Compile(*client);
//   auto bound = plan->Bind(runtime, /*device=*/0);
//   auto step = bound->Execute({.buffers = addresses, .symbols = symbols, .workspace = workspace,
//                               .workspace_bytes = bytes, .stream = stream});
//
// Errors are absl::Status with the words of kiln_graph_error(); nothing throws but the C++ library.
// Threads: as kiln_graph.h says. The library is libkiln_graph's C interface; this header is all of
// the C++ one.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <kiln/client.h>
#include <kiln/graph_segment.h>
#include <kiln_graph.h>
#include <kiln_launch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace kiln::graph {

struct PlanOptions {
  std::string compilers = "";  // "cuda,triton": those there are; empty: all that suit the target
  std::string forced = "";     // this one for every kernel
  std::string off = "";        // types of sections that the engine keeps: "attention,matmul"
  bool fuses = true;
  bool keeps_small_sections = false;  // makes kernels that are not worth a launch, too
  bool fast_math = false;
  bool takes_views = false;   // View tells outputs that are elements of other values' memory
  bool splits_ranges = true;  // makes kernels for parts of the symbols' ranges, where that pays
  // "always": small sections become one kernel with grid barriers; "never"; "": where it is faster.
  std::string barriers = "";
  // Not null: gets a line, with `log_data`, for each choice of a compiler, also while a compile
  // that failed is turned over to the next one.
  void (*log)(void* log_data, const char* line) = nullptr;
  void* log_data = nullptr;
};

// One run of steps.
struct Execution {
  std::span<const uint64_t> buffers = {};  // an address for each of the plan's buffers
  std::span<const int64_t> symbols = {};   // a size for each of the segment's symbols
  // Two executions at once need two: with one, kernels with grid barriers hang the GPU.
  uint64_t workspace = 0;
  uint64_t workspace_bytes = 0;
  void* stream = nullptr;
  uint32_t first_step = 0;
  uint32_t step_count = 0;    // 0: all
  uint64_t kernels_mark = 0;  // for CheckReplay: KernelsMark() when it was captured
};

// A kernel that the device does not take.
struct LoadFailure {
  uint32_t kernel = 0;
  std::string why = "";
};

// A plan on a device. Any number of threads may execute it at once.
class Bound {
 public:
  explicit Bound(kiln_graph_bound* bound) : handle_(bound) {}

  [[nodiscard]] absl::StatusOr<uint64_t> WorkspaceBytes(std::span<const int64_t> symbols) const {
    uint64_t bytes = 0;
    const auto code = kiln_graph_bound_get_workspace(get(), symbols.data(),
                                                     static_cast<uint32_t>(symbols.size()), &bytes);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return bytes;
  }
  [[nodiscard]] absl::StatusOr<uint64_t> BufferBytes(uint32_t buffer,
                                                     std::span<const int64_t> symbols) const {
    uint64_t bytes = 0;
    const auto code = kiln_graph_bound_get_buffer_bytes(
        get(), buffer, symbols.data(), static_cast<uint32_t>(symbols.size()), &bytes);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return bytes;
  }
  // Tells for each kernel with grid barriers whether it is one launch here, and why not.
  [[nodiscard]] absl::StatusOr<std::string> Explain() const {
    const char* text = "";
    const auto code = kiln_graph_bound_get_explanation(get(), &text);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return std::string(text);
  }
  // Kernels that could not be loaded, where another compiler's may do. For Plan::Bind.
  [[nodiscard]] std::vector<LoadFailure> LoadFailures() const {
    std::vector<LoadFailure> failures;
    uint32_t kernel = 0;
    const char* why = "";
    while (kiln_graph_bound_get_load_failure(get(), static_cast<uint32_t>(failures.size()), &kernel,
                                             &why) == KILN_GRAPH_OK) {
      failures.push_back({kernel, why});
    }
    return failures;
  }
  // For kiln_launch_kernel_get_times and the like; it lives as long as this object.
  [[nodiscard]] absl::StatusOr<kiln_launch_kernel*> Kernel(uint32_t number) const {
    kiln_launch_kernel* kernel = nullptr;
    const auto code = kiln_graph_bound_get_kernel(get(), number, &kernel);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return kernel;
  }
  // Launches up to the next step of the engine's, and returns its number, or that of the step after
  // the last. Allocates nothing; can be captured.
  [[nodiscard]] absl::StatusOr<uint32_t> Execute(const Execution& execution) const {
    const kiln_graph_execution given = InC(execution);
    uint32_t next = 0;
    const auto code = kiln_graph_execute(get(), &given, &next);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return next;
  }
  // A number for the kernels that are set now, which no other bound plan has.
  [[nodiscard]] uint64_t KernelsMark() const {
    uint64_t mark = 0;
    kiln_graph_bound_get_kernels_mark(get(), &mark);
    return mark;
  }
  // Before a graph is replayed that captured `captured`, in place of executing `wanted`.
  // INVALID_ARGUMENT: the name of the first buffer, symbol, step or kernel that is another one.
  [[nodiscard]] absl::Status CheckReplay(const Execution& captured, const Execution& wanted) const {
    const kiln_graph_execution before = InC(captured);
    const kiln_graph_execution now = InC(wanted);
    return StatusOf(kiln_graph_check_replay(get(), &before, &now));
  }
  // Counts from now on the sizes that executions ask for. To be called before the first one.
  [[nodiscard]] absl::Status Observe() { return StatusOf(kiln_graph_bound_observe(get())); }
  // What was asked for of each symbol, and the smallest range that holds it. FAILED_PRECONDITION:
  // Observe was not called.
  [[nodiscard]] absl::StatusOr<std::vector<kiln_graph_observed>> ObservedShapes() const {
    std::vector<kiln_graph_observed> shapes;
    while (true) {
      kiln_graph_observed observed{};
      observed.size = sizeof observed;
      const auto code =
          kiln_graph_bound_get_observed(get(), static_cast<uint32_t>(shapes.size()), &observed);
      if (code == KILN_GRAPH_INVALID_ARGUMENT) return shapes;  // there is no such symbol
      if (code != KILN_GRAPH_OK) return StatusOf(code);
      shapes.push_back(observed);
    }
  }
  // Gives the symbols of the plan's segment the observed ranges: Json writes them.
  [[nodiscard]] absl::Status SetRanges(Segment& segment) const {
    return StatusOf(kiln_graph_segment_set_ranges(segment.get(), get()));
  }
  kiln_graph_bound* get() const { return handle_.get(); }

 private:
  static kiln_graph_execution InC(const Execution& execution) {
    kiln_graph_execution given{};
    given.size = sizeof given;
    given.first_step = execution.first_step;
    given.step_count = execution.step_count;
    given.buffers = execution.buffers.data();
    given.buffer_count = static_cast<uint32_t>(execution.buffers.size());
    given.symbols = execution.symbols.data();
    given.symbol_count = static_cast<uint32_t>(execution.symbols.size());
    given.workspace = execution.workspace;
    given.workspace_bytes = execution.workspace_bytes;
    given.stream = execution.stream;
    given.kernels_mark = execution.kernels_mark;
    return given;
  }

  std::unique_ptr<kiln_graph_bound, Closing<kiln_graph_bound_close>> handle_;
};

// A segment's kernels for one target. One thread at a time.
class Plan {
 public:
  // `target`: "cuda:90", "hip:gfx942", "spirv:1.2".
  [[nodiscard]] static absl::StatusOr<Plan> Make(const Segment& segment, const std::string& target,
                                                 const PlanOptions& options = {}) {
    if (!segment.status().ok()) return segment.status();
    kiln_graph_plan_options given = InC(options);
    given.target = target.c_str();
    kiln_graph_plan* opened = nullptr;
    const auto code = kiln_graph_plan_open(segment.get(), &given, &opened);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return Plan(opened, target);
  }

  const std::string& target() const { return target_; }
  // What was fused, what not, and why.
  [[nodiscard]] absl::StatusOr<std::string> Explain() const {
    const char* text = "";
    const auto code = kiln_graph_plan_get_explanation(get(), &text);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return std::string(text);
  }
  // 64 hex digits over all that decides the code.
  [[nodiscard]] absl::StatusOr<std::string> Key() const {
    const char* key = "";
    const auto code = kiln_graph_plan_get_key(get(), &key);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return std::string(key);
  }
  kiln_graph_plan_info Info() const { return Get<kiln_graph_plan_info>(kiln_graph_plan_get_info); }
  kiln_graph_step Step(uint32_t number) const {
    return Get<kiln_graph_step>(kiln_graph_plan_get_step, number);
  }
  kiln_graph_kernel Kernel(uint32_t number) const {
    return Get<kiln_graph_kernel>(kiln_graph_plan_get_kernel, number);
  }
  kiln_graph_buffer Buffer(uint32_t number) const {
    return Get<kiln_graph_buffer>(kiln_graph_plan_get_buffer, number);
  }
  // `number` is one of Info().views.
  kiln_graph_view View(uint32_t number) const {
    return Get<kiln_graph_view>(kiln_graph_plan_get_view, number);
  }
  // The number of the buffer of a value; none: it is never in memory.
  [[nodiscard]] std::optional<uint32_t> FindBuffer(std::string_view value) const {
    for (uint32_t number = 0; number < Info().buffers; ++number) {
      if (Buffer(number).name == value) return number;
    }
    return std::nullopt;
  }

  // Writes the requests of all kernels to a file, which `kiln warm` takes.
  [[nodiscard]] absl::Status WriteManifest(const std::string& path) const {
    return StatusOf(kiln_graph_plan_write_manifest(get(), path.c_str()));
  }

  // Called for each kernel that is there, or failed for good.
  using KernelSink = std::function<void(uint32_t kernel, const absl::Status& status)>;

  // Has the daemon compile all kernels as one batch. A kernel that does not compile is written for
  // the next compiler and asked for again; with none left its operations are the engine's, which
  // is no error: Step tells. UNAVAILABLE: no daemon. What has come is kept, so that a second call
  // asks for the rest.
  [[nodiscard]] absl::Status Compile(kiln::Client& client, const KernelSink& sink = {},
                                     const kiln::ManyOptions& options = {});
  // Compiles all kernels on a thread of its own, as Compile does. Do not use the plan before the
  // thread has ended: join it. `done` is called at the end.
  [[nodiscard]] std::jthread Preload(kiln::Client& client,
                                     std::function<void(const absl::Status&)> done,
                                     KernelSink sink = {}) {
    return std::jthread([this, &client, done = std::move(done), sink = std::move(sink)] {
      const absl::Status status = Compile(client, sink);
      if (done) done(status);
    });
  }

  // Writes a kernel for the next compiler, after a failure for the reason `why`: Compile asks for
  // it. NOT_FOUND: there is none; its operations are the engine's, or a variant is dropped.
  [[nodiscard]] absl::Status UseNextCompiler(uint32_t kernel, const std::string& why) {
    responses_.erase(kernel);
    return StatusOf(kiln_graph_plan_use_next_compiler(get(), kernel, why.c_str()));
  }

  // Loads the compiled kernels. FAILED_PRECONDITION: one has not been compiled. `failures`: the
  // kernels that cannot be loaded, for which UseNextCompiler may help; the first one's error is
  // what this returns.
  [[nodiscard]] absl::StatusOr<Bound> Bind(kiln_launch_runtime* runtime, int device,
                                           std::vector<LoadFailure>* failures = nullptr) const {
    kiln_graph_bound* opened = nullptr;
    const auto code = kiln_graph_bind(get(), runtime, device, &opened);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    Bound bound(opened);
    absl::Status first;
    for (const auto& [kernel, response] : responses_) {
      if (Kernel(kernel).step < 0) continue;
      first.Update(StatusOf(
          kiln_graph_bound_set_response(opened, kernel, response.data(), response.size())));
    }
    first.Update(StatusOf(kiln_graph_bound_prepare(opened)));
    if (first.ok()) return bound;
    if (failures != nullptr) *failures = bound.LoadFailures();
    return first;
  }
  // As Bind, but kernels that cannot be loaded are compiled for the next compiler, until all load
  // or are the engine's: read steps and buffers afterwards.
  [[nodiscard]] absl::StatusOr<Bound> Bind(kiln::Client& client, kiln_launch_runtime* runtime,
                                           int device) {
    while (true) {
      std::vector<LoadFailure> failures;
      absl::StatusOr<Bound> bound = Bind(runtime, device, &failures);
      if (bound.ok() || failures.empty()) return bound;
      for (const LoadFailure& each : failures) {
        absl::Status next = UseNextCompiler(each.kernel, each.why);
        if (!next.ok() && !absl::IsNotFound(next)) return next;  // NOT_FOUND: it is the engine's
      }
      absl::Status compiled = Compile(client);
      if (!compiled.ok()) return compiled;
    }
  }
  kiln_graph_plan* get() const { return handle_.get(); }

 private:
  friend class Plans;
  class Batch;

  Plan(kiln_graph_plan* opened, std::string target) : target_(std::move(target)), handle_(opened) {}
  static kiln_graph_plan_options InC(const PlanOptions& options) {
    kiln_graph_plan_options given{};
    given.size = sizeof given;
    if (!options.compilers.empty()) given.compilers = options.compilers.c_str();
    if (!options.forced.empty()) given.forced = options.forced.c_str();
    if (!options.off.empty()) given.off = options.off.c_str();
    given.no_fusion = options.fuses ? 0 : 1;
    given.keeps_small_sections = options.keeps_small_sections ? 1 : 0;
    given.fast_math = options.fast_math ? 1 : 0;
    given.no_splits = options.splits_ranges ? 0 : 1;
    given.takes_views = options.takes_views ? 1 : 0;
    if (!options.barriers.empty()) given.barriers = options.barriers.c_str();
    given.log = options.log;
    given.log_data = options.log_data;
    return given;
  }
  // Zeroes where there is no such number.
  template <typename Struct, typename... Numbers>
  Struct Get(auto get_struct, Numbers... numbers) const {
    Struct out{};
    out.size = sizeof out;
    static_cast<void>(get_struct(get(), numbers..., &out));
    return out;
  }

  std::string target_;
  std::unique_ptr<kiln_graph_plan, Closing<kiln_graph_plan_close>> handle_;
  std::map<uint32_t, std::string> responses_;  // serialized, by kernel
};

// A segment's kernels for several targets: a plan for each that can have one. One thread at a time.
//
//   auto plans = kiln::graph::Plans::Make(segment, {"cuda:80", "cuda:90", "hip:gfx942"});
//   auto compiled = plans->Compile(*client);
//   auto bound = plans->Bind(runtime, /*device=*/0);
class Plans {
 public:
  struct Refusal {
    std::string target;
    std::string why;
  };

  // A target that none of the compilers makes code for is refused. INVALID_ARGUMENT: a target that
  // is none, or is named twice; all are refused, each with its reason.
  [[nodiscard]] static absl::StatusOr<Plans> Make(const Segment& segment,
                                                  const std::vector<std::string>& targets,
                                                  const PlanOptions& options = {}) {
    if (!segment.status().ok()) return segment.status();
    const kiln_graph_plan_options given = Plan::InC(options);
    std::vector<const char*> names;
    for (const std::string& target : targets) names.push_back(target.c_str());
    std::vector<kiln_graph_plan*> opened(targets.size());
    std::vector<const char*> refusals(targets.size());
    const auto code =
        kiln_graph_plans_open(segment.get(), &given, names.data(),
                              static_cast<uint32_t>(names.size()), opened.data(), refusals.data());
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    Plans made;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (opened[i] != nullptr) {
        made.plans_.push_back(Plan(opened[i], targets[i]));
      } else {
        made.refusals_.push_back({targets[i], refusals[i]});
      }
    }
    return made;
  }

  std::vector<Plan>& plans() { return plans_; }  // in the order of the targets
  const std::vector<Plan>& plans() const { return plans_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }

  // Each plan's Explain, behind a line with its target, and a line for each refusal.
  [[nodiscard]] absl::StatusOr<std::string> Explain() const {
    std::string text;
    for (const Plan& plan : plans_) {
      const absl::StatusOr<std::string> explained = plan.Explain();
      if (!explained.ok()) return explained.status();
      text += "for " + plan.target() + "\n" + *explained;
    }
    for (const Refusal& each : refusals_) text += "not for " + each.target + ": " + each.why + "\n";
    return text;
  }
  // Writes the requests of all plans to one file, which `kiln warm` takes.
  [[nodiscard]] absl::Status WriteManifest(const std::string& path) const {
    const std::vector<kiln_graph_plan*> all = Handles();
    return StatusOf(kiln_graph_plans_write_manifest(all.data(), static_cast<uint32_t>(all.size()),
                                                    path.c_str()));
  }

  // Called for each kernel of a plan that is there, or failed for good.
  using KernelSink = std::function<void(Plan& plan, uint32_t kernel, const absl::Status& status)>;

  // Has the daemon compile all kernels of all plans as one batch, each as Plan::Compile does it.
  [[nodiscard]] absl::Status Compile(kiln::Client& client, const KernelSink& sink = {},
                                     const kiln::ManyOptions& options = {});

  // On a thread of its own, as Plan::Preload.
  [[nodiscard]] std::jthread Preload(kiln::Client& client,
                                     std::function<void(const absl::Status&)> done,
                                     KernelSink sink = {}) {
    return std::jthread([this, &client, done = std::move(done), sink = std::move(sink)] {
      const absl::Status status = Compile(client, sink);
      if (done) done(status);
    });
  }

  // The plan of the device's target. NOT_FOUND: there is none; the message names the device.
  [[nodiscard]] absl::StatusOr<Plan*> For(kiln_launch_runtime* runtime, int device) {
    const std::vector<kiln_graph_plan*> all = Handles();
    uint32_t number = 0;
    const auto code = kiln_graph_plans_find(all.data(), static_cast<uint32_t>(all.size()), runtime,
                                            device, &number);
    if (code != KILN_GRAPH_OK) return StatusOf(code);
    return &plans_[number];
  }
  // That plan's Bind.
  [[nodiscard]] absl::StatusOr<Bound> Bind(kiln_launch_runtime* runtime, int device,
                                           std::vector<LoadFailure>* failures = nullptr) {
    const absl::StatusOr<Plan*> plan = For(runtime, device);
    if (!plan.ok()) return plan.status();
    return (*plan)->Bind(runtime, device, failures);
  }
  [[nodiscard]] absl::StatusOr<Bound> Bind(kiln::Client& client, kiln_launch_runtime* runtime,
                                           int device) {
    const absl::StatusOr<Plan*> plan = For(runtime, device);
    if (!plan.ok()) return plan.status();
    return (*plan)->Bind(client, runtime, device);
  }

 private:
  Plans() = default;
  std::vector<kiln_graph_plan*> Handles() const {
    std::vector<kiln_graph_plan*> handles;
    for (const Plan& plan : plans_) handles.push_back(plan.get());
    return handles;
  }

  std::vector<Plan> plans_;
  std::vector<Refusal> refusals_;
};

}  // namespace kiln::graph

#include <kiln/graph_compile.h>
