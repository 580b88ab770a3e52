#include "client/rpc/client.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "client/rpc/compile_stream.h"
#include "client/rpc/connection.h"
#include "client/rpc/forks.h"
#include "client/rpc/hot_answers.h"
#include "client/rpc/light_stream.h"
#include "client/rpc/request_window.h"
#include "client/rpc/socket_path.h"
#include "client/rpc/unreported_uses.h"
#include "client/rpc/verified_contents.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/utf8.h"

namespace kiln {
namespace {

absl::Status WrongBytes(const Digest& digest) {
  return DataLoss("the daemon sent other bytes than those of {}", digest.Hex());
}

// The whole blob. DATA_LOSS: it does not match its digest.
absl::Status FetchOnce(KernelStub& stub, const Digest& digest, const CallLimits& limits,
                       std::string& content) {
  v1::FetchRequest request;
  request.set_digest(std::string(digest.Bytes()));
  DigestBuilder builder;
  content.clear();
  const absl::Status status =
      WatchedCall(stub, limits)
          .Stream(stub, &KernelStub::PrepareAsyncFetch, request, [&](const v1::FetchChunk& chunk) {
            builder.Update(chunk.content());
            content += chunk.content();
            return content.size() <= limits::kBlobBytesMax;
          });
  if (content.size() > limits::kBlobBytesMax) return WrongBytes(digest);
  KILN_RETURN_IF_ERROR(status);
  return builder.Finish() == digest ? absl::OkStatus() : WrongBytes(digest);
}

// By the light protocol. By gRPC where the daemon does not speak it, or takes no connection more.
absl::Status RunStream(const Connection& connection, Connection::Stubs& stubs,
                       const CallOptions& options, const AnswerCompletion& complete,
                       RequestWindow& window) {
  const CallLimits limits = connection.Limits(options);
  if (auto socket = connection.DialAnother(); socket.ok()) {
    const absl::Status status = RunLightStream(
        *std::move(socket), limits,
        [&](std::chrono::milliseconds budget) { return ShowsLife(*stubs.kernels, budget); },
        complete, window);
    if (!absl::IsUnimplemented(status)) return status;
    window.SendAllAgain();
  }
  return RunCompileStream(*stubs.kernels, limits, complete, window);
}

// Whether the daemon answers over a connection of its own, without gRPC.
bool AnswersWithoutGrpc(const Connection& connection, v1::LightMethod method,
                        const google::protobuf::MessageLite& body,
                        std::chrono::milliseconds budget) {
  auto socket = connection.DialAnother();
  return socket.ok() && IsAnswered(*std::move(socket), method, body, budget);
}

bool ShowsLifeWithoutGrpc(const Connection& connection, std::chrono::milliseconds budget) {
  return AnswersWithoutGrpc(connection, v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), budget);
}

absl::Status RunStreamWithoutGrpc(const Connection& connection, const CallOptions& options,
                                  const AnswerCompletion& complete, RequestWindow& window) {
  KILN_ASSIGN_OR_RETURN(UniqueFd socket, connection.DialAnother());
  const absl::Status status = RunLightStream(
      std::move(socket), connection.Limits(options),
      [&](std::chrono::milliseconds budget) { return ShowsLifeWithoutGrpc(connection, budget); },
      complete, window);
  return absl::IsUnimplemented(status) ? Unavailable("{}", Message(status)) : status;
}

absl::Status RunStreamAnyWay(Connection& connection, const CallOptions& options,
                             const AnswerCompletion& complete, RequestWindow& window) {
  if (!MayUseGrpc()) return RunStreamWithoutGrpc(connection, options, complete, window);
  KILN_ASSIGN_OR_RETURN(const auto stubs, connection.Get());
  const absl::Status status = RunStream(connection, *stubs, options, complete, window);
  if (absl::IsUnavailable(status)) connection.Drop(stubs);
  return status;
}

// "" where the daemon would refuse the name.
std::string JobOf(const ConnectOptions& options) {
  std::string job = options.job;
  for (const char* variable : {"KILN_JOB", "SLURM_JOB_ID"}) {
    const char* const value = std::getenv(variable);
    if (job.empty() && value != nullptr) job = value;
  }
  return IsValidUtf8(job) && job.size() <= limits::kNameBytesMax ? job : "";
}

}  // namespace

// What the calls share. Thread-safe.
class Client::Core {
 public:
  // REQUIRES: the options have the path of the socket.
  explicit Core(const ConnectOptions& located)
      : setup(located),
        connection(std::make_unique<Connection>(located)),
        verified(located.verified_bytes_max),
        hot(located.hot_directory.empty() ? InSocketFolder(located.socket_path, "hot")
                                          : located.hot_directory,
            located.server_uid),
        job(JobOf(located)) {}
  ~Core() { TellOf(uses_.TakeAll()); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(UnaryMethod<KernelStub, Request, Response> method,
                                const Request& request, const CallOptions& options) {
    return connection->Call(&Connection::Stubs::kernels, method, request, options);
  }

  absl::StatusOr<v1::CompileResponse> Compile(const v1::CompileRequest& request,
                                              const CallOptions& options) {
    KILN_ASSIGN_OR_RETURN(v1::CompileResponse response,
                          Call(&KernelStub::PrepareAsyncCompile, request, options));
    KILN_RETURN_IF_ERROR(Complete(response, options));
    return response;
  }

  absl::StatusOr<std::string> Fetch(const Digest& digest, const CallOptions& options) {
    std::string content;
    KILN_RETURN_IF_ERROR(connection->Repeatedly(options, [&](Connection::Stubs& stubs) {
      return FetchOnce(*stubs.kernels, digest, connection->Limits(options), content);
    }));
    return content;
  }

  // From the hot directory, or RESOURCE_EXHAUSTED; nothing where the daemon must be asked.
  std::optional<RequestWindow::Answer> AnswerHere(const v1::CompileRequest& request) {
    if (absl::Status status = CheckSize(request); !status.ok()) return status;
    if (!setup.reads_hot_directory) return std::nullopt;
    absl::StatusOr<v1::CompileResponse> found = FindHotAnswer(hot, verified, request);
    if (!found.ok()) return std::nullopt;
    const bool is_ahead = request.priority() >= v1::PRIORITY_WARM;
    // To ask what is there is no use of it.
    if (is_ahead && request.cache_policy() == v1::CACHE_POLICY_ONLY_IF_CACHED) return found;
    uint64_t bytes = 0;
    for (const v1::StageBlob& stage : found->stages()) bytes += stage.size_bytes();
    TellOf(uses_.Add(*Digest::FromBytes(found->key()), request.job().empty() ? job : request.job(),
                     found->provenance().compile_micros(), bytes, is_ahead,
                     std::chrono::steady_clock::now()));
    return found;
  }

  // Checks every blob that came along and fetches the others.
  absl::Status Complete(v1::CompileResponse& response, const CallOptions& options) {
    if (response.key().size() != Digest::kSizeBytes) {
      return Internal("the daemon's answer has a key of {} bytes", response.key().size());
    }
    for (v1::StageBlob& stage : *response.mutable_stages()) {
      if (absl::Status status = CompleteStage(stage, options); !status.ok()) {
        return Annotate(status, stage.stage());
      }
    }
    return absl::OkStatus();
  }

  std::vector<std::string> TakeNotLeased() {
    TellOf(uses_.TakeAll());
    const MutexLock lock(mutex_);
    return std::exchange(not_leased_, {});
  }

  // Errors as Client::Connect.
  absl::Status Reach() {
    if (MayUseGrpc()) return connection->Reach();
    KILN_RETURN_IF_ERROR(connection->DialAnother().status());
    return ShowsLifeWithoutGrpc(*connection, setup.answer_budget) ? absl::OkStatus()
                                                                  : WedgedStatus();
  }

  bool HasPublished() const { return setup.reads_hot_directory && hot.Toolchains().ok(); }

  const ConnectOptions setup;
  const uint64_t made_after_forks = Forks();
  const std::unique_ptr<Connection> connection;
  VerifiedContents verified;
  const HotReader hot;
  const std::string job;  // of requests that name none

 private:
  // A warm can wait: what the daemon does not hear of, it may evict.
  static constexpr std::chrono::milliseconds kLeaseBudget = std::chrono::seconds(2);

  // The daemon may lose what it is told, so this does not repeat.
  void TellOf(const v1::NoteUsesRequest& request) {
    if (request.keys().empty()) return;
    if (!MayUseGrpc()) {
      (void)AnswersWithoutGrpc(*connection, v1::LIGHT_METHOD_NOTE_USES, request,
                               limits::kUnreportedUsesBudget);
      return;
    }
    const auto stubs = connection->Get().value_or(nullptr);
    if (stubs == nullptr) return;
    v1::NoteUsesResponse response;
    const auto budget = request.is_warm() ? kLeaseBudget : limits::kUnreportedUsesBudget;
    const auto deadline = std::chrono::steady_clock::now() + budget;
    const absl::Status told =
        WatchedCall(*stubs->kernels, connection->Limits({.deadline = deadline}))
            .Unary(*stubs->kernels, &KernelStub::PrepareAsyncNoteUses, request, response);
    if (absl::IsUnavailable(told)) connection->Drop(stubs);
    const MutexLock lock(mutex_);
    not_leased_.insert(not_leased_.end(), response.not_leased().begin(),
                       response.not_leased().end());
  }

  absl::Status CompleteStage(v1::StageBlob& stage, const CallOptions& options) {
    KILN_ASSIGN_OR_RETURN(const Digest digest, Digest::FromBytes(stage.digest()));
    if (stage.has_content()) {
      return verified.Matches(digest, stage.content()) ? absl::OkStatus() : WrongBytes(digest);
    }
    if (!options.fetch_content) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(*stage.mutable_content(), Fetch(digest, options));
    return absl::OkStatus();
  }

  UnreportedUses uses_;
  Mutex mutex_;
  std::vector<std::string> not_leased_ KILN_GUARDED_BY(mutex_);  // keys
};

Client::Client(std::unique_ptr<Core> core) : core_(core.release()) {}

Client::~Client() {
  if (Core* const here = core_; here->made_after_forks == Forks()) delete here;
}

Client::Core& Client::core() const {
  Core* here = core_;
  if (here->made_after_forks == Forks()) return *here;
  // What another thread held at the fork stays held, so the parent's is left as it is.
  auto anew = std::make_unique<Core>(here->setup);
  return core_.compare_exchange_strong(here, anew.get()) ? *anew.release() : *here;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(const auto located, Connection::Locate(options, kServiceSocket));
  auto core = std::make_unique<Core>(located);
  const absl::Status reached = core->Reach();
  const bool is_absent = absl::IsUnavailable(reached) && !IsWedgedStatus(reached);
  const bool may_be_absent = !options.needs_daemon && core->HasPublished();
  if (!reached.ok() && !(is_absent && may_be_absent)) return reached;
  return std::unique_ptr<Client>(new Client(std::move(core)));
}

absl::StatusOr<v1::CompileResponse> Client::Compile(const v1::CompileRequest& request,
                                                    const CallOptions& options) {
  if (auto answer = core().AnswerHere(request)) return *std::move(answer);
  if (!MayUseGrpc()) return CompileAlone(request, options);
  if (request.job().empty() && !core().job.empty()) {
    v1::CompileRequest named = request;
    named.set_job(core().job);
    return core().Compile(named, options);
  }
  return core().Compile(request, options);
}

absl::StatusOr<v1::CompileResponse> Client::CompileAlone(const v1::CompileRequest& request,
                                                         const CallOptions& options) {
  bool is_taken = false;
  absl::StatusOr<v1::CompileResponse> answered = Internal("there was no answer");
  const absl::Status status = CompileMany(
      [&](v1::CompileRequest& next) {
        if (!is_taken) next = request;
        return !std::exchange(is_taken, true);
      },
      [&](uint64_t, absl::StatusOr<v1::CompileResponse> answer) { answered = std::move(answer); },
      {.call = options});
  return status.ok() ? std::move(answered) : status;
}

size_t InFlightDefault() {
  constexpr size_t kAtLeast = 64;
  return std::clamp<size_t>(2 * std::thread::hardware_concurrency(), kAtLeast,
                            limits::kStreamInFlightMax);
}

absl::Status Client::CompileMany(const RequestSource& next, const AnswerSink& answer,
                                 const ManyOptions& options) {
  Connection& connection = *core().connection;
  const RequestSource named = [&](v1::CompileRequest& request) {
    const bool is_taken = next(request);
    if (is_taken && request.job().empty()) request.set_job(core().job);
    return is_taken;
  };
  RequestWindow window(
      named, answer, [this](const auto& request) { return core().AnswerHere(request); }, options,
      connection.retry());
  const AnswerCompletion complete = [&](v1::CompileResponse& response) {
    return core().Complete(response, options.call);
  };
  Backoff backoff(connection.retry());
  uint64_t answers_before = 0;
  while (true) {
    const absl::StatusOr<bool> needs_daemon = window.AwaitNeed();
    if (!needs_daemon.ok() || !*needs_daemon) return window.End(needs_daemon.status());
    const absl::Status status = RunStreamAnyWay(connection, options.call, complete, window);
    if (window.answers() > answers_before) backoff.Reset();
    answers_before = window.answers();
    // A stream may end while nothing is under way: the next request opens another one.
    if (!window.IsIdle() && !WaitBeforeRepeating(status, backoff, options.call.deadline)) {
      return window.End(status);
    }
    window.SendAllAgain();
  }
}

absl::StatusOr<std::vector<v1::LookupResponse::Entry>> Client::Lookup(
    const std::vector<std::string>& keys, const CallOptions& options) {
  std::vector<v1::LookupResponse::Entry> entries;
  entries.reserve(keys.size());
  for (size_t begin = 0; begin < keys.size(); begin += limits::kLookupBatchKeys) {
    const size_t end = std::min(begin + limits::kLookupBatchKeys, keys.size());
    v1::LookupRequest request;
    for (size_t i = begin; i < end; ++i) request.add_keys(keys[i]);
    KILN_ASSIGN_OR_RETURN(v1::LookupResponse response,
                          core().Call(&KernelStub::PrepareAsyncLookup, request, options));
    if (static_cast<size_t>(response.entries_size()) != end - begin) {
      return Internal("the daemon answered {} keys out of {}", response.entries_size(),
                      end - begin);
    }
    std::move(response.mutable_entries()->begin(), response.mutable_entries()->end(),
              std::back_inserter(entries));
  }
  return entries;
}

absl::StatusOr<v1::NearestResponse> Client::Nearest(const v1::CompileRequest& request,
                                                    const CallOptions& options) {
  KILN_RETURN_IF_ERROR(CheckSize(request));
  v1::NearestRequest asked;
  *asked.mutable_request() = request;
  return core().Call(&KernelStub::PrepareAsyncNearest, asked, options);
}

absl::StatusOr<std::string> Client::Fetch(std::string_view digest, const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const Digest name, Digest::FromBytes(digest));
  return core().Fetch(name, options);
}

absl::StatusOr<std::vector<v1::OwnEntry>> Client::GetOwn(const std::vector<std::string>& keys,
                                                         const CallOptions& options,
                                                         OwnEntries kind) {
  std::vector<v1::OwnEntry> entries;
  size_t answered = 0;
  while (answered < keys.size()) {
    const size_t end = std::min(answered + limits::kUserCacheEntriesPerCallMax, keys.size());
    v1::GetOwnRequest request;
    request.set_tunings(kind == OwnEntries::kTunings);
    request.set_job(core().job);
    for (size_t i = answered; i < end; ++i) request.add_keys(keys[i]);
    KILN_ASSIGN_OR_RETURN(v1::GetOwnResponse response,
                          core().Call(&KernelStub::PrepareAsyncGetOwn, request, options));
    // What found no room in the answer is the end of what was asked for.
    const auto left = static_cast<size_t>(response.unanswered_keys_size());
    if (left >= end - answered) return Internal("the daemon answered none of {} keys", left);
    answered = end - left;
    for (v1::OwnEntry& entry : *response.mutable_entries()) {
      for (const v1::OwnFile& file : entry.files()) {
        KILN_ASSIGN_OR_RETURN(const Digest digest, Digest::FromBytes(file.digest()));
        if (!core().verified.Matches(digest, file.content())) return WrongBytes(digest);
      }
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

absl::StatusOr<std::set<std::string>> Client::FindOwn(const std::vector<std::string>& keys,
                                                      const CallOptions& options, OwnEntries kind) {
  std::set<std::string> found;
  for (size_t begin = 0; begin < keys.size(); begin += limits::kUserCacheEntriesPerCallMax) {
    const size_t end = std::min(begin + limits::kUserCacheEntriesPerCallMax, keys.size());
    v1::GetOwnRequest request;
    request.set_tunings(kind == OwnEntries::kTunings);
    request.set_keys_only(true);
    for (size_t i = begin; i < end; ++i) request.add_keys(keys[i]);
    KILN_ASSIGN_OR_RETURN(v1::GetOwnResponse response,
                          core().Call(&KernelStub::PrepareAsyncGetOwn, request, options));
    for (v1::OwnEntry& entry : *response.mutable_entries()) {
      found.insert(std::move(*entry.mutable_key()));
    }
  }
  return found;
}

absl::Status Client::PutOwn(const std::vector<v1::OwnEntry>& entries, const CallOptions& options,
                            OwnEntries kind) {
  v1::PutOwnRequest request;
  request.set_tunings(kind == OwnEntries::kTunings);
  request.set_job(core().job);
  request.mutable_entries()->Assign(entries.begin(), entries.end());
  KILN_RETURN_IF_ERROR(CheckSize(request));
  return core().Call(&KernelStub::PrepareAsyncPutOwn, request, options).status();
}

absl::StatusOr<uint64_t> Client::NoteWarmed(const std::vector<std::string>& keys,
                                            const std::string& job, const CallOptions& options) {
  uint64_t not_leased = 0;
  for (size_t begin = 0; begin < keys.size(); begin += limits::kLookupKeysMax) {
    const size_t end = std::min(begin + limits::kLookupKeysMax, keys.size());
    v1::NoteUsesRequest request;
    request.set_is_warm(true);
    for (size_t i = begin; i < end; ++i) request.add_keys(keys[i]);
    v1::ToldHits& told = *request.add_hits();
    told.set_job(job.empty() ? core().job : job);
    told.set_place(v1::ToldHits::HOT);
    told.set_count(end - begin);
    KILN_ASSIGN_OR_RETURN(const auto response,
                          core().Call(&KernelStub::PrepareAsyncNoteUses, request, options));
    not_leased += static_cast<uint64_t>(response.not_leased_size());
  }
  return not_leased;
}

std::vector<std::string> Client::TakeNotLeased() { return core().TakeNotLeased(); }

absl::StatusOr<v1::ListToolchainsResponse> Client::ListToolchains(const CallOptions& options) {
  return core().Call(&KernelStub::PrepareAsyncListToolchains, v1::ListToolchainsRequest(), options);
}

absl::StatusOr<HotArtifact> Client::FindHot(std::string_view key) const {
  KILN_ASSIGN_OR_RETURN(const Digest name, Digest::FromBytes(key));
  return core().hot.Find(name);
}

const std::string& Client::socket_path() const { return core().connection->socket_path(); }
const std::string& Client::hot_directory() const { return core().hot.path(); }

}  // namespace kiln
