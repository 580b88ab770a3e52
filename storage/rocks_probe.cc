#include "storage/rocks_probe.h"

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
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"
#include "storage/rocks_options.h"
#include "storage/rocks_status.h"

namespace kiln {
namespace {

constexpr size_t kMessageBytesMax = 4096;

absl::Status CannotOpen(const rocksdb::Status& status) {
  const std::string words = status.ToString();
  if (IsNoSpace(status)) return ResourceExhausted("{}", words);
  if (words.find(std::strerror(EMFILE)) != std::string::npos) return ResourceExhausted("{}", words);
  for (const int denied : {EACCES, EPERM, EROFS}) {
    if (words.find(std::strerror(denied)) != std::string::npos) {
      return PermissionDenied("{}", words);
    }
  }
  return DataLoss("{}", words);
}

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

// The schema first, read with as few of the families as can be: a newer store may have more.
absl::Status TryToOpen(const std::string& path) {
  rocksdb::DBOptions options = RocksDatabaseOptions(limits::kStoreBytesDefault);
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  // What is wrong is reported once, by the parent.
  options.info_log->SetInfoLogLevel(rocksdb::InfoLogLevel::FATAL_LEVEL);
  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(options, path, &names);
  if (!status.ok()) return CannotOpen(status);

  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  std::optional<size_t> meta;
  for (size_t i = 0; i < kRocksFamilyNames.size(); ++i) {
    if (std::find(names.begin(), names.end(), kRocksFamilyNames[i]) == names.end()) continue;
    const auto family = static_cast<RocksFamily>(i);
    if (family == RocksFamily::kMeta) meta = descriptors.size();
    descriptors.emplace_back(kRocksFamilyNames[i],
                             RocksFamilyOptions(family, limits::kStoreBytesDefault));
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  status = rocksdb::DB::OpenForReadOnly(options, path, descriptors, &handles, &opened);
  if (!status.ok()) return CannotOpen(status);
  // Never closed: the process ends with it.
  if (meta) {
    std::string row;
    status = opened->Get(rocksdb::ReadOptions(), handles[*meta],
                         rocksdb::Slice(kSchemaRow.data(), kSchemaRow.size()), &row);
    if (status.ok()) {
      KILN_RETURN_IF_ERROR(CheckSchema(row));
    } else if (!status.IsNotFound()) {
      return CannotOpen(status);
    }
  }
  return CheckFamilies(names);
}

[[noreturn]] void RunChild(const std::string& path, int report_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const absl::Status status = TryToOpen(path);
  std::string report(1, static_cast<char>(status.code()));
  report += Message(status).substr(0, kMessageBytesMax);
  // Shorter than a pipe's buffer, so one write takes it all.
  const ssize_t written = write(report_fd, report.data(), report.size());
  _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
}

// Everything until the other end closes; nothing where that takes too long.
std::optional<std::string> ReadReport(int fd, std::chrono::milliseconds time_max) {
  const auto deadline = std::chrono::steady_clock::now() + time_max;
  std::string report;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready <= 0) continue;
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

}  // namespace

absl::Status ProbeRocksStore(const std::string& path, std::chrono::milliseconds time_max) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) RunChild(path, write_end.get());
  write_end.Reset();

  const auto report = ReadReport(read_end.get(), time_max);
  if (!report) {
    kill(child, SIGKILL);
    WaitFor(child);
    return DataLoss("opening it took longer than {} ms", time_max.count());
  }
  const int ended = WaitFor(child);
  if (WIFSIGNALED(ended)) {
    return DataLoss("opening it crashed: {}", strsignal(WTERMSIG(ended)));
  }
  if (report->empty()) return DataLoss("opening it ended without a word");
  return absl::Status(static_cast<absl::StatusCode>(report->front()), report->substr(1));
}

}  // namespace kiln
