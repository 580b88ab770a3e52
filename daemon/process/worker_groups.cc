#include "daemon/process/worker_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// A process may fork while its group is read.
constexpr int kKillPasses = 10;

absl::Status Write(const std::string& path, const std::string& text) {
  // O_CREAT is for tests in plain directories. The kernel creates no files here.
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) {
    return ErrnoStatus(errno, "write " + path);
  }
  return absl::OkStatus();
}

absl::Status MakeGroup(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "make " + path);
}

std::vector<std::string> Words(const std::string& path) {
  const auto text = OsFilesystem().Read(path, limits::kKernelFileBytesMax);
  std::istringstream stream(text.value_or(""));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroups>> WorkerGroups::Open(const ControlGroups& own,
                                                                 const WorkerGroupBounds& bounds) {
  absl::StatusOr<std::unique_ptr<WorkerGroups>> groups =
      Contains(Words(own.unified.front() + "/cgroup.controllers"), "pids")
          ? OpenVersion2(own.unified.front(), bounds)
      : own.pids.empty() ? FailedPrecondition("no control group counts processes here")
                         : OpenVersion1(own.pids.front(), bounds);
  if (groups.ok()) return groups;
  return FailedPrecondition("{}", Message(groups.status()));
}

absl::StatusOr<std::unique_ptr<WorkerGroups>> WorkerGroups::OpenVersion2(const std::string& own,
                                                                         WorkerGroupBounds bounds) {
  const std::string self = fmt::format("{}", ::getpid());
  if (Words(own + "/cgroup.procs") != std::vector{self}) {
    return FailedPrecondition("the control group {} is not kilnd's alone", own);
  }
  // A group with processes cannot pass controllers on to its children.
  KILN_RETURN_IF_ERROR(MakeGroup(own + "/daemon"));
  KILN_RETURN_IF_ERROR(Write(own + "/daemon/cgroup.procs", self));
  if (!Contains(Words(own + "/cgroup.controllers"), "memory")) bounds.memory_bytes = 0;
  KILN_RETURN_IF_ERROR(
      Write(own + "/cgroup.subtree_control", bounds.memory_bytes == 0 ? "+pids" : "+pids +memory"));
  return std::unique_ptr<WorkerGroups>(new WorkerGroups(own, bounds));
}

absl::StatusOr<std::unique_ptr<WorkerGroups>> WorkerGroups::OpenVersion1(const std::string& own,
                                                                         WorkerGroupBounds bounds) {
  bounds.memory_bytes = 0;
  const std::string parent = own + "/kilnd-workers";
  KILN_RETURN_IF_ERROR(MakeGroup(parent));
  // Removes the empty groups of daemons that are dead.
  for (const DirectoryEntry& left :
       OsFilesystem().List(parent).value_or(std::vector<DirectoryEntry>())) {
    int daemon = 0;
    if (std::sscanf(left.name.c_str(), "worker-%d-", &daemon) == 1 && ::kill(daemon, 0) != 0) {
      ::rmdir((parent + "/" + left.name).c_str());
    }
  }
  std::unique_ptr<WorkerGroups> groups(new WorkerGroups(parent, bounds));
  KILN_ASSIGN_OR_RETURN(std::string group, groups->Take());
  const MutexLock lock(groups->mutex_);
  groups->free_.push_back(std::move(group));
  return groups;
}

WorkerGroups::~WorkerGroups() {
  while (!used_.empty()) Kill(used_.begin()->first);
  for (const std::string& group : free_) ::rmdir(group.c_str());
}

absl::StatusOr<std::string> WorkerGroups::Take() {
  std::string group;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      group = fmt::format("{}/worker-{}-{}", parent_, ::getpid(), ++made_);
    } else {
      group = std::move(free_.back());
      free_.pop_back();
    }
  }
  KILN_RETURN_IF_ERROR(MakeGroup(group));
  KILN_RETURN_IF_ERROR(Write(group + "/pids.max", fmt::format("{}", bounds_.threads)));
  if (bounds_.memory_bytes != 0) {
    KILN_RETURN_IF_ERROR(Write(group + "/memory.max", fmt::format("{}", bounds_.memory_bytes)));
    KILN_RETURN_IF_ERROR(Write(group + "/memory.oom.group", "1"));
  }
  return group;
}

absl::Status WorkerGroups::Add(pid_t worker) {
  KILN_ASSIGN_OR_RETURN(std::string group, Take());
  const absl::Status moved = Write(group + "/cgroup.procs", fmt::format("{}", worker));
  const MutexLock lock(mutex_);
  if (moved.ok()) {
    used_[worker] = std::move(group);
  } else {
    free_.push_back(std::move(group));
  }
  return moved;
}

void WorkerGroups::Kill(pid_t worker) {
  std::string group;
  {
    const MutexLock lock(mutex_);
    const auto found = used_.find(worker);
    if (found == used_.end()) return;
    group = std::move(found->second);
    used_.erase(found);
  }
  if (::access((group + "/cgroup.kill").c_str(), F_OK) == 0) {
    Write(group + "/cgroup.kill", "1").IgnoreError();
  } else {
    // Version 1, or Linux before 5.14. The dead stay zombies until the zygote is asked to reap
    // them, so their pids are nobody else's.
    Write(group + "/pids.max", "0").IgnoreError();
    for (int pass = 0; pass < kKillPasses; ++pass) {
      const std::vector<std::string> processes = Words(group + "/cgroup.procs");
      if (processes.empty()) break;
      for (const std::string& process : processes) ::kill(std::atoi(process.c_str()), SIGKILL);
    }
  }
  const MutexLock lock(mutex_);
  free_.push_back(std::move(group));
}

}  // namespace kiln
