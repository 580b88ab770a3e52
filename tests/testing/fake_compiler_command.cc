#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/testing/fake_compiler.h"

namespace kiln {
namespace {

pid_t ParentOf(const std::string& stat) {
  std::ifstream file(stat);
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? -1
                                       : static_cast<pid_t>(std::atoi(line.c_str() + name_end + 4));
}

}  // namespace

ZygoteCommand FakeZygote(const std::string& mode) {
  ZygoteCommand command;
  command.spawn.arguments = {KILN_FAKE_COMPILER, mode.empty() ? "plain" : mode};
  command.spawn.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
  command.version = "1.0";
  return command;
}

WorkerRequest FakeRequest(const std::string& what) {
  auto text = std::make_shared<const std::string>(what);
  WorkerRequest request;
  request.header = "{}";
  request.payload = *text;
  request.stages = FakeStages();
  request.owner = text;
  return request;
}

std::shared_ptr<Toolchain> MakeFakeCompiler(const std::string& version, const std::string& name) {
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = name;
  toolchain->version = version;
  toolchain->fingerprint = toolchain->listing = Digest::Of(toolchain->Name());
  toolchain->directory = "/x/" + name;
  toolchain->backends.push_back({"cuda", {"90"}, FakeStages(), {}, {}});
  return toolchain;
}

WorkerPoolOptions FakePoolOptions(const std::string& work_directory) {
  WorkerPoolOptions options;
  options.zygote = FakeZygote();
  options.work_directory = work_directory;
  return options;
}

std::shared_ptr<CompileJob> MakeFakeJob(const std::string& what, const std::string& backend) {
  auto job = std::make_shared<CompileJob>();
  job->request.source.text = what;
  job->request.target = {backend, "90", 32};
  job->key = Digest::Of(what);
  return job;
}

void MakeFakeToolchain(const std::string& path) {
  const std::string package = path + "/lib/python3.11/site-packages/triton";
  std::filesystem::create_directories(package);
  std::filesystem::create_directories(path + "/bin");
  std::ofstream(package + "/__init__.py") << "__version__ = '3.6.0'\n";
  std::filesystem::create_symlink(KILN_FAKE_COMPILER, path + "/bin/python");
}

std::vector<std::string> FakeStages() { return {"ptx", "cubin"}; }

std::vector<pid_t> LivingDescendants() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) parents[pid] = ParentOf(entry.path().string() + "/stat");
  }
  std::vector<pid_t> descendants;
  for (const auto& [pid, parent] : parents) {
    pid_t ancestor = parent;
    while (ancestor > 1 && ancestor != ::getpid())
      ancestor = parents.contains(ancestor) ? parents[ancestor] : 0;
    if (ancestor == ::getpid()) descendants.push_back(pid);
  }
  return descendants;
}

}  // namespace kiln
