#include "storage/rocks/rocks_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <rocksdb/db.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "storage/base/log.h"
#include "storage/base/unique_fd.h"
#include "storage/rocks/rocks_options.h"
#include "storage/rocks/rocks_status.h"
#include "storage/rocks/rocks_store.h"

namespace kiln {
namespace {

constexpr size_t kMessageBytesMax = 4096;

absl::Status CheckFamilies(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(kRocksFamilyNames.begin(), kRocksFamilyNames.end(), name) ==
        kRocksFamilyNames.end()) {
      return FailedPrecondition(
          "it has the column family '{}', which this program does not know: it was written by a "
          "newer Kiln or by another program",
          name);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(const std::string& row) {
  uint32_t version = 0;
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), version);
  if (error != std::errc() || end != row.data() + row.size() || version == 0) {
    return DataLoss("its schema version is unreadable");
  }
  if (version > kRocksSchemaVersion) {
    return FailedPrecondition(
        "it has schema version {}, this program knows version {}: run the newer Kiln that wrote "
        "it, or move it away",
        version, kRocksSchemaVersion);
  }
  return absl::OkStatus();
}

// Opens read-only with two families only: a newer store may have more families, and stays
// unchanged.
absl::Status CheckVersion(const std::string& path, uint64_t expected_bytes,
                          const rocksdb::DBOptions& options,
                          const std::vector<std::string>& names) {
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const RocksFamily family : {RocksFamily::kDefault, RocksFamily::kMeta}) {
    const char* const name = kRocksFamilyNames[static_cast<size_t>(family)];
    if (std::find(names.begin(), names.end(), name) == names.end()) return CheckFamilies(names);
    descriptors.emplace_back(name, RocksFamilyOptions(family, expected_bytes));
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(options, path, descriptors, &handles, &opened);
  if (!status.ok()) return FromRocks(status, "open " + path);
  const std::unique_ptr<rocksdb::DB> database(opened);
  std::string row;
  status = database->Get(rocksdb::ReadOptions(), handles[1],
                         rocksdb::Slice(kSchemaRow.data(), kSchemaRow.size()), &row);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    (void)database->DestroyColumnFamilyHandle(handle);
  }
  if (!status.ok() && !status.IsNotFound()) return FromRocks(status, "read the schema version");
  if (status.ok()) KILN_RETURN_IF_ERROR(CheckSchema(row));
  return CheckFamilies(names);
}

// Opens the store as the daemon will. An open for writing moves the log into tables and counts the
// totals, so the daemon's own open is shorter.
absl::Status TryToOpen(const std::string& path, uint64_t expected_bytes, rocksdb::Env* env,
                       RocksAccess access) {
  rocksdb::DBOptions options = RocksDatabaseOptions(expected_bytes);
  if (env != nullptr) options.env = env;
  std::vector<std::string> names;
  const rocksdb::Status status = rocksdb::DB::ListColumnFamilies(options, path, &names);
  if (!status.ok()) return FromRocks(status, "open " + path);
  KILN_RETURN_IF_ERROR(CheckVersion(path, expected_bytes, options, names));
  KILN_ASSIGN_OR_RETURN(const auto database,
                        RocksDatabase::Open(path, expected_bytes, env, access));
  return RocksStore::ReadTotals(*database).status();
}

[[noreturn]] void RunChild(const std::function<absl::Status()>& work, int report_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The parent reports errors.
  SetLogLevel("error");
  absl::Status status;
  try {
    status = work();
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("no memory to open it");
  }
  std::string report(1, static_cast<char>(status.code()));
  report += Message(status).substr(0, kMessageBytesMax);
  // Shorter than a pipe's buffer, so one write takes everything.
  const ssize_t written = write(report_fd, report.data(), report.size());
  _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
}

// Reads until the other end closes. DEADLINE_EXCEEDED, CANCELLED: as RunInChild.
absl::StatusOr<std::string> ReadReport(int fd, const ChildBounds& bounds) {
  const auto deadline = std::chrono::steady_clock::now() + bounds.time_max;
  std::string report;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return DeadlineExceeded("opening it took longer than {} ms", bounds.time_max.count());
    }
    pollfd waiting[] = {{fd, POLLIN, 0}, {bounds.stop_fd, POLLIN, 0}};
    const int ready = poll(waiting, 2, static_cast<int>(left.count()));
    if (ready <= 0) continue;
    if (waiting[1].revents != 0) return Cancelled("asked to stop before the store was open");
    char buffer[kMessageBytesMax];
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return report;
    report.append(buffer, static_cast<size_t>(got));
  }
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Whether a program's own fault causes the signal. Other signals come from outside, such as SIGKILL
// when memory runs out, and the store may be whole.
bool IsCrash(int signal) {
  for (const int own : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP}) {
    if (signal == own) return true;
  }
  return false;
}

}  // namespace

absl::Status RunInChild(const ChildBounds& bounds, const std::function<absl::Status()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) RunChild(work, write_end.get());
  write_end.Reset();

  const auto report = ReadReport(read_end.get(), bounds);
  if (!report.ok()) {
    kill(child, SIGKILL);
    // A child that hangs in the kernel must not hold up an end.
    if (!absl::IsCancelled(report.status())) WaitFor(child);
    return report.status();
  }
  const int ended = WaitFor(child);
  if (WIFSIGNALED(ended)) {
    const int signal = WTERMSIG(ended);
    if (IsCrash(signal)) return DataLoss("opening it crashed: {}", strsignal(signal));
    return Unavailable(
        "the process that tried to open it was ended from outside ({}): see the system's log "
        "whether memory ran out, then start again",
        strsignal(signal));
  }
  if (report->empty()) {
    return Unavailable("the process that tried to open it ended without a word: start again");
  }
  return absl::Status(static_cast<absl::StatusCode>(report->front()), report->substr(1));
}

absl::Status ProbeRocksStore(const std::string& path, uint64_t expected_bytes,
                             const ChildBounds& bounds, rocksdb::Env* env, RocksAccess access) {
  const auto open = [&] { return TryToOpen(path, expected_bytes, env, access); };
  absl::Status status = RunInChild(bounds, open);
  if (!absl::IsDeadlineExceeded(status)) return status;
  LogWarning("the store takes long to open; trying once more",
             {{"path", path}, {"took_ms_more_than", bounds.time_max.count()}});
  status = RunInChild({2 * bounds.time_max, bounds.stop_fd}, open);
  if (absl::IsDeadlineExceeded(status)) return DataLoss("{}", Message(status));
  return status;
}

}  // namespace kiln
