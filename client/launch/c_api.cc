// kiln_launch.h: translates, and catches what must not cross it.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/launch/cuda_driver.h"
#include "client/launch/hip_driver.h"
#include "client/launch/kiln_launch.h"
#include "client/launch/launcher.h"
#include "client/launch/parameter_type.h"
#include "client/launch/tensor_descriptor.h"
#include "client/launch/tuner.h"

using namespace kiln::launch;  // NOLINT: this file is their interface

struct kiln_launch_runtime {
  explicit kiln_launch_runtime(std::unique_ptr<Driver> driver) : launcher(std::move(driver)) {}

  struct Hooks {
    kiln_launch_hook enter;
    kiln_launch_hook exit;
    void* user;
  };

  Launcher launcher;
  Tuner tuner{launcher};
  std::mutex mutex;
  std::vector<std::unique_ptr<Hooks>> hooks;  // those of earlier settings may still run
};

struct kiln_launch_artifact {
  std::shared_ptr<const Artifact> artifact;
};

struct kiln_launch_kernel {
  Launcher& launcher;
  std::shared_ptr<Kernel> kernel;
};

struct kiln_launch_descriptor {
  std::unique_ptr<TensorDescriptor> descriptor;
};

namespace {

thread_local std::string last_error;
thread_local int32_t last_driver_result = 0;

kiln_launch_code Report(const Status& status) {
  if (status.ok()) return KILN_LAUNCH_OK;
  last_error = status.message();
  last_driver_result = status.driver_result();
  return static_cast<kiln_launch_code>(status.code());
}

// Runs `body`, which returns a Status.
template <typename Body>
kiln_launch_code Guarded(Body body) noexcept {
  try {
    return Report(body());
  } catch (const std::bad_alloc&) {
    // A message would need memory again; the one that was there may be wrong, so there is none.
    last_error.clear();
    return KILN_LAUNCH_RESOURCE_EXHAUSTED;
  } catch (const std::exception& error) {
    return Report(Internal("{}", error.what()));
  }
}

// A struct of an older or a newer program, as this library knows it.
template <typename Struct>
StatusOr<Struct> Read(const Struct* given) {
  Struct known{};
  if (given == nullptr) return known;
  if (given->size < sizeof given->size) {
    return InvalidArgument("a struct's size is {}: set it to sizeof the struct", given->size);
  }
  std::memcpy(&known, given, std::min<size_t>(given->size, sizeof known));
  return known;
}

template <typename Struct>
Status Write(Struct value, Struct* out) {
  if (out == nullptr || out->size < sizeof out->size) {
    return InvalidArgument("a struct that is to be filled in has no size: set it to sizeof it");
  }
  value.size = out->size;
  std::memcpy(out, &value, std::min<size_t>(out->size, sizeof value));
  return Status();
}

template <typename... Pointers>
Status CheckNotNull(Pointers... pointers) {
  if (((pointers != nullptr) && ...)) return Status();
  return InvalidArgument("an argument is NULL that must not be");
}

std::optional<Sha256Digest> DigestAt(const uint8_t* bytes) {
  if (bytes == nullptr) return std::nullopt;
  Sha256Digest digest;
  std::memcpy(digest.data(), bytes, digest.size());
  return digest;
}

template <size_t n>
void CopyText(const std::string& text, char (&out)[n]) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

// --- Runtimes ---

StatusOr<SharedLibrary> OpenDriverLibrary(const std::string& backend, const char* path) {
  if (backend == "cuda") {
    return SharedLibrary::Open(path == nullptr ? CudaDriver::kDefaultPath : path);
  }
  if (backend == "hip") return HipDriver::OpenLibrary(path == nullptr ? "" : path);
  return InvalidArgument("there is no backend \"{}\": it is cuda or hip", backend);
}

StatusOr<std::unique_ptr<Driver>> OpenDriver(const std::string& backend,
                                             const SharedLibrary& library) {
  return backend == "cuda" ? CudaDriver::Open(library) : HipDriver::Open(library);
}

// One for each library, whatever names it is opened by. Never destroyed: graphs call back as long
// as the driver lives.
StatusOr<kiln_launch_runtime*> OpenRuntime(const kiln_launch_open_options& options) {
  static auto& mutex = *new std::mutex;
  static auto& runtimes = *new std::map<std::pair<std::string, const void*>, kiln_launch_runtime*>;
  const std::string backend = options.backend == nullptr ? "cuda" : options.backend;
  LAUNCH_ASSIGN_OR_RETURN(const SharedLibrary library,
                          OpenDriverLibrary(backend, options.driver_path));
  const std::lock_guard lock(mutex);
  kiln_launch_runtime*& runtime = runtimes[{backend, library.id()}];
  if (runtime == nullptr) {
    LAUNCH_ASSIGN_OR_RETURN(std::unique_ptr<Driver> driver, OpenDriver(backend, library));
    runtime = new kiln_launch_runtime(std::move(driver));
  }
  return runtime;
}

void CallHook(kiln_launch_hook hook, void* user, const Kernel& kernel, const LaunchCall& call,
              const Status& status) {
  kiln_launch_event event{};
  event.size = sizeof event;
  event.code = static_cast<kiln_launch_code>(status.code());
  event.kernel = kernel.artifact().metadata().name.c_str();
  event.key = kernel.artifact().id().key.data();
  event.stream = call.stream;
  std::copy(call.grid.begin(), call.grid.end(), event.grid);
  hook(user, &event);
}

void CallEnter(void* user, const Kernel& kernel, const LaunchCall& call, const Status& status) {
  const auto& hooks = *static_cast<const kiln_launch_runtime::Hooks*>(user);
  if (hooks.enter != nullptr) CallHook(hooks.enter, hooks.user, kernel, call, status);
}

void CallExit(void* user, const Kernel& kernel, const LaunchCall& call, const Status& status) {
  const auto& hooks = *static_cast<const kiln_launch_runtime::Hooks*>(user);
  if (hooks.exit != nullptr) CallHook(hooks.exit, hooks.user, kernel, call, status);
}

LaunchHooks AdaptHooks(kiln_launch_runtime& runtime, const kiln_launch_settings& settings) {
  if (settings.enter_hook == nullptr && settings.exit_hook == nullptr) return {};
  const std::lock_guard lock(runtime.mutex);
  runtime.hooks.push_back(std::make_unique<kiln_launch_runtime::Hooks>(
      kiln_launch_runtime::Hooks{settings.enter_hook, settings.exit_hook, settings.hook_user}));
  return {CallEnter, CallExit, runtime.hooks.back().get()};
}

// --- Launches ---

LaunchCall CallOf(const kiln_launch_config& config, const void* const* arguments, uint32_t count) {
  LaunchCall call;
  std::copy(std::begin(config.grid), std::end(config.grid), call.grid.begin());
  std::copy(std::begin(config.block), std::end(config.block), call.block.begin());
  call.dynamic_shared_bytes = config.dynamic_shared_bytes;
  call.stream = config.stream;
  call.pdl = config.pdl != 0;
  call.cooperative = config.cooperative != 0;
  call.arguments = arguments;
  call.argument_count = count;
  call.argument_bytes = config.argument_bytes;
  return call;
}

Tensor TensorOf(const kiln_launch_tensor& given) {
  // Of a rank that is no rank, so much as there is; what follows refuses it.
  const size_t rank = std::min<size_t>(given.rank, kTensorRankMax);
  Tensor tensor;
  tensor.address = given.address;
  tensor.shape.assign(given.shape, given.shape + rank);
  tensor.strides.assign(given.strides, given.strides + rank);
  tensor.fills_with_nan = given.fills_with_nan != 0;
  tensor.rounds_to_tf32 = given.rounds_to_tf32 != 0;
  return tensor;
}

// --- Autotuning ---

// Number `index` of structs that lie one behind the other, as the program that wrote them has them.
template <typename Struct>
Struct* At(Struct* first, uint32_t index) {
  return reinterpret_cast<Struct*>(reinterpret_cast<uintptr_t>(first) +
                                   uintptr_t{first->size} * index);
}

StatusOr<std::vector<Candidate>> CandidatesOf(const kiln_launch_candidate* candidates,
                                              uint32_t count) {
  std::vector<Candidate> result;
  for (uint32_t i = 0; i < count; ++i) {
    const kiln_launch_candidate* given = At(candidates, i);
    if (given->size != candidates->size) {
      return InvalidArgument("candidate {} has a size of {}, the first of {}", i, given->size,
                             candidates->size);
    }
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_candidate known, Read(given));
    Candidate& candidate = result.emplace_back();
    if (known.kernel == nullptr) continue;
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.config));
    if (known.argument_count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.arguments));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_config config, Read(known.config));
    candidate.kernel = known.kernel->kernel;
    candidate.call = CallOf(config, known.arguments, known.argument_count);
  }
  return result;
}

StatusOr<std::vector<MemoryRange>> RangesOf(const kiln_launch_range* ranges, uint64_t count) {
  if (count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(ranges));
  std::vector<MemoryRange> result;
  for (uint64_t i = 0; i < count; ++i) result.push_back({ranges[i].address, ranges[i].bytes});
  return result;
}

StatusOr<TuningStore> StoreOf(const kiln_launch_tuning_store* store) {
  LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_tuning_store known, Read(store));
  if (store != nullptr) LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.find, known.put));
  return TuningStore{known.find, known.put, known.user};
}

StatusOr<TuningRequest> TuningRequestOf(const kiln_launch_autotune_options* options) {
  LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_autotune_options known, Read(options));
  if (known.problem_bytes > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.problem));
  TuningRequest request;
  request.stream = known.stream;
  LAUNCH_ASSIGN_OR_RETURN(request.reads, RangesOf(known.reads, known.read_count));
  LAUNCH_ASSIGN_OR_RETURN(request.writes, RangesOf(known.writes, known.write_count));
  if (known.problem_bytes > 0) {
    request.problem.assign(static_cast<const char*>(known.problem), known.problem_bytes);
  }
  if (known.warmup_ms > 0) request.timing.warmup_ms = known.warmup_ms;
  if (known.repeat_ms > 0) request.timing.repeat_ms = known.repeat_ms;
  if (known.flush_bytes > 0) request.timing.flush_bytes = known.flush_bytes;
  LAUNCH_ASSIGN_OR_RETURN(request.store, StoreOf(known.store));
  request.is_cancelled = known.is_cancelled;
  request.cancel_user = known.cancel_user;
  return request;
}

// Before anything runs: what cannot be written afterwards is lost.
Status CheckTuned(const kiln_launch_tuned* tuned, uint32_t count) {
  if (tuned == nullptr) return Status();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t size = At(tuned, i)->size;
    if (size >= sizeof size && size == tuned->size) continue;
    return InvalidArgument("result {} has a size of {}, the first of {}: set each to sizeof it", i,
                           size, tuned->size);
  }
  return Status();
}

Status WriteTuned(const std::vector<CandidateResult>& results, kiln_launch_tuned* tuned) {
  if (tuned == nullptr) return Status();
  for (uint32_t i = 0; i < results.size(); ++i) {
    kiln_launch_tuned result{};
    result.code = static_cast<kiln_launch_code>(results[i].status.code());
    result.is_stored = results[i].is_stored ? 1 : 0;
    result.runs = results[i].times.runs;
    result.median_ms = results[i].times.median_ms;
    result.low_ms = results[i].times.low_ms;
    result.high_ms = results[i].times.high_ms;
    CopyText(std::string(results[i].status.message()), result.reason);
    LAUNCH_RETURN_IF_ERROR(Write(result, At(tuned, i)));
  }
  return Status();
}

template <typename Opened, typename Handle>
Status Give(StatusOr<Opened> opened, Handle** out) {
  if (!opened.ok()) return opened.status();
  *out = new Handle{*std::move(opened)};
  return Status();
}

}  // namespace

extern "C" {

const char* kiln_launch_version(void) { return KILN_VERSION; }

const char* kiln_launch_error(void) { return last_error.c_str(); }

int32_t kiln_launch_driver_result(void) { return last_driver_result; }

// --- Runtime ---

kiln_launch_code kiln_launch_open(const kiln_launch_open_options* options,
                                  kiln_launch_runtime** runtime) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_open_options known, Read(options));
    LAUNCH_ASSIGN_OR_RETURN(*runtime, OpenRuntime(known));
    return Status();
  });
}

// The next open finds what this one has loaded.
void kiln_launch_close(kiln_launch_runtime*) {}

kiln_launch_code kiln_launch_configure(kiln_launch_runtime* runtime,
                                       const kiln_launch_settings* settings) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, settings));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_settings known, Read(settings));
    LauncherSettings result;
    result.limits = {known.resident_kernels_max, known.resident_bytes_max};
    result.is_strict = known.strict != 0;
    result.times_launches = known.times_launches != 0;
    result.scratch = {known.scratch_allocate, known.scratch_release, known.scratch_user};
    result.hooks = AdaptHooks(*runtime, known);
    runtime->launcher.Configure(result);
    return Status();
  });
}

kiln_launch_code kiln_launch_get_stats(kiln_launch_runtime* runtime, kiln_launch_stats* stats) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime));
    const LauncherStats now = runtime->launcher.Stats();
    kiln_launch_stats result{};
    result.kernels_open = now.residency.open;
    result.kernels_resident = now.residency.resident;
    result.resident_bytes = now.residency.resident_bytes;
    result.loads = now.residency.loads;
    result.loads_at_launch = now.loads_at_launch;
    result.refused_launches = now.refused_launches;
    result.unloads = now.residency.unloads;
    result.evictions = now.residency.evictions;
    result.unloads_put_off = now.residency.unloads_put_off;
    result.out_of_memory_loads = now.residency.out_of_memory_loads;
    result.live_graphs = now.live_graphs;
    return Write(result, stats);
  });
}

kiln_launch_code kiln_launch_trim(kiln_launch_runtime* runtime) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime));
    runtime->launcher.Trim();
    return Status();
  });
}

kiln_launch_code kiln_launch_get_device(kiln_launch_runtime* runtime, int32_t device,
                                        kiln_launch_device* out) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime));
    LAUNCH_ASSIGN_OR_RETURN(const DeviceFacts facts, runtime->launcher.Device(device));
    kiln_launch_device result{};
    result.ordinal = facts.ordinal;
    CopyText(facts.name, result.name);
    CopyText(facts.architecture, result.architecture);
    result.warp_size = static_cast<uint32_t>(facts.warp_size);
    result.threads_max = static_cast<uint32_t>(facts.threads_max);
    result.shared_bytes_max = static_cast<uint64_t>(facts.shared_bytes_max);
    result.l2_bytes = static_cast<uint64_t>(facts.l2_bytes);
    return Write(result, out);
  });
}

kiln_launch_code kiln_launch_address_get_device(kiln_launch_runtime* runtime, uint64_t address,
                                                int32_t* device) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, device));
    LAUNCH_ASSIGN_OR_RETURN(*device, runtime->launcher.driver().DeviceOf(address));
    return Status();
  });
}

// --- Artifacts ---

kiln_launch_code kiln_launch_artifact_open_hot(const char* path,
                                               const kiln_launch_hot_options* options,
                                               kiln_launch_artifact** artifact) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(path, artifact));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_hot_options known, Read(options));
    std::optional<uid_t> server_uid;
    if (known.has_server_uid != 0) server_uid = known.server_uid;
    return Give(Artifact::FromHotFile(path, DigestAt(known.key), server_uid), artifact);
  });
}

kiln_launch_code kiln_launch_artifact_open_json(const char* path, kiln_launch_artifact** artifact) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(path, artifact));
    return Give(Artifact::FromJsonFile(path), artifact);
  });
}

kiln_launch_code kiln_launch_artifact_open_bytes(const kiln_launch_bytes* bytes,
                                                 kiln_launch_artifact** artifact) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(bytes, artifact));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_bytes known, Read(bytes));
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.json, known.binary));
    return Give(Artifact::FromBytes({known.json, known.json_bytes},
                                    {static_cast<const char*>(known.binary), known.binary_bytes},
                                    DigestAt(known.digest), DigestAt(known.key)),
                artifact);
  });
}

void kiln_launch_artifact_close(kiln_launch_artifact* artifact) { delete artifact; }

kiln_launch_code kiln_launch_artifact_get_info(const kiln_launch_artifact* artifact,
                                               kiln_launch_artifact_info* info) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(artifact));
    const Artifact& of = *artifact->artifact;
    const KernelMetadata& metadata = of.metadata();
    kiln_launch_artifact_info result{};
    result.parameter_count = static_cast<uint32_t>(metadata.parameters.size());
    result.name = metadata.name.c_str();
    result.backend = metadata.backend.c_str();
    result.architecture = metadata.architecture.c_str();
    result.key = of.id().key.data();
    result.digest = of.id().binary.data();
    result.binary_bytes = of.binary().size();
    result.num_warps = static_cast<uint32_t>(metadata.num_warps);
    result.num_ctas = static_cast<uint32_t>(metadata.num_ctas);
    result.warp_size = static_cast<uint32_t>(metadata.warp_size);
    result.hidden_pointers = static_cast<uint32_t>(metadata.hidden_pointers);
    result.shared_bytes = static_cast<uint64_t>(metadata.shared_bytes);
    result.global_scratch_bytes = static_cast<uint64_t>(metadata.global_scratch_bytes);
    result.profile_scratch_bytes = static_cast<uint64_t>(metadata.profile_scratch_bytes);
    return Write(result, info);
  });
}

kiln_launch_code kiln_launch_artifact_get_parameter(const kiln_launch_artifact* artifact,
                                                    uint32_t index,
                                                    kiln_launch_parameter* parameter) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(artifact));
    const auto& parameters = artifact->artifact->metadata().parameters;
    if (index >= parameters.size()) {
      return InvalidArgument("{} has {} parameters, there is no number {}",
                             artifact->artifact->label(), parameters.size(), index);
    }
    kiln_launch_parameter result{};
    result.bytes = static_cast<uint32_t>(BytesOfType(parameters[index].type));
    result.name = parameters[index].name.c_str();
    result.type = parameters[index].type.c_str();
    return Write(result, parameter);
  });
}

// --- Kernels ---

kiln_launch_code kiln_launch_kernel_open(kiln_launch_runtime* runtime,
                                         kiln_launch_artifact* artifact, int32_t device,
                                         kiln_launch_kernel** kernel) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, artifact, kernel));
    LAUNCH_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> opened,
                            runtime->launcher.Open(artifact->artifact, device));
    *kernel = new kiln_launch_kernel{runtime->launcher, std::move(opened)};
    return Status();
  });
}

void kiln_launch_kernel_close(kiln_launch_kernel* kernel) {
  if (kernel == nullptr) return;
  Guarded([&] {
    kernel->launcher.Close(*kernel->kernel);
    return Status();
  });
  delete kernel;
}

kiln_launch_code kiln_launch_prepare(kiln_launch_kernel* kernel) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel));
    return kernel->launcher.Prepare(*kernel->kernel);
  });
}

kiln_launch_code kiln_launch_enqueue(kiln_launch_kernel* kernel, const kiln_launch_config* config,
                                     const void* const* arguments, uint32_t argument_count) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel, config));
    if (argument_count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(arguments));
    if (config->size == sizeof *config) {
      return kernel->launcher.Enqueue(kernel->kernel, CallOf(*config, arguments, argument_count));
    }
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_config known, Read(config));
    return kernel->launcher.Enqueue(kernel->kernel, CallOf(known, arguments, argument_count));
  });
}

kiln_launch_code kiln_launch_stream_wait(kiln_launch_kernel* kernel, void* stream, void* producer) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel));
    return kernel->launcher.Order(*kernel->kernel, stream, producer);
  });
}

kiln_launch_code kiln_launch_kernel_get_info(kiln_launch_kernel* kernel,
                                             kiln_launch_kernel_info* info) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel));
    const StatusOr<FunctionFacts> facts = kernel->launcher.FactsOf(*kernel->kernel);
    if (!facts.ok()) return facts.status();
    kiln_launch_kernel_info result{};
    result.registers = static_cast<uint32_t>(facts->registers);
    result.local_bytes = static_cast<uint32_t>(facts->local_bytes);
    result.static_shared_bytes = static_cast<uint32_t>(facts->static_shared_bytes);
    result.threads_max = static_cast<uint32_t>(facts->threads_max);
    return Write(result, info);
  });
}

kiln_launch_code kiln_launch_kernel_get_times(kiln_launch_kernel* kernel, uint32_t reset,
                                              kiln_launch_times* times) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel));
    LAUNCH_ASSIGN_OR_RETURN(const KernelTimes read, kernel->launcher.TimesOf(*kernel->kernel));
    if (reset != 0) kernel->kernel->timer().Reset();
    kiln_launch_times result{};
    result.launches = read.launches;
    result.dropped = read.dropped;
    result.total_ms = read.total_ms;
    result.min_ms = read.min_ms;
    result.max_ms = read.max_ms;
    return Write(result, times);
  });
}

// --- Tensor descriptors ---

kiln_launch_code kiln_launch_descriptor_open(kiln_launch_kernel* kernel, uint32_t parameter,
                                             const kiln_launch_tensor* tensor,
                                             kiln_launch_descriptor** descriptor) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel, tensor, descriptor));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_tensor known, Read(tensor));
    const Artifact& artifact = kernel->kernel->artifact();
    Status status = Give(TensorDescriptor::Make(kernel->launcher.driver(), artifact.metadata(),
                                                parameter, TensorOf(known)),
                         descriptor);
    return status.Annotate(artifact.label());
  });
}

void kiln_launch_descriptor_close(kiln_launch_descriptor* descriptor) { delete descriptor; }

kiln_launch_code kiln_launch_descriptor_get_arguments(const kiln_launch_descriptor* descriptor,
                                                      const void** arguments, uint32_t capacity,
                                                      uint32_t* count) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(descriptor, arguments, count));
    const auto& all = descriptor->descriptor->arguments();
    if (all.size() > capacity) {
      return InvalidArgument("the descriptor has {} arguments, there is room for {}", all.size(),
                             capacity);
    }
    std::copy(all.begin(), all.end(), arguments);
    *count = static_cast<uint32_t>(all.size());
    return Status();
  });
}

// --- Graphs ---

kiln_launch_code kiln_launch_graph_set_name(kiln_launch_runtime* runtime, void* stream,
                                            const char* name) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, name));
    return runtime->launcher.graphs().Name(stream, name);
  });
}

kiln_launch_code kiln_launch_graph_add_buffer(kiln_launch_runtime* runtime, void* stream,
                                              uint64_t address, uint64_t bytes, const char* name) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, name));
    return runtime->launcher.graphs().AddBuffer(
        stream, {address, std::max<uint64_t>(bytes, 1), fmt::format("buffer {}", name)});
  });
}

kiln_launch_code kiln_launch_check_free(kiln_launch_runtime* runtime, uint64_t address,
                                        uint64_t bytes) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime));
    return runtime->launcher.graphs().CheckFree(address, std::max<uint64_t>(bytes, 1));
  });
}

// --- Autotuning ---

kiln_launch_code kiln_launch_autotune(kiln_launch_runtime* runtime,
                                      const kiln_launch_candidate* candidates, uint32_t count,
                                      const kiln_launch_autotune_options* options,
                                      kiln_launch_tuned* tuned, uint32_t* fastest) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(runtime, candidates, fastest));
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<Candidate> known, CandidatesOf(candidates, count));
    LAUNCH_ASSIGN_OR_RETURN(const TuningRequest request, TuningRequestOf(options));
    LAUNCH_RETURN_IF_ERROR(CheckTuned(tuned, count));
    std::vector<CandidateResult> results;
    const StatusOr<size_t> found = runtime->tuner.Tune(known, request, results);
    LAUNCH_RETURN_IF_ERROR(WriteTuned(results, tuned));
    if (!found.ok()) return found.status();
    *fastest = static_cast<uint32_t>(*found);
    return Status();
  });
}

}  // extern "C"
