// A program that opens the library by itself and lets go of it again, as a plug-in's host does. Not
// linked with it: it would never be unloaded then.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln {
namespace {

class OpenedLibrary {
 public:
  OpenedLibrary() : handle_(::dlopen(KILN_LAUNCH_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << ::dlerror();
  }
  ~OpenedLibrary() { ::dlclose(handle_); }
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;

  template <typename Function>
  Function* Find(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

#define FIND(library, function) library.Find<decltype(function)>(#function)

TEST(UnloadTest, AGraphMayOutliveTheProgramsHoldOnTheLibrary) {
  FakeCudaLibrary fake;
  fake->Define("k", {.parameter_bytes = {8, 8, 8}});
  int stream = 0;
  void* graph = nullptr;
  {
    OpenedLibrary library;
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake.path().c_str();
    kiln_launch_runtime* runtime = nullptr;
    ASSERT_EQ(FIND(library, kiln_launch_open)(&options, &runtime), KILN_LAUNCH_OK);
    const std::string json = MadeDocument("k", {{"x", "*fp32"}});
    const std::string binary = MadeElf("code");
    const launch::Sha256Digest digest = launch::Sha256(binary);
    kiln_launch_bytes bytes{};
    bytes.size = sizeof bytes;
    bytes.json = json.data();
    bytes.json_bytes = json.size();
    bytes.binary = binary.data();
    bytes.binary_bytes = binary.size();
    bytes.digest = digest.data();
    kiln_launch_artifact* artifact = nullptr;
    ASSERT_EQ(FIND(library, kiln_launch_artifact_open_bytes)(&bytes, &artifact), KILN_LAUNCH_OK);
    kiln_launch_kernel* kernel = nullptr;
    ASSERT_EQ(FIND(library, kiln_launch_kernel_open)(runtime, artifact, 0, &kernel),
              KILN_LAUNCH_OK);
    kiln_launch_config config{};
    config.size = sizeof config;
    config.grid[0] = config.grid[1] = config.grid[2] = 1;
    config.stream = &stream;
    const uint64_t x = 0;
    const void* arguments[] = {&x};
    fake->BeginCapture(&stream);
    EXPECT_EQ(FIND(library, kiln_launch_enqueue)(kernel, &config, arguments, 1), KILN_LAUNCH_OK);
    graph = fake->EndCapture(&stream);
    ASSERT_NE(graph, nullptr);
    FIND(library, kiln_launch_kernel_close)(kernel);
    FIND(library, kiln_launch_artifact_close)(artifact);
    FIND(library, kiln_launch_close)(runtime);
  }
  fake->DestroyGraph(graph);  // which tells the library
}

}  // namespace
}  // namespace kiln
