// jax_benchmark: what an execution of XLA's handler takes besides libkiln_launch, over the stand-in
// driver and a stand-in for XLA. Prints pairs of nanoseconds: through the handler, by the library.
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"
#include "xla/ffi/api/c_api.h"

extern "C" {
int kiln_jax_open(const char* backend, const char* driver_path);
XLA_FFI_Error* KilnJaxInstantiate(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* KilnJaxExecute(XLA_FFI_CallFrame* frame);
}

namespace kiln {
namespace {

constexpr int kBatches = 200;
constexpr int kLaunches = 200;  // of one batch
constexpr int kArrays = 3;
void* const kStream = reinterpret_cast<void*>(0x1000);

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, kiln_launch_error());
  std::exit(1);
}

// XLA as far as the handler asks it.
void* the_state = nullptr;
XLA_FFI_Error* CreateError(XLA_FFI_Error_Create_Args* args) {
  Check(false, args->message);
  return nullptr;
}
XLA_FFI_Error* SetState(XLA_FFI_State_Set_Args* args) {
  the_state = args->state;
  return nullptr;
}
XLA_FFI_Error* GetState(XLA_FFI_State_Get_Args* args) {
  args->state = the_state;
  return nullptr;
}
XLA_FFI_Error* GetStream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = kStream;
  return nullptr;
}
XLA_FFI_Error* GetDevice(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = 0;
  return nullptr;
}

// The attributes of a call, as XLA passes them.
class Attributes {
 public:
  // In the order of their names, in which the handler looks for them.
  void Add(const char* name, std::string text) {
    One& one = Named(name, XLA_FFI_AttrType_STRING);
    one.text = std::move(text);
    one.span = {one.text.data(), one.text.size()};
    values_.push_back(&one.span);
  }
  void Add(const char* name, int32_t number) {
    One& one = Named(name, XLA_FFI_AttrType_SCALAR);
    one.number = number;
    one.scalar = {XLA_FFI_DataType_S32, &one.number};
    values_.push_back(&one.scalar);
  }
  XLA_FFI_Attrs made() {
    return {XLA_FFI_Attrs_STRUCT_SIZE,
            nullptr,
            static_cast<int64_t>(values_.size()),
            types_.data(),
            names_.data(),
            values_.data()};
  }

 private:
  struct One {
    XLA_FFI_ByteSpan name;
    std::string text;
    XLA_FFI_ByteSpan span;
    int32_t number;
    XLA_FFI_Scalar scalar;
  };
  One& Named(const char* name, XLA_FFI_AttrType type) {
    One& one = all_.emplace_back();
    one.name = {name, std::strlen(name)};
    names_.push_back(&one.name);
    types_.push_back(type);
    return one;
  }

  std::deque<One> all_;  // does not move what it has
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<void*> values_;
};

// The metadata of k, with the digest of its binary.
std::string DocumentOf(const std::string& binary) {
  const std::string document =
      MadeDocument("k", {{"x", "*fp32"}, {"y", "*fp32"}, {"out", "*fp32"}, {"n", "i32"}});
  return fmt::format(R"({{"stages": [{{"stage": "cubin", "digest": "{}"}}], {})",
                     launch::ToHex(launch::Sha256(binary)), document.substr(1));
}

// k(x, y, out, n), as XLA and as a program of C launch it.
class Launches {
 public:
  explicit Launches(FakeCudaLibrary& driver) {
    driver->Define("k", {.parameter_bytes = {8, 8, 8, 4, 8, 8}});
    MakePrimaryCurrent(driver.path());
    Check(kiln_jax_open("cuda", driver.path().c_str()) == 0, "kiln_jax_open");
    Instantiate();
    OpenKernel(driver.path());
  }

  double Handler() {
    return Nanoseconds([this] { Check(KilnJaxExecute(&frame_) == nullptr, "KilnJaxExecute"); });
  }
  double Library() {
    return Nanoseconds([this] {
      const void* arguments[] = {&addresses_[0], &addresses_[1], &addresses_[2], &n_};
      Check(kiln_launch_enqueue(kernel_, &config_, arguments, 4) == 0, "kiln_launch_enqueue");
    });
  }

 private:
  // As XLA does it, so that the driver takes the launch at once.
  static void MakePrimaryCurrent(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW);
    void* context = nullptr;
    reinterpret_cast<int (*)(void**, int)>(dlsym(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
    reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxPushCurrent_v2"))(context);
  }

  void Instantiate() {
    api_.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api_.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                        XLA_FFI_API_MINOR};
    api_.XLA_FFI_Error_Create = CreateError;
    api_.XLA_FFI_State_Set = SetState;
    api_.XLA_FFI_State_Get = GetState;
    api_.XLA_FFI_Stream_Get = GetStream;
    api_.XLA_FFI_DeviceOrdinal_Get = GetDevice;
    attributes_.Add("binary", binary_);
    attributes_.Add("global_scratch", -1);
    for (const char* axis : {"grid_x", "grid_y", "grid_z"}) attributes_.Add(axis, 1);
    attributes_.Add("metadata", json_);
    attributes_.Add("name", std::string("k"));
    attributes_.Add("parameters", std::string("aaa4"));
    attributes_.Add("profile_scratch", -1);
    attributes_.Add("scalars", std::string(reinterpret_cast<const char*>(&n_), sizeof n_));
    attributes_.Add("zeroed", std::string("0"));
    for (int i = 0; i < kArrays; ++i) {
      buffers_[i] = {XLA_FFI_Buffer_STRUCT_SIZE,
                     nullptr,
                     XLA_FFI_DataType_F32,
                     reinterpret_cast<void*>(addresses_[i]),
                     1,
                     &length_};
      buffer_pointers_[i] = &buffers_[i];
    }
    frame_.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame_.api = &api_;
    frame_.attrs = attributes_.made();
    frame_.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
    frame_.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
    frame_.stage = XLA_FFI_ExecutionStage_INSTANTIATE;
    Check(KilnJaxInstantiate(&frame_) == nullptr, "KilnJaxInstantiate");
    frame_.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame_.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, 2, argument_types_, buffer_pointers_};
    frame_.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, 1, result_types_, buffer_pointers_ + 2};
  }

  void OpenKernel(const std::string& path) {
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = path.c_str();
    kiln_launch_runtime* runtime = nullptr;
    Check(kiln_launch_open(&options, &runtime) == 0, "kiln_launch_open");
    kiln_launch_bytes bytes{};
    bytes.size = sizeof bytes;
    bytes.json = json_.data();
    bytes.json_bytes = json_.size();
    bytes.binary = binary_.data();
    bytes.binary_bytes = binary_.size();
    kiln_launch_artifact* artifact = nullptr;
    Check(kiln_launch_artifact_open_bytes(&bytes, &artifact) == 0, "kiln_launch_artifact_open");
    Check(kiln_launch_kernel_open(runtime, artifact, 0, &kernel_) == 0, "kiln_launch_kernel_open");
    config_.size = sizeof config_;
    config_.grid[0] = config_.grid[1] = config_.grid[2] = 1;
    config_.stream = kStream;
  }

  template <typename Launch>
  static double Nanoseconds(Launch launch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kLaunches;
  }

  const std::string binary_ = MadeElf("code");
  const std::string json_ = DocumentOf(binary_);
  XLA_FFI_Api api_{};
  Attributes attributes_;
  XLA_FFI_CallFrame frame_{};
  uint64_t addresses_[kArrays] = {0x7f0000000000, 0x7f0000001000, 0x7f0000002000};
  int64_t length_ = 64;
  int32_t n_ = 64;
  XLA_FFI_Buffer buffers_[kArrays];
  void* buffer_pointers_[kArrays];
  XLA_FFI_ArgType argument_types_[2] = {XLA_FFI_ArgType_BUFFER, XLA_FFI_ArgType_BUFFER};
  XLA_FFI_RetType result_types_[1] = {XLA_FFI_RetType_BUFFER};
  kiln_launch_kernel* kernel_ = nullptr;
  kiln_launch_config config_{};
};

void Run() {
  FakeCudaLibrary driver;
  Launches launches(driver);
  std::printf("[");
  for (int i = 0; i < kBatches; ++i) {
    // In turns, each first as often as the other.
    const bool is_handler_first = i % 2 == 0;
    const double first = is_handler_first ? launches.Handler() : launches.Library();
    const double second = is_handler_first ? launches.Library() : launches.Handler();
    std::printf("%s[%.1f, %.1f]", i == 0 ? "" : ", ", is_handler_first ? first : second,
                is_handler_first ? second : first);
  }
  std::printf("]\n");
}

}  // namespace
}  // namespace kiln

int main() { kiln::Run(); }
