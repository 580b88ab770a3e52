// launch_cxx KERNEL.json [DRIVER]: the same as launch.c, with what C++ has to make it shorter.
#include <kiln_launch.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void Check(kiln_launch_code code) {
  if (code != KILN_LAUNCH_OK) throw std::runtime_error(kiln_launch_error());
}

template <auto close>
struct Close {
  template <typename T>
  void operator()(T* object) const {
    close(object);
  }
};
using Artifact = std::unique_ptr<kiln_launch_artifact, Close<kiln_launch_artifact_close>>;
using Kernel = std::unique_ptr<kiln_launch_kernel, Close<kiln_launch_kernel_close>>;
using Runtime = std::unique_ptr<kiln_launch_runtime, Close<kiln_launch_close>>;

Runtime OpenRuntime(const char* driver) {
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.driver_path = driver;
  kiln_launch_runtime* runtime = nullptr;
  Check(kiln_launch_open(&options, &runtime));
  return Runtime(runtime);
}

Artifact OpenArtifact(const char* path) {
  kiln_launch_artifact* artifact = nullptr;
  Check(kiln_launch_artifact_open_json(path, &artifact));
  return Artifact(artifact);
}

Kernel OpenKernel(const Runtime& runtime, const Artifact& artifact) {
  kiln_launch_kernel* kernel = nullptr;
  Check(kiln_launch_kernel_open(runtime.get(), artifact.get(), 0, &kernel));
  return Kernel(kernel);
}

void Run(const char* path, const char* driver) {
  const Artifact artifact = OpenArtifact(path);
  const Runtime runtime = OpenRuntime(driver);
  const Kernel kernel = OpenKernel(runtime, artifact);
  Check(kiln_launch_prepare(kernel.get()));

  kiln_launch_artifact_info info{};
  info.size = sizeof info;
  Check(kiln_launch_artifact_get_info(artifact.get(), &info));
  static const char zeroes[128] = {};
  const std::vector<const void*> values(info.parameter_count, zeroes);
  kiln_launch_config config{};
  config.size = sizeof config;
  config.grid[0] = config.grid[1] = config.grid[2] = 1;
  Check(kiln_launch_enqueue(kernel.get(), &config, values.data(), info.parameter_count));
  std::printf("launched %s\n", info.name);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s KERNEL.json [DRIVER]\n", arguments[0]);
    return 2;
  }
  try {
    Run(arguments[1], count > 2 ? arguments[2] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
