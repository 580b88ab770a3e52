#include "tests/testing/launch/fake_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "client/launch/driver/cuda_abi.h"

namespace kiln {
namespace {

using namespace launch::cuda;  // NOLINT: this file is that interface

constexpr Result kInvalidHandle = 400;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kCaptureMerge = 903;
constexpr Result kCaptureIsolation = 905;
constexpr int kCaptureStatusInvalidated = 2;
// Shared memory of a block: without opting in, and at most.
constexpr int kSharedBytesDefault = 48 << 10;
constexpr int kSharedBytesMax = 227 << 10;

struct FakeContext {
  uint64_t id;
  int device = 0;
};
struct Library {
  uint64_t id;  // never given twice, as addresses are
  const char* image;
  FakeContext* context;
};
struct Code {
  std::string name;
  Library* library;
  int dynamic_shared_bytes_max;
};
struct UserObject {
  void* data;
  void (*destroy)(void*);
};
struct CapturedGraph {
  uint64_t id;
  bool is_valid = true;
  std::vector<UserObject*> objects;
  std::set<uint64_t> libraries;  // of what it launches
};
struct FakeEvent {
  double ms = -1;
  Handle stream = nullptr;
  CapturedGraph* graph = nullptr;  // that its stream captured into; it is of that then
};
struct Block {
  size_t bytes;
  bool is_stream_ordered;
  bool is_mapped;
  std::string content;  // empty: nobody wrote to it, or only zeroes
};

thread_local std::vector<FakeContext*> contexts;  // the last one is current
thread_local int capture_mode_now = 0;

class State final : public FakeCuda {
 public:
  void Define(const std::string& kernel, const FakeKernel& facts) override {
    const std::lock_guard lock(mutex_);
    kernels_[kernel] = facts;
  }
  void SetBody(const std::string& kernel,
               std::function<void(const std::vector<std::string>&)> body) {
    const std::lock_guard lock(mutex_);
    kernels_.at(kernel).body = std::move(body);
  }
  void SetMilliseconds(const std::string& kernel, float milliseconds) {
    const std::lock_guard lock(mutex_);
    kernels_.at(kernel).milliseconds = milliseconds;
  }
  void Fail(const std::string& function, int result, int count) override {
    const std::lock_guard lock(mutex_);
    failures_[function] = {result, count};
  }
  void OnCall(const std::string& function, std::function<void()> action) override {
    const std::lock_guard lock(mutex_);
    actions_[function] = std::move(action);
  }
  void* MakeContext(int device) override {
    SetCurrent(NewContext());
    contexts.back()->device = device;
    return contexts.back();
  }
  void SetCurrent(void* context) override {
    contexts.clear();
    if (context != nullptr) contexts.push_back(static_cast<FakeContext*>(context));
  }
  void* Current() override { return contexts.empty() ? nullptr : contexts.back(); }

  void BeginCapture(void* stream) override {
    const std::lock_guard lock(mutex_);
    captures_[stream] = new CapturedGraph{++captures_made_, true, {}, {}};
  }
  void* EndCapture(void* stream) override {
    CapturedGraph* graph;
    {
      const std::lock_guard lock(mutex_);
      graph = captures_[stream];
      // Ends the captures of streams that joined it, too.
      std::erase_if(captures_, [&](const auto& capture) { return capture.second == graph; });
    }
    if (graph->is_valid) return graph;
    DestroyGraph(graph);
    return nullptr;
  }
  bool IsRunnable(void* handle) const override {
    const std::lock_guard lock(mutex_);
    std::set<uint64_t> loaded;
    for (const Library* library : libraries_) loaded.insert(library->id);
    const std::set<uint64_t>& needed = static_cast<CapturedGraph*>(handle)->libraries;
    return std::includes(loaded.begin(), loaded.end(), needed.begin(), needed.end());
  }
  void DestroyGraph(void* handle) override {
    std::unique_ptr<CapturedGraph> graph(static_cast<CapturedGraph*>(handle));
    for (UserObject* object : graph->objects) {
      object->destroy(object->data);
      delete object;
    }
  }

  uint64_t MakeBuffer(const std::string& content) override {
    const std::lock_guard lock(mutex_);
    const DevicePointer address = AllocateLocked(content.size(), /*is_stream_ordered=*/false);
    WriteLocked(address, content);
    return address;
  }
  uint64_t MakeNeighbours(const std::vector<std::string>& contents) override {
    std::vector<size_t> sizes;
    for (const std::string& content : contents) sizes.push_back(content.size());
    const std::lock_guard lock(mutex_);
    const DevicePointer begin = PlaceLocked(sizes, /*is_mapped=*/false);
    DevicePointer next = begin;
    for (const std::string& content : contents) {
      WriteLocked(next, content);
      next += content.size();
    }
    return begin;
  }
  uint64_t MakeMapping(const std::vector<size_t>& pieces) override {
    const std::lock_guard lock(mutex_);
    return PlaceLocked(pieces, /*is_mapped=*/true);
  }
  void Write(uint64_t address, const std::string& content) override {
    const std::lock_guard lock(mutex_);
    WriteLocked(address, content);
  }
  std::string Read(uint64_t address, size_t bytes) const override {
    const std::lock_guard lock(mutex_);
    return ReadLocked(address, bytes);
  }

  std::vector<FakeLaunch> launches() const override {
    const std::lock_guard lock(mutex_);
    return launches_;
  }
  int calls(const std::string& function) const override {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(function);
    return found == calls_.end() ? 0 : found->second;
  }
  int loaded() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(libraries_.size());
  }
  size_t allocated() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(blocks_.begin(), blocks_.end(), [](const auto& block) {
      return block.second.is_stream_ordered;
    }));
  }
  int ended_captures() const override { return ended_captures_; }
  int capture_mode() const override { return capture_mode_now; }

  // Counts the call; what it shall fail with, or success.
  Result Enter(const char* function) {
    if (const auto action = ActionOf(function)) action();
    const std::lock_guard lock(mutex_);
    // Allocates for the first call alone, as a driver's clean-up does not fail for want of memory.
    const auto place = calls_.find(function);
    ++(place == calls_.end() ? calls_[function] : place->second);
    const auto found = failures_.find(function);
    if (found == failures_.end() || found->second.count == 0) return kSuccess;
    --found->second.count;
    return found->second.result;
  }
  // What is potentially unsafe, and this thread has not said that it knows: ends every capture.
  Result EnterUnsafe(const char* function) {
    if (const Result result = Enter(function); result != kSuccess) return result;
    const std::lock_guard lock(mutex_);
    if (captures_.empty() || capture_mode_now == kCaptureModeRelaxed) return kSuccess;
    for (auto& [stream, graph] : captures_) graph->is_valid = false;
    ++ended_captures_;
    return kCaptureUnsupported;
  }
  // All streams are blocking ones: while one captures the NULL stream waits for it.
  Result Record(FakeEvent& event, Handle stream) {
    const std::lock_guard lock(mutex_);
    if (stream == nullptr && !captures_.empty()) {
      for (auto& [capturing, graph] : captures_) EndCaptureLocked(graph);
      return kStreamCaptureImplicit;
    }
    event = {now_ms_, stream, CaptureOfLocked(stream)};
    return kSuccess;
  }
  // An event of a capture makes the stream a part of it; one from outside ends the stream's own.
  Result WaitFor(const FakeEvent& event, Handle stream) {
    const std::lock_guard lock(mutex_);
    CapturedGraph* own = CaptureOfLocked(stream);
    if (event.graph == own) return kSuccess;
    if (own == nullptr) {
      captures_[stream] = event.graph;
      return kSuccess;
    }
    EndCaptureLocked(own);
    if (event.graph == nullptr) return kCaptureIsolation;
    EndCaptureLocked(event.graph);
    return kCaptureMerge;
  }

  FakeContext* NewContext() {
    const std::lock_guard lock(mutex_);
    return NewContextLocked();
  }
  FakeContext* Primary() {
    const std::lock_guard lock(mutex_);
    if (primary_ == nullptr) primary_ = NewContextLocked();
    return primary_;
  }
  FakeEvent* NewEvent() {
    const std::lock_guard lock(mutex_);
    return events_.emplace_back(std::make_unique<FakeEvent>()).get();
  }

  Result Load(Handle* library, const void* image) {
    FakeContext* context = contexts.empty() ? nullptr : contexts.back();
    const std::lock_guard lock(mutex_);
    const auto beside = std::count_if(libraries_.begin(), libraries_.end(),
                                      [&](const auto* other) { return other->context == context; });
    if (beside >= libraries_max) return kOutOfMemory;
    auto* made = new Library{++libraries_made_, static_cast<const char*>(image), context};
    libraries_.insert(made);
    *library = made;
    return kSuccess;
  }
  Result Unload(Handle library) {
    const std::lock_guard lock(mutex_);
    auto* known = static_cast<Library*>(library);
    if (libraries_.erase(known) == 0) return kInvalidHandle;
    delete known;
    return kSuccess;
  }
  Result Find(Handle library, const char* name, Handle* code) {
    const std::lock_guard lock(mutex_);
    const auto kernel = kernels_.find(name);
    if (kernel == kernels_.end()) return kNotFound;
    const int dynamic_bytes = kSharedBytesDefault - kernel->second.static_shared_bytes;
    *code =
        codes_.emplace_back(new Code{name, static_cast<Library*>(library), dynamic_bytes}).get();
    return kSuccess;
  }
  Result AllowSharedBytes(Handle handle, int bytes) {
    const std::lock_guard lock(mutex_);
    auto* code = static_cast<Code*>(handle);
    const int own = kernels_.at(code->name).static_shared_bytes;
    if (bytes < 0 || bytes + own > kSharedBytesMax) return kInvalidValue;
    code->dynamic_shared_bytes_max = bytes;
    return kSuccess;
  }
  FakeKernel KernelOf(Handle code) const {
    const std::lock_guard lock(mutex_);
    return kernels_.at(static_cast<Code*>(code)->name);
  }
  Result Launch(const LaunchConfig& config, Handle handle, void** arguments) {
    std::function<void(const std::vector<std::string>&)> body;
    std::vector<std::string> values;
    {
      const std::lock_guard lock(mutex_);
      const Result result = LaunchLocked(config, handle, arguments);
      if (result != kSuccess) return result;
      body = kernels_.at(launches_.back().kernel).body;
      values = launches_.back().arguments;
    }
    if (body) body(values);
    return kSuccess;
  }
  Result LaunchLocked(const LaunchConfig& config, Handle handle, void** arguments) {
    const auto* code = static_cast<Code*>(handle);
    if (!libraries_.contains(code->library)) return kInvalidHandle;
    if (code->library->context != contexts.back()) return kInvalidHandle;
    FakeLaunch launch{code->name, {}, {}, config.shared_bytes, config.stream, {}, {}};
    std::copy_n(config.grid, 3, launch.grid.begin());
    std::copy_n(config.block, 3, launch.block.begin());
    for (unsigned i = 0; i < config.attribute_count; ++i) {
      std::memcpy(launch.attributes[config.attributes[i].id].data(),
                  config.attributes[i].value.bytes, 12);
    }
    if (config.shared_bytes > static_cast<unsigned>(code->dynamic_shared_bytes_max)) {
      return kInvalidValue;
    }
    const FakeKernel& kernel = kernels_.at(code->name);
    if (kernel.launch_result != kSuccess) return kernel.launch_result;
    for (size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
      launch.arguments.emplace_back(static_cast<char*>(arguments[i]), kernel.parameter_bytes[i]);
    }
    if (const auto graph = captures_.find(config.stream); graph != captures_.end()) {
      graph->second->libraries.insert(code->library->id);
    }
    now_ms_ += kernel.milliseconds;
    launches_.push_back(std::move(launch));
    return kSuccess;
  }
  CapturedGraph* CaptureOf(Handle stream) const {
    const std::lock_guard lock(mutex_);
    return CaptureOfLocked(stream);
  }
  bool IsAnyCapturing() const {
    const std::lock_guard lock(mutex_);
    return !captures_.empty();
  }
  void Retain(Handle graph, Handle object) {
    const std::lock_guard lock(mutex_);
    static_cast<CapturedGraph*>(graph)->objects.push_back(static_cast<UserObject*>(object));
  }
  DevicePointer Allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    return AllocateLocked(bytes, /*is_stream_ordered=*/true);
  }
  Result Free(DevicePointer address) {
    const std::lock_guard lock(mutex_);
    return blocks_.erase(address) == 1 ? kSuccess : kInvalidValue;
  }
  Result RangeAt(DevicePointer address, DevicePointer* begin, size_t* bytes) const {
    const std::lock_guard lock(mutex_);
    const auto block = BlockAt(address);
    if (block == blocks_.end()) {
      *begin = address;
      *bytes = size_t{1} << 40;  // where an allocation of the host ends is not known
      return memory_is_host ? kSuccess : kNotFound;
    }
    *begin = block->first;
    *bytes = block->second.bytes;
    return kSuccess;
  }
  bool IsMapped(DevicePointer address) const {
    const std::lock_guard lock(mutex_);
    const auto block = BlockAt(address);
    return block != blocks_.end() && block->second.is_mapped;
  }
  void FillHostMemory(DevicePointer address, unsigned char value, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!memory_is_host || BlockAt(address) != blocks_.end()) return;
    std::memset(reinterpret_cast<void*>(address), value, bytes);
  }
  Result CopyBytes(DevicePointer to, DevicePointer from, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const bool is_from_host = !IsOneBufferLocked(from, bytes);
    const bool is_to_host = !IsOneBufferLocked(to, bytes);
    if (!memory_is_host && (is_from_host || is_to_host)) return kInvalidValue;
    const std::string content = is_from_host
                                    ? std::string(reinterpret_cast<const char*>(from), bytes)
                                    : ReadLocked(from, bytes);
    if (is_to_host) {
      std::memcpy(reinterpret_cast<void*>(to), content.data(), bytes);
    } else {
      WriteLocked(to, content);
    }
    return kSuccess;
  }

 private:
  CapturedGraph* CaptureOfLocked(Handle stream) const {
    const auto found = captures_.find(stream);
    return found == captures_.end() ? nullptr : found->second;
  }
  void EndCaptureLocked(CapturedGraph* graph) {
    if (graph->is_valid) ++ended_captures_;
    graph->is_valid = false;
  }

  struct Failure {
    Result result;
    int count;
  };

  std::function<void()> ActionOf(const char* function) const {
    const std::lock_guard lock(mutex_);
    const auto found = actions_.find(function);
    return found == actions_.end() ? nullptr : found->second;
  }
  FakeContext* NewContextLocked() {
    return all_contexts_.emplace_back(new FakeContext{all_contexts_.size() + 1}).get();
  }

  using Blocks = std::map<DevicePointer, Block>;
  DevicePointer AllocateLocked(size_t bytes, bool is_stream_ordered) {
    const DevicePointer address = next_address_;
    // Never side by side: what goes past an allocation's end is nowhere.
    next_address_ += (bytes / 512 + 2) * 512;
    blocks_[address] = {bytes, is_stream_ordered, false, {}};
    return address;
  }
  Blocks::const_iterator BlockAt(DevicePointer address) const {
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return blocks_.end();
    --next;
    return address - next->first < next->second.bytes ? next : blocks_.end();
  }
  // One directly behind the other.
  DevicePointer PlaceLocked(const std::vector<size_t>& sizes, bool is_mapped) {
    const DevicePointer begin = next_address_;
    for (const size_t bytes : sizes) {
      blocks_[next_address_] = {bytes, false, is_mapped, {}};
      next_address_ += bytes;
    }
    next_address_ = (next_address_ / 512 + 2) * 512;
    return begin;
  }
  // Whether a copy may take it at once: it lies in one allocation, or in pieces of a mapping.
  bool IsOneBufferLocked(DevicePointer address, size_t bytes) const {
    while (true) {
      const auto block = BlockAt(address);
      if (block == blocks_.end()) return false;
      const size_t there = block->first + block->second.bytes - address;
      if (bytes <= there) return true;
      if (!block->second.is_mapped) return false;
      bytes -= there;
      address += there;
      const auto next = BlockAt(address);
      if (next != blocks_.end() && !next->second.is_mapped) return false;
    }
  }
  // Over as many blocks as lie behind one another.
  void WriteLocked(DevicePointer address, std::string_view content) {
    while (!content.empty()) {
      const auto found = BlockAt(address);
      Block& block = blocks_.at(found->first);
      block.content.resize(block.bytes);
      const size_t offset = address - found->first;
      const size_t count = std::min(content.size(), block.bytes - offset);
      block.content.replace(offset, count, content.substr(0, count));
      content.remove_prefix(count);
      address += count;
    }
  }
  std::string ReadLocked(DevicePointer address, size_t bytes) const {
    std::string result;
    while (result.size() < bytes) {
      const auto found = BlockAt(address + result.size());
      std::string content = found->second.content;
      content.resize(found->second.bytes);
      result += content.substr(address + result.size() - found->first, bytes - result.size());
    }
    return result;
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<FakeContext>> all_contexts_;
  std::vector<std::unique_ptr<FakeEvent>> events_;
  std::map<std::string, FakeKernel> kernels_;
  std::map<std::string, Failure, std::less<>> failures_;
  std::map<std::string, std::function<void()>, std::less<>> actions_;
  std::map<std::string, int, std::less<>> calls_;
  std::map<void*, CapturedGraph*> captures_;
  std::set<Library*> libraries_;
  std::vector<std::unique_ptr<Code>> codes_;
  Blocks blocks_;
  std::vector<FakeLaunch> launches_;
  FakeContext* primary_ = nullptr;
  DevicePointer next_address_ = 0x7f0000000000;
  double now_ms_ = 0;
  uint64_t captures_made_ = 0;
  uint64_t libraries_made_ = 0;
  std::atomic<int> ended_captures_{0};
};

State& state() {
  static auto& state = *new State;
  return state;
}

#define ENTER(function) \
  if (const Result entered = state().Enter(#function); entered != kSuccess) return entered
#define ENTER_UNSAFE(function) \
  if (const Result entered = state().EnterUnsafe(#function); entered != kSuccess) return entered

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT FakeCuda* fake_cuda() { return &state(); }

// Tests in Python call these.
EXPORT void fake_cuda_define(const char* kernel, const size_t* parameter_bytes, size_t count) {
  state().Define(kernel, {.parameter_bytes = {parameter_bytes, parameter_bytes + count}});
}
// What launches of a kernel do besides: a function gets a pointer to each argument.
EXPORT void fake_cuda_run(const char* kernel, void (*body)(const void* const* arguments)) {
  state().SetBody(kernel, [body](const std::vector<std::string>& arguments) {
    std::vector<const void*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(argument.data());
    body(pointers.data());
  });
}
EXPORT void fake_cuda_take_time(const char* kernel, float milliseconds) {
  state().SetMilliseconds(kernel, milliseconds);
}
EXPORT void fake_cuda_use_host_memory() { state().memory_is_host = true; }
EXPORT void fake_cuda_fail(const char* function, int result, int count) {
  state().Fail(function, result, count);
}
EXPORT int fake_cuda_calls(const char* function) { return state().calls(function); }
EXPORT void fake_cuda_make_context() { state().MakeContext(0); }
EXPORT int fake_cuda_loaded() { return state().loaded(); }
EXPORT void fake_cuda_begin_capture(void* stream) { state().BeginCapture(stream); }
EXPORT void* fake_cuda_end_capture(void* stream) { return state().EndCapture(stream); }
EXPORT void fake_cuda_destroy_graph(void* graph) { state().DestroyGraph(graph); }
EXPORT size_t fake_cuda_launch_count() { return state().launches().size(); }
// One line: name, grid, block, shared bytes, stream, each argument's bytes in hex; of the last call
// on this thread.
EXPORT const char* fake_cuda_launch(size_t index) {
  static thread_local std::string text;
  const FakeLaunch launch = state().launches().at(index);
  text = fmt::format("{} {} {} {} {:#x}", launch.kernel, fmt::join(launch.grid, "x"),
                     fmt::join(launch.block, "x"), launch.shared_bytes,
                     reinterpret_cast<uintptr_t>(launch.stream));
  for (const std::string& argument : launch.arguments) {
    text += ' ';
    for (const char byte : argument) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  }
  return text.c_str();
}

// The first word of an attribute's value; -1: the launch does not have it.
EXPORT int fake_cuda_launch_attribute(size_t index, int id) {
  const FakeLaunch launch = state().launches().at(index);
  const auto found = launch.attributes.find(id);
  return found == launch.attributes.end() ? -1 : static_cast<int>(found->second[0]);
}

EXPORT Result cuInit(unsigned) {
  ENTER(cuInit);
  return kSuccess;
}
EXPORT Result cuDriverGetVersion(int* version) {
  ENTER(cuDriverGetVersion);
  *version = state().driver_version;
  return kSuccess;
}
EXPORT Result cuGetErrorName(Result result, const char** name) {
  static const std::map<Result, const char*> names = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};
  const auto found = names.find(result);
  *name = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
  return kSuccess;
}
EXPORT Result cuGetErrorString(Result, const char** words) {
  *words = "what the driver says of it";
  return kSuccess;
}
EXPORT Result cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  *device = ordinal;
  return ordinal == 0 ? kSuccess : kInvalidValue;
}
EXPORT Result cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Stand-in GPU", static_cast<size_t>(length));
  return kSuccess;
}
EXPORT Result cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(cuDeviceGetAttribute);
  const std::map<int, int> values = {{kMaxThreadsPerBlock, 1024},
                                     {kMaxGridDimX, 2147483647},
                                     {kMaxGridDimX + 1, 65535},
                                     {kMaxGridDimX + 2, 65535},
                                     {kWarpSize, 32},
                                     {kMultiprocessorCount, 4},
                                     {kCooperativeLaunch, state().is_cooperative ? 1 : 0},
                                     {kL2CacheSize, 50 << 20},
                                     {kComputeCapabilityMajor, state().capability_major},
                                     {kComputeCapabilityMinor, state().capability_minor},
                                     {kMaxSharedMemoryPerBlockOptin, kSharedBytesMax}};
  *value = values.at(attribute);
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRetain(Handle* context, int) {
  ENTER(cuDevicePrimaryCtxRetain);
  *context = state().Primary();
  return kSuccess;
}
EXPORT Result cuCtxGetCurrent(Handle* context) {
  ENTER(cuCtxGetCurrent);
  *context = state().Current();
  return kSuccess;
}
EXPORT Result cuCtxPushCurrent_v2(Handle context) {
  ENTER(cuCtxPushCurrent);
  contexts.push_back(static_cast<FakeContext*>(context));
  return kSuccess;
}
EXPORT Result cuCtxPopCurrent_v2(Handle* context) {
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
EXPORT Result cuCtxGetDevice(int* device) {
  *device = contexts.empty() ? 0 : contexts.back()->device;
  return contexts.empty() ? kInvalidContext : kSuccess;
}
EXPORT Result cuCtxGetId(Handle context, uint64_t* id) {
  *id = static_cast<FakeContext*>(context)->id;
  return kSuccess;
}
EXPORT Result cuLibraryLoadData(Handle* library, const void* image, int*, void**, unsigned, int*,
                                void**, unsigned) {
  ENTER(cuLibraryLoadData);
  return state().Load(library, image);
}
EXPORT Result cuLibraryUnload(Handle library) {
  ENTER_UNSAFE(cuLibraryUnload);
  return state().Unload(library);
}
EXPORT Result cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  ENTER(cuLibraryGetKernel);
  return state().Find(library, name, kernel);
}
EXPORT Result cuKernelGetFunction(Handle* function, Handle kernel) {
  ENTER(cuKernelGetFunction);
  if (contexts.empty()) return kInvalidContext;
  *function = kernel;
  return kSuccess;
}
EXPORT Result cuFuncLoad(Handle) {
  ENTER(cuFuncLoad);
  return kSuccess;
}
EXPORT Result cuFuncGetAttribute(int* value, int attribute, Handle function) {
  ENTER(cuFuncGetAttribute);
  const FakeKernel kernel = state().KernelOf(function);
  const std::map<int, int> values = {{kFunctionMaxThreadsPerBlock, kernel.threads_max},
                                     {kFunctionSharedSizeBytes, kernel.static_shared_bytes},
                                     {kFunctionLocalSizeBytes, 0},
                                     {kFunctionNumRegs, kernel.registers}};
  *value = values.at(attribute);
  return kSuccess;
}
EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle function, int threads,
                                                          size_t) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = state().KernelOf(function).threads_max / threads;
  return kSuccess;
}
EXPORT Result cuFuncSetAttribute(Handle function, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  // Shows which, and how much: a test asks for the calls of that name.
  state().Enter(
      ("cuFuncSetAttribute " + std::to_string(attribute) + "=" + std::to_string(value)).c_str());
  if (attribute != kFunctionMaxDynamicSharedSizeBytes) return kSuccess;
  return state().AllowSharedBytes(function, value);
}
EXPORT Result cuFuncSetCacheConfig(Handle, int) {
  ENTER(cuFuncSetCacheConfig);
  return kSuccess;
}
EXPORT Result cuFuncGetParamInfo(Handle function, size_t index, size_t* offset, size_t* size) {
  const FakeKernel kernel = state().KernelOf(function);
  if (index >= kernel.parameter_bytes.size()) return kInvalidValue;
  *offset = 0;
  *size = kernel.parameter_bytes[index];
  return kSuccess;
}
EXPORT Result cuLaunchKernelEx(const LaunchConfig* config, Handle function, void** arguments,
                               void**) {
  ENTER(cuLaunchKernelEx);
  if (contexts.empty()) return kInvalidContext;
  return state().Launch(*config, function, arguments);
}
static int StatusOf(const CapturedGraph* graph) {
  if (graph == nullptr) return 0;
  return graph->is_valid ? kCaptureStatusActive : kCaptureStatusInvalidated;
}
EXPORT Result cuStreamIsCapturing(Handle stream, int* status) {
  ENTER(cuStreamIsCapturing);
  if (stream == nullptr && state().IsAnyCapturing()) return kStreamCaptureImplicit;
  *status = StatusOf(state().CaptureOf(stream));
  return kSuccess;
}
EXPORT Result cuStreamGetCaptureInfo_v2(Handle stream, int* status, uint64_t* id, Handle* graph,
                                        const Handle**, size_t*) {
  ENTER(cuStreamGetCaptureInfo);
  CapturedGraph* captured = state().CaptureOf(stream);
  *status = StatusOf(captured);
  if (captured == nullptr) return kSuccess;
  *id = captured->id;
  *graph = captured;
  return kSuccess;
}
EXPORT Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode_now);
  return kSuccess;
}
EXPORT Result cuUserObjectCreate(Handle* object, void* data, void (*destroy)(void*), unsigned,
                                 unsigned) {
  ENTER(cuUserObjectCreate);
  *object = new UserObject{data, destroy};
  return kSuccess;
}
EXPORT Result cuGraphRetainUserObject(Handle graph, Handle object, unsigned, unsigned) {
  ENTER(cuGraphRetainUserObject);
  state().Retain(graph, object);
  return kSuccess;
}
EXPORT Result cuMemGetAddressRange_v2(DevicePointer* begin, size_t* bytes, DevicePointer address) {
  ENTER(cuMemGetAddressRange);
  return state().RangeAt(address, begin, bytes);
}
EXPORT Result cuMemRetainAllocationHandle(uint64_t* handle, DevicePointer pointer) {
  ENTER(cuMemRetainAllocationHandle);
  *handle = 5;
  return state().IsMapped(pointer) ? kSuccess : kInvalidValue;
}
EXPORT Result cuMemRelease(uint64_t handle) {
  ENTER(cuMemRelease);
  return handle == 5 ? kSuccess : kInvalidValue;
}
EXPORT Result cuMemAllocAsync(DevicePointer* address, size_t bytes, Handle) {
  ENTER_UNSAFE(cuMemAllocAsync);
  *address = state().Allocate(bytes);
  return kSuccess;
}
EXPORT Result cuMemFreeAsync(DevicePointer address, Handle) {
  ENTER_UNSAFE(cuMemFreeAsync);
  return state().Free(address);
}
EXPORT Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Handle) {
  ENTER(cuMemcpyDtoDAsync);
  return state().CopyBytes(to, from, bytes);
}
EXPORT Result cuMemsetD8Async(DevicePointer address, unsigned char value, size_t bytes, Handle) {
  ENTER(cuMemsetD8Async);
  if (contexts.empty()) return kInvalidContext;
  state().FillHostMemory(address, value, bytes);
  return kSuccess;
}
EXPORT Result cuStreamSynchronize(Handle) {
  ENTER_UNSAFE(cuStreamSynchronize);
  return kSuccess;
}
EXPORT Result cuEventCreate(Handle* event, unsigned) {
  ENTER(cuEventCreate);
  *event = state().NewEvent();
  return kSuccess;
}
EXPORT Result cuEventDestroy_v2(Handle) {
  ENTER(cuEventDestroy);
  return kSuccess;
}
EXPORT Result cuEventRecord(Handle event, Handle stream) {
  ENTER(cuEventRecord);
  return state().Record(*static_cast<FakeEvent*>(event), stream);
}
EXPORT Result cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  ENTER(cuStreamWaitEvent);
  const auto& known = *static_cast<FakeEvent*>(event);
  state().Enter(fmt::format("cuStreamWaitEvent {} after {}", stream, known.stream).c_str());
  return state().WaitFor(known, stream);
}
// Memory below the first megabyte is nobody's; the upper 16 bits of an address say its device.
EXPORT Result cuPointerGetAttribute(void* value, int attribute, DevicePointer address) {
  ENTER(cuPointerGetAttribute);
  if (attribute != kPointerDeviceOrdinal || address < 1 << 20) return kInvalidValue;
  const auto device = static_cast<int>(address >> 48);
  std::memcpy(value, &device, sizeof device);
  return kSuccess;
}
EXPORT Result cuEventQuery(Handle) {
  ENTER_UNSAFE(cuEventQuery);
  return kSuccess;
}
EXPORT Result cuEventSynchronize(Handle) {
  ENTER_UNSAFE(cuEventSynchronize);
  return kSuccess;
}
EXPORT Result cuEventElapsedTime(float* ms, Handle begin, Handle end) {
  ENTER(cuEventElapsedTime);
  *ms = static_cast<float>(static_cast<FakeEvent*>(end)->ms - static_cast<FakeEvent*>(begin)->ms);
  return kSuccess;
}
EXPORT Result cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address,
                                     const uint64_t* shape, const uint64_t* strides,
                                     const uint32_t* block, const uint32_t*, int, int swizzle, int,
                                     int fill) {
  ENTER(cuTensorMapEncodeTiled);
  // As words, for a test to read: type, rank, swizzle, fill, address, shape, strides, block.
  uint64_t words[16] = {static_cast<uint64_t>(type), rank, static_cast<uint64_t>(swizzle),
                        static_cast<uint64_t>(fill), reinterpret_cast<uint64_t>(address)};
  size_t next = 5;
  for (uint32_t i = 0; i < rank; ++i) words[next++] = shape[i];
  for (uint32_t i = 0; i + 1 < rank; ++i) words[next++] = strides[i];
  for (uint32_t i = 0; i < rank; ++i) words[next++] = block[i];
  std::memcpy(map, words, sizeof words);
  return kSuccess;
}

}  // extern "C"

}  // namespace kiln
