// Implements kiln_launch.h: translates types, and turns exceptions into codes.
#include <cassert>
#include <map>
#include <mutex>
#include <optional>

#include "client/launch/artifact/parameter_type.h"
#include "client/launch/c_edge.h"
#include "client/launch/driver/cuda_driver.h"
#include "client/launch/driver/hip_driver.h"
#include "client/launch/driver/opencl_driver.h"

namespace kiln::launch {
namespace {

struct LastError {
  std::string words;
  int32_t driver_result = 0;
};
thread_local LastError last_error;

}  // namespace

kiln_launch_code ReportFailure(const Status& status) {
  assert(!status.ok());
  last_error.words = status.message();
  last_error.driver_result = status.driver_result();
  return static_cast<kiln_launch_code>(status.code());
}

kiln_launch_code ReportException() noexcept {
  last_error = {};
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return KILN_LAUNCH_RESOURCE_EXHAUSTED;  // a text would need memory again
  } catch (const std::exception& exception) {
    last_error.words = exception.what();
  } catch (...) {
  }
  return KILN_LAUNCH_INTERNAL;
}

}  // namespace kiln::launch

using namespace kiln::launch;  // NOLINT: this file is their interface

namespace {

std::optional<Sha256Digest> OptionalDigestAt(const uint8_t* bytes) {
  return bytes == nullptr ? std::nullopt : std::optional(DigestAt(bytes));
}

// --- Runtimes ---

StatusOr<std::unique_ptr<Driver>> OpenDriver(std::string_view backend, const char* path) {
  if (backend == "cuda") return path == nullptr ? CudaDriver::Open() : CudaDriver::Open(path);
  if (backend == "hip") return path == nullptr ? HipDriver::Open() : HipDriver::Open(path);
  if (backend == "spirv") return path == nullptr ? OpenClDriver::Open() : OpenClDriver::Open(path);
  return InvalidArgument("there is no backend \"{}\": it is cuda, hip or spirv", backend);
}

// One runtime for each library, also when two names open the same library. Never destroyed: graphs
// call back as long as the driver lives.
StatusOr<kiln_launch_runtime*> OpenRuntime(const kiln_launch_open_options& options) {
  static auto& mutex = *new std::mutex;
  static auto& runtimes =
      *new std::map<std::pair<std::string_view, const void*>, kiln_launch_runtime*>;
  LAUNCH_ASSIGN_OR_RETURN(
      std::unique_ptr<Driver> driver,
      OpenDriver(options.backend == nullptr ? "cuda" : options.backend, options.driver_path));
  const std::lock_guard lock(mutex);
  kiln_launch_runtime*& runtime = runtimes[{driver->backend(), driver->library_id()}];
  if (runtime == nullptr) runtime = new kiln_launch_runtime(std::move(driver));
  return runtime;
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

const char* kiln_launch_error(void) { return last_error.words.c_str(); }

int32_t kiln_launch_driver_result(void) { return last_error.driver_result; }

// --- Runtime ---

kiln_launch_code kiln_launch_open(const kiln_launch_open_options* options,
                                  kiln_launch_runtime** runtime) {
  return Guarded({runtime}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_open_options known, Read(options));
    LAUNCH_ASSIGN_OR_RETURN(*runtime, OpenRuntime(known));
    return Status();
  });
}

// Does nothing: the next open returns the same runtime, with its loaded kernels.
void kiln_launch_close(kiln_launch_runtime*) {}

kiln_launch_code kiln_launch_configure(kiln_launch_runtime* runtime,
                                       const kiln_launch_settings* settings) {
  return Guarded({runtime, settings}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_settings known, Read(settings));
    runtime->launcher.Configure(known);
    return Status();
  });
}

kiln_launch_code kiln_launch_get_stats(kiln_launch_runtime* runtime, kiln_launch_stats* stats) {
  return Guarded({runtime}, [&]() -> Status { return Write(runtime->launcher.Stats(), stats); });
}

kiln_launch_code kiln_launch_trim(kiln_launch_runtime* runtime) {
  return Guarded({runtime}, [&]() -> Status {
    runtime->launcher.Trim();
    return Status();
  });
}

kiln_launch_code kiln_launch_get_device(kiln_launch_runtime* runtime, int32_t device,
                                        kiln_launch_device* out) {
  return Guarded({runtime}, [&]() -> Status {
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
  return Guarded({runtime, device}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(*device, runtime->launcher.driver().DeviceOf(address));
    return Status();
  });
}

kiln_launch_code kiln_launch_get_context(kiln_launch_runtime* runtime, int32_t device,
                                         void** context) {
  return Guarded({runtime, context}, [&]() -> Status {
    Driver& driver = runtime->launcher.driver();
    LAUNCH_ASSIGN_OR_RETURN(*context,
                            device < 0 ? driver.CurrentContext() : driver.PrimaryContext(device));
    return Status();
  });
}

kiln_launch_code kiln_launch_set_context(kiln_launch_runtime* runtime, void* context) {
  return Guarded({runtime},
                 [&]() -> Status { return runtime->launcher.driver().SetContext(context); });
}

// --- Artifacts ---

kiln_launch_code kiln_launch_artifact_open_hot(const char* path,
                                               const kiln_launch_hot_options* options,
                                               kiln_launch_artifact** artifact) {
  return Guarded({path, artifact}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_hot_options known, Read(options));
    std::optional<uid_t> server_uid;
    if (known.has_server_uid != 0) server_uid = known.server_uid;
    return Give(Artifact::FromHotFile(path, OptionalDigestAt(known.key), server_uid), artifact);
  });
}

kiln_launch_code kiln_launch_artifact_open_json(const char* path, kiln_launch_artifact** artifact) {
  return Guarded({path, artifact},
                 [&]() -> Status { return Give(Artifact::FromJsonFile(path), artifact); });
}

kiln_launch_code kiln_launch_artifact_open_bytes(const kiln_launch_bytes* bytes,
                                                 kiln_launch_artifact** artifact) {
  return Guarded({bytes, artifact}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_bytes known, Read(bytes));
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.json, known.binary));
    return Give(Artifact::FromBytes({known.json, known.json_bytes},
                                    {static_cast<const char*>(known.binary), known.binary_bytes},
                                    OptionalDigestAt(known.digest), OptionalDigestAt(known.key)),
                artifact);
  });
}

void kiln_launch_artifact_close(kiln_launch_artifact* artifact) { delete artifact; }

kiln_launch_code kiln_launch_artifact_get_info(const kiln_launch_artifact* artifact,
                                               kiln_launch_artifact_info* info) {
  return Guarded({artifact}, [&]() -> Status {
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
  return Guarded({artifact}, [&]() -> Status {
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
  return Guarded({runtime, artifact, kernel}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(auto opened, runtime->launcher.Open(artifact->artifact, device));
    *kernel = new kiln_launch_kernel{runtime->launcher, std::move(opened)};
    return Status();
  });
}

kiln_launch_code kiln_launch_kernel_open_response(kiln_launch_runtime* runtime,
                                                  const void* response, uint64_t response_bytes,
                                                  int32_t device, kiln_launch_kernel** kernel) {
  return Guarded({runtime, response, kernel}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(
        auto artifact,
        Artifact::FromResponse({static_cast<const char*>(response), response_bytes}));
    LAUNCH_ASSIGN_OR_RETURN(auto opened, runtime->launcher.Open(std::move(artifact), device));
    *kernel = new kiln_launch_kernel{runtime->launcher, std::move(opened)};
    return Status();
  });
}

void kiln_launch_kernel_close(kiln_launch_kernel* kernel) {
  if (kernel == nullptr) return;
  Guarded({}, [&] {
    kernel->launcher.Close(*kernel->kernel);
    return Status();
  });
  delete kernel;
}

kiln_launch_code kiln_launch_prepare(kiln_launch_kernel* kernel) {
  return Guarded({kernel}, [&]() -> Status { return kernel->launcher.Prepare(*kernel->kernel); });
}

kiln_launch_code kiln_launch_enqueue(kiln_launch_kernel* kernel, const kiln_launch_config* config,
                                     const void* const* arguments, uint32_t argument_count) {
  return Guarded([&]() -> Status {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(kernel, config));
    if (argument_count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(arguments));
    if (config->size == sizeof *config) {
      return kernel->launcher.Enqueue(kernel->kernel, {*config, arguments, argument_count});
    }
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_config known, Read(config));
    return kernel->launcher.Enqueue(kernel->kernel, {known, arguments, argument_count});
  });
}

kiln_launch_code kiln_launch_stream_wait(kiln_launch_kernel* kernel, void* stream, void* producer) {
  return Guarded({kernel}, [&]() -> Status {
    return kernel->launcher.Order(*kernel->kernel, stream, producer);
  });
}

kiln_launch_code kiln_launch_fill(kiln_launch_kernel* kernel, void* stream, uint64_t address,
                                  uint8_t value, uint64_t bytes) {
  return Guarded({kernel}, [&]() -> Status {
    return kernel->launcher.Fill(*kernel->kernel, stream, {address, bytes}, value);
  });
}

// --- Tensor descriptors ---

kiln_launch_code kiln_launch_descriptor_open(kiln_launch_kernel* kernel, uint32_t parameter,
                                             const kiln_launch_tensor* tensor,
                                             kiln_launch_descriptor** descriptor) {
  return Guarded({kernel, tensor, descriptor}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_tensor known, Read(tensor));
    const Artifact& artifact = kernel->kernel->artifact();
    Status status = Give(
        TensorDescriptor::Make(kernel->launcher.driver(), artifact.metadata(), parameter, known),
        descriptor);
    return status.Annotate(artifact.label());
  });
}

void kiln_launch_descriptor_close(kiln_launch_descriptor* descriptor) { delete descriptor; }

kiln_launch_code kiln_launch_descriptor_get_arguments(const kiln_launch_descriptor* descriptor,
                                                      const void** arguments, uint32_t capacity,
                                                      uint32_t* count) {
  return Guarded({descriptor, arguments, count}, [&]() -> Status {
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
  return Guarded({runtime, name},
                 [&]() -> Status { return runtime->launcher.graphs().Name(stream, name); });
}

kiln_launch_code kiln_launch_graph_add_buffer(kiln_launch_runtime* runtime, void* stream,
                                              uint64_t address, uint64_t bytes, const char* name) {
  return Guarded({runtime, name}, [&]() -> Status {
    return runtime->launcher.graphs().AddBuffer(
        stream, {address, std::max<uint64_t>(bytes, 1), fmt::format("buffer {}", name)});
  });
}

kiln_launch_code kiln_launch_check_free(kiln_launch_runtime* runtime, uint64_t address,
                                        uint64_t bytes) {
  return Guarded({runtime}, [&]() -> Status {
    return runtime->launcher.graphs().CheckFree(address, std::max<uint64_t>(bytes, 1));
  });
}

}  // extern "C"
