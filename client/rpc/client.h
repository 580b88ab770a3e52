// libkiln: asks the daemon for compiled kernels. Installed as <kiln/client.h>; the messages of
// <kiln/v1/kernel_service.pb.h> are its request and answer types, so there is no second set of
// types to learn.
//
//   auto client = kiln::Client::Connect({});
//   if (!client.ok()) return CompileLocally();            // decided within connect_budget
//   kiln::v1::CompileRequest request;
//   request.mutable_source()->set_kind(kiln::v1::SOURCE_KIND_TTIR);
//   request.mutable_source()->set_text(ttir);
//   request.mutable_target()->set_backend("cuda");
//   request.mutable_target()->set_architecture("90");
//   auto answer = (*client)->Compile(request, {.deadline = std::chrono::steady_clock::now() +
//   std::chrono::seconds(60)});
//
// Errors are absl::Status with the codes of gRPC. After an error the caller can compile locally,
// unless IsCompilersVerdict holds: the local compiler would refuse the source too. UNAVAILABLE: no
// daemon, or it went away, or it does not answer. DATA_LOSS: bytes do not match their digest; such
// bytes are never returned.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/v1/kernel.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// Every call of this library can be repeated without harm. When the daemon is gone, restarting or
// full, a call connects again and repeats. It waits a random time before, which doubles, or the
// time that the daemon asks for.
struct RetryOptions {
  // 1: never repeat.
  int attempts_max = 5;
  std::chrono::milliseconds backoff_first{20};
  std::chrono::milliseconds backoff_max{1000};
};

// Where the daemon is, and how long it may take to answer.
struct ConnectOptions {
  // The socket itself. Empty: ROOT/run/kilnd.sock for the `root` below or $KILN_ROOT; without
  // either, the first that exists of $XDG_RUNTIME_DIR/kiln/kilnd.sock (not for root) and
  // /run/kiln/kilnd.sock.
  std::string socket_path;
  std::string root;
  // Where the daemon publishes artifacts as files. Empty: `hot` beside the socket.
  std::string hot_directory;
  // Whether Compile and CompileMany look there first.
  bool reads_hot_directory = true;
  // Whether Connect fails where there is no daemon, even if the hot directory can be read.
  bool needs_daemon = false;
  // A uid that may run the daemon, besides root and the caller's own.
  std::optional<uid_t> server_uid;
  // Requests that name no job are of this one. Empty: $KILN_JOB, or $SLURM_JOB_ID.
  std::string job;
  // For connecting, repeats included.
  std::chrono::milliseconds connect_budget{100};
  // A call fails with UNAVAILABLE when the daemon shows no sign of life for this long. A daemon
  // that compiles for longer still shows signs of life.
  std::chrono::milliseconds answer_budget{1000};
  // Keeps verified contents, the most recently used, up to this many bytes. Content that comes
  // again is compared with its copy instead of hashed. 0: keeps nothing.
  size_t verified_bytes_max = size_t{4} << 20;
  RetryOptions retry;
};

struct CallOptions {
  // For the whole call, repeats included. None: the call waits as long as the daemon lives.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Fetches blobs that are too large for the reply, so that every stage has its content.
  bool fetch_content = true;
};

// Tunings are times that were measured. Users whom the daemon's operator names (tunings.shared_by)
// have them together.
enum class OwnEntries { kOfThisUser, kTunings };

// 64, or twice this machine's cores: so many compiles keep all of them busy. At most
// limits::kStreamInFlightMax.
size_t InFlightDefault();

struct ManyOptions {
  CallOptions call;
  // Requests that are sent and not answered. The daemon reads at most limits::kStreamInFlightMax.
  size_t in_flight_max = InFlightDefault();
};

// An artifact in the hot directory. The file is read, or mapped if it is large. The views live as
// long as this object; copies share the memory. FindHot has checked the file's checksum, and that
// only the daemon can write to the directory. It does not hash the content.
class HotArtifact {
 public:
  // The artifact's metadata, timings and provenance as JSON.
  std::string_view document() const { return document_; }
  // The document as the daemon keeps it for answers, or "" (storage/format.md).
  std::string_view description() const { return description_; }
  // The final binary: cubin or HSACO.
  std::string_view binary() const { return binary_; }
  // "cubin", "hsaco".
  std::string_view stage() const { return stage_; }
  // The SHA-256 that the binary should have, 32 bytes.
  std::string_view digest() const { return digest_; }

 private:
  friend class HotReader;
  std::shared_ptr<const void> mapping_;
  std::string_view document_;
  std::string_view description_;
  std::string_view binary_;
  std::string_view stage_;
  std::string_view digest_;
};

// A connection to one daemon. Connects again by itself. Thread-safe; every method but FindHot
// blocks.
//
// A forked child may use it, or connect anew: it compiles over connections of its own, without
// gRPC, which the parent has. What needs gRPC is FAILED_PRECONDITION there: all calls but Compile
// and CompileMany, and with these contents that an answer does not bring along.
class Client {
 public:
  // Finds the socket, connects, checks who serves it, and asks for a sign of life. OK without a
  // daemon where its hot directory can be read: hits need none, and other calls connect once there
  // is one. UNAVAILABLE: no daemon. PERMISSION_DENIED: the socket refuses us, or an untrusted user
  // serves it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const ConnectOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // One kernel. Every blob of the answer has been checked against its digest. Where the final
  // binary alone is wanted and its artifact is published in the hot directory, this is a read of
  // its file: no call, as long as this object lives, whatever becomes of the daemon. The daemon
  // hears of such uses now and then.
  [[nodiscard]] absl::StatusOr<v1::CompileResponse> Compile(const v1::CompileRequest& request,
                                                            const CallOptions& options = {});

  // Fills in the next request; false: there are no more.
  using RequestSource = std::function<bool(v1::CompileRequest&)>;
  // The answer to request number `index`, counted from 0 as they were taken from the source.
  using AnswerSink =
      std::function<void(uint64_t index, absl::StatusOr<v1::CompileResponse> answer)>;

  // Many kernels over one connection. `answer` runs on the calling thread, `next` on one of its
  // own, at the same time: what both use needs a lock. Neither may throw. Answers come as they
  // finish, while `next` blocks, too. `next` for a request happens before `answer` to it. Every
  // request that was taken gets exactly one answer. Memory is bounded: no more than `in_flight_max`
  // requests, or 20 MiB of them, are held. OK: the source is at its end and every request was
  // answered, each with its own status. Otherwise why it stopped early: what was in flight is
  // answered with the same status at once, and so is the request that `next` returns last, for
  // which the call waits; what was not taken stays in the source.
  [[nodiscard]] absl::Status CompileMany(const RequestSource& next, const AnswerSink& answer,
                                         const ManyOptions& options = {});

  // Which of these keys (32 raw bytes each, any number) are stored; in the same order.
  [[nodiscard]] absl::StatusOr<std::vector<v1::LookupResponse::Entry>> Lookup(
      const std::vector<std::string>& keys, const CallOptions& options = {});

  // The stored artifact of the same kernel whose request differs in the fewest things, to say why
  // this one missed the cache. Without a key: there is none. Compiles nothing; takes some tenths of
  // a second where much is stored.
  [[nodiscard]] absl::StatusOr<v1::NearestResponse> Nearest(const v1::CompileRequest& request,
                                                            const CallOptions& options = {});

  // A blob by its digest (32 raw bytes), checked against it. NOT_FOUND.
  [[nodiscard]] absl::StatusOr<std::string> Fetch(std::string_view digest,
                                                  const CallOptions& options = {});

  // The entries with these keys (any number) in the caller's own namespace, in the order of the
  // keys, without keys that have no entry. Only processes of the same uid read and write this
  // namespace. Every content has been checked against its digest.
  [[nodiscard]] absl::StatusOr<std::vector<v1::OwnEntry>> GetOwn(
      const std::vector<std::string>& keys, const CallOptions& options = {},
      OwnEntries kind = OwnEntries::kOfThisUser);

  // The keys that have an entry there. Reads no contents.
  [[nodiscard]] absl::StatusOr<std::set<std::string>> FindOwn(
      const std::vector<std::string>& keys, const CallOptions& options = {},
      OwnEntries kind = OwnEntries::kOfThisUser);

  // Stores entries in the caller's own namespace and replaces entries with the same keys. At most
  // 256 entries, 16 MiB in all. A key must name everything that decides the content. NOT_FOUND: an
  // artifact no longer has such an output.
  [[nodiscard]] absl::Status PutOwn(const std::vector<v1::OwnEntry>& entries,
                                    const CallOptions& options = {},
                                    OwnEntries kind = OwnEntries::kOfThisUser);

  // A warm for the job found these artifacts with FindHot (32 raw bytes each, any number), so the
  // daemon leases them. An empty `job` is that of the options. Returns how many it did not lease:
  // the leases have their share.
  [[nodiscard]] absl::StatusOr<uint64_t> NoteWarmed(const std::vector<std::string>& keys,
                                                    const std::string& job,
                                                    const CallOptions& options = {});
  // Tells the daemon of all hits in the hot directory. Returns the keys of those that a warm found
  // and that were not leased, since the last call.
  [[nodiscard]] std::vector<std::string> TakeNotLeased();

  [[nodiscard]] absl::StatusOr<v1::ListToolchainsResponse> ListToolchains(
      const CallOptions& options = {});

  // Reads the hot directory without asking the daemon: one open, one read. NOT_FOUND: the artifact
  // is not published (ask with Compile or Lookup), or there is no hot directory. `key` is 32 raw
  // bytes.
  [[nodiscard]] absl::StatusOr<HotArtifact> FindHot(std::string_view key) const;

  const std::string& socket_path() const;
  const std::string& hot_directory() const;

 private:
  class Core;
  explicit Client(std::unique_ptr<Core> core);
  Core& core() const;
  // Compile, as a batch of one.
  absl::StatusOr<v1::CompileResponse> CompileAlone(const v1::CompileRequest& request,
                                                   const CallOptions& options);

  mutable std::atomic<Core*> core_;  // the parent's in a child that has not used it yet
};

// Whether the compiler itself refused the source, so that a local compile would end the same way.
// False for everything that is about the daemon: absent, full, without the toolchain, crashed.
[[nodiscard]] bool IsCompilersVerdict(const absl::Status& status);

// Why a source did not compile, where `status` came from such a call.
[[nodiscard]] std::optional<v1::CompileDiagnostics> DiagnosticsOf(const absl::Status& status);

// The key of the request that failed, 32 raw bytes; "" where the daemon did not get as far as
// computing one, or does not tell it.
[[nodiscard]] std::string RequestKeyOf(const absl::Status& status);

// How long the daemon suggests to wait before trying again, where it did.
[[nodiscard]] std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status);

}  // namespace kiln
