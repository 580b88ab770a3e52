#include "tests/testing/launch/fake_hip.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "client/launch/driver/hip_abi.h"

namespace kiln {
namespace {

using namespace launch::hip;  // NOLINT: this file is that interface

constexpr Result kInvalidHandle = 400;
constexpr int kDevices = 2;

struct Module {
  int device;
};
struct Code {
  std::string name;
  Module* module;
};
struct UserObject {
  void* data;
  void (*destroy)(void*);
};
struct CapturedGraph {
  uint64_t id;
  std::vector<UserObject*> objects;
};

int device_now = 0;
int capture_mode_now = 0;

class State final : public FakeHip {
 public:
  void Define(const std::string& kernel, const FakeKernel& facts) override {
    kernels[kernel] = facts;
  }
  void Fail(const std::string& function, int result) override { failures_[function] = result; }
  void BeginCapture(void* stream) override {
    captures[stream] = new CapturedGraph{captures.size() + 7, {}};
  }
  void EndCaptureAndDestroyGraph(void* stream) override {
    const std::unique_ptr<CapturedGraph> graph(captures.at(stream));
    captures.erase(stream);
    for (UserObject* object : graph->objects) {
      object->destroy(object->data);
      delete object;
    }
  }
  std::vector<FakeLaunch> launches() const override { return launches_; }
  int calls(const std::string& function) const override {
    const auto found = calls_.find(function);
    return found == calls_.end() ? 0 : found->second;
  }
  int loaded() const override { return static_cast<int>(modules.size()); }
  size_t allocated() const override { return allocations.size(); }
  int device() const override { return device_now; }
  int module_device() const override { return last_module_device; }
  int capture_mode() const override { return capture_mode_now; }
  int last_error() const override { return error; }

  Result Enter(const char* function) {
    ++calls_[function];
    const auto found = failures_.find(function);
    if (found == failures_.end()) return kSuccess;
    error = found->second;
    failures_.erase(found);
    return error;
  }
  Result Launch(Handle handle, FakeLaunch launch, void** arguments) {
    const auto* code = static_cast<Code*>(handle);
    if (!modules.contains(code->module)) return kInvalidHandle;
    launch.kernel = code->name;
    const std::vector<size_t>& bytes = kernels.at(code->name).parameter_bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      launch.arguments.emplace_back(static_cast<char*>(arguments[i]), bytes[i]);
    }
    launches_.push_back(std::move(launch));
    return kSuccess;
  }

  std::map<std::string, FakeKernel> kernels;
  std::map<void*, CapturedGraph*> captures;
  std::set<Module*> modules;
  std::map<uintptr_t, size_t> allocations;
  std::vector<std::unique_ptr<Code>> codes;
  uintptr_t next_address = 0x7e0000000000;
  int last_module_device = -1;
  int error = 0;

 private:
  std::map<std::string, int> failures_;
  std::map<std::string, int> calls_;
  std::vector<FakeLaunch> launches_;
};

State& state() {
  static auto& state = *new State;
  return state;
}

#define ENTER(function) \
  if (const Result entered = state().Enter(#function); entered != kSuccess) return entered

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT FakeHip* fake_hip() { return &state(); }

EXPORT Result hipInit(unsigned) {
  ENTER(hipInit);
  return kSuccess;
}
EXPORT Result hipDriverGetVersion(int* version) {
  ENTER(hipDriverGetVersion);
  *version = state().version;
  return kSuccess;
}
EXPORT const char* hipGetErrorName(Result result) {
  return result == kOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorUnknown";
}
EXPORT const char* hipGetErrorString(Result) { return "what the runtime says of it"; }
EXPORT Result hipGetLastError() {
  const int error = state().error;
  state().error = 0;
  return error;
}
EXPORT Result hipGetDeviceCount(int* count) {
  ENTER(hipGetDeviceCount);
  *count = kDevices;
  return kSuccess;
}
EXPORT Result hipGetDevice(int* device) {
  ENTER(hipGetDevice);
  *device = device_now;
  return kSuccess;
}
EXPORT Result hipSetDevice(int device) {
  ENTER(hipSetDevice);
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  device_now = device;
  return kSuccess;
}
EXPORT Result hipDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Stand-in AMD GPU", static_cast<size_t>(length));
  return kSuccess;
}
EXPORT Result hipDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(hipDeviceGetAttribute);
  const std::map<int, int> values = {
      {kMaxThreadsPerBlock, 1024},         {kMaxGridDimX, 2147483647},
      {kMaxGridDimX + 1, 65536},           {kMaxGridDimX + 2, 65536},
      {kWarpSize, state().warp_size},      {kL2CacheSize, 4 << 20},
      {kMaxSharedMemoryPerBlock, 64 << 10}};
  *value = values.at(attribute);
  return kSuccess;
}
EXPORT Result hipGetDevicePropertiesR0600(DeviceProperties* properties, int) {
  ENTER(hipGetDeviceProperties);
  std::memset(properties, 0x5a, kArchitectureNameOffset);
  std::strncpy(properties->bytes + kArchitectureNameOffset, state().architecture.c_str(),
               kArchitectureNameBytes);
  return kSuccess;
}
EXPORT Result hipModuleLoadData(Handle* module, const void*) {
  ENTER(hipModuleLoadData);
  auto* made = new Module{device_now};
  state().last_module_device = device_now;
  state().modules.insert(made);
  *module = made;
  return kSuccess;
}
EXPORT Result hipModuleUnload(Handle module) {
  ENTER(hipModuleUnload);
  auto* known = static_cast<Module*>(module);
  if (state().modules.erase(known) == 0) return kInvalidHandle;
  delete known;
  return kSuccess;
}
EXPORT Result hipModuleGetFunction(Handle* function, Handle module, const char* name) {
  ENTER(hipModuleGetFunction);
  if (!state().kernels.contains(name)) return kNotFound;
  *function = state().codes.emplace_back(new Code{name, static_cast<Module*>(module)}).get();
  return kSuccess;
}
EXPORT Result hipFuncGetAttribute(int* value, int attribute, Handle function) {
  ENTER(hipFuncGetAttribute);
  const FakeKernel& kernel = state().kernels.at(static_cast<Code*>(function)->name);
  const std::map<int, int> values = {{kFunctionMaxThreadsPerBlock, kernel.threads_max},
                                     {kFunctionSharedSizeBytes, kernel.static_shared_bytes},
                                     {kFunctionLocalSizeBytes, 0},
                                     {kFunctionNumRegs, kernel.registers}};
  *value = values.at(attribute);
  return kSuccess;
}
EXPORT Result hipModuleLaunchKernel(Handle function, unsigned x, unsigned y, unsigned z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared_bytes, Handle stream, void** arguments,
                                    void** extra) {
  ENTER(hipModuleLaunchKernel);
  // Arguments come in one way or the other, never in both.
  if (extra != nullptr) return kInvalidValue;
  return state().Launch(function,
                        {"", {x, y, z}, {block_x, block_y, block_z}, shared_bytes, stream, {}, {}},
                        arguments);
}
EXPORT Result hipModuleLaunchCooperativeKernel(Handle function, unsigned x, unsigned y, unsigned z,
                                               unsigned block_x, unsigned block_y, unsigned block_z,
                                               unsigned shared_bytes, Handle stream,
                                               void** arguments) {
  ENTER(hipModuleLaunchCooperativeKernel);
  return state().Launch(function,
                        {"", {x, y, z}, {block_x, block_y, block_z}, shared_bytes, stream, {}, {}},
                        arguments);
}
EXPORT Result hipDrvLaunchKernelEx(const LaunchConfig* config, Handle function, void** arguments,
                                   void**) {
  ENTER(hipDrvLaunchKernelEx);
  FakeLaunch launch{"", {}, {}, config->shared_bytes, config->stream, {}, {}};
  std::copy_n(config->grid, 3, launch.grid.begin());
  std::copy_n(config->block, 3, launch.block.begin());
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    std::memcpy(launch.attributes[config->attributes[i].id].data(),
                config->attributes[i].value.bytes, 12);
  }
  return state().Launch(function, std::move(launch), arguments);
}
EXPORT Result hipStreamIsCapturing(Handle stream, int* status) {
  ENTER(hipStreamIsCapturing);
  if (stream == nullptr && !state().captures.empty()) return kStreamCaptureImplicit;
  *status = state().captures.contains(stream) ? kCaptureStatusActive : 0;
  return kSuccess;
}
EXPORT Result hipStreamGetCaptureInfo_v2(Handle stream, int* status, uint64_t* id, Handle* graph,
                                         const Handle**, size_t*) {
  ENTER(hipStreamGetCaptureInfo);
  const auto found = state().captures.find(stream);
  *status = found == state().captures.end() ? 0 : kCaptureStatusActive;
  if (found == state().captures.end()) return kSuccess;
  *id = found->second->id;
  *graph = found->second;
  return kSuccess;
}
EXPORT Result hipThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode_now);
  return kSuccess;
}
EXPORT Result hipUserObjectCreate(Handle* object, void* data, void (*destroy)(void*), unsigned,
                                  unsigned) {
  ENTER(hipUserObjectCreate);
  *object = new UserObject{data, destroy};
  return kSuccess;
}
EXPORT Result hipGraphRetainUserObject(Handle graph, Handle object, unsigned, unsigned) {
  ENTER(hipGraphRetainUserObject);
  static_cast<CapturedGraph*>(graph)->objects.push_back(static_cast<UserObject*>(object));
  return kSuccess;
}
EXPORT Result hipMemGetAddressRange(DevicePointer* begin, size_t* bytes, DevicePointer pointer) {
  ENTER(hipMemGetAddressRange);
  for (const auto& [first, size] : state().allocations) {
    if (pointer < first || pointer - first >= size) continue;
    *begin = first;
    *bytes = size;
    return kSuccess;
  }
  return state().error = kInvalidValue;
}
EXPORT Result hipMallocAsync(DevicePointer* pointer, size_t bytes, Handle) {
  ENTER(hipMallocAsync);
  *pointer = state().next_address;
  state().allocations[state().next_address] = bytes;
  state().next_address += (bytes / 512 + 2) * 512;
  return kSuccess;
}
EXPORT Result hipFreeAsync(DevicePointer pointer, Handle) {
  ENTER(hipFreeAsync);
  return state().allocations.erase(pointer) == 1 ? kSuccess : kInvalidValue;
}
EXPORT Result hipMemcpyDtoDAsync(DevicePointer, DevicePointer, size_t, Handle) {
  ENTER(hipMemcpyDtoDAsync);
  return kSuccess;
}
EXPORT Result hipMemsetD8Async(DevicePointer, unsigned char, size_t, Handle) {
  ENTER(hipMemsetD8Async);
  return kSuccess;
}
EXPORT Result hipStreamSynchronize(Handle) {
  ENTER(hipStreamSynchronize);
  return kSuccess;
}
EXPORT Result hipEventCreateWithFlags(Handle* event, unsigned) {
  ENTER(hipEventCreateWithFlags);
  *event = &state();
  return kSuccess;
}
EXPORT Result hipEventDestroy(Handle) {
  ENTER(hipEventDestroy);
  return kSuccess;
}
EXPORT Result hipEventRecord(Handle, Handle) {
  ENTER(hipEventRecord);
  return kSuccess;
}
EXPORT Result hipStreamWaitEvent(Handle, Handle, unsigned) {
  ENTER(hipStreamWaitEvent);
  return kSuccess;
}
EXPORT Result hipPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  ENTER(hipPointerGetAttribute);
  if (attribute != kPointerDeviceOrdinal || pointer == 0) return kInvalidValue;
  *static_cast<int*>(value) = 1;
  return kSuccess;
}
EXPORT Result hipEventQuery(Handle) {
  ENTER(hipEventQuery);
  return kSuccess;
}
EXPORT Result hipEventSynchronize(Handle) {
  ENTER(hipEventSynchronize);
  return kSuccess;
}
EXPORT Result hipEventElapsedTime(float* ms, Handle, Handle) {
  ENTER(hipEventElapsedTime);
  *ms = 20;
  return kSuccess;
}

}  // extern "C"

}  // namespace kiln
