// Every limit of the system. A constant named …Default is the default of a configuration field,
// whose bounds stand where the field is declared. All other limits are fixed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace kiln::limits {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;

// --- What a client may send ---

// The largest Triton kernel seen in practice prints 81 KB of TTIR; generated CUDA reaches a few MB.
inline constexpr size_t kSourceBytesMax = 16 * kMiB;
// A request on the wire: the source and everything around it.
inline constexpr size_t kRequestBytesMax = kSourceBytesMax + kMiB;
inline constexpr size_t kNameBytesMax = 1024;
// The headers' bytes count towards kSourceBytesMax.
inline constexpr size_t kHeadersMax = 4096;
inline constexpr size_t kOptionsMax = 256;
inline constexpr size_t kOptionBytesMax = 64 * kKiB;
inline constexpr size_t kOptionDepthMax = 8;
inline constexpr size_t kParametersMax = 4096;
inline constexpr size_t kAttributesMax = 64;  // of one parameter
// A CTA has at most 1024 threads on CUDA, and 64 warps are a whole multiprocessor.
inline constexpr int64_t kNumWarpsMax = 64;
inline constexpr int64_t kNumCtasMax = 16;  // the largest non-portable cluster
inline constexpr int64_t kNumStagesMax = 64;
inline constexpr int64_t kMaxnregMax =
    65'536;  // a multiprocessor's registers; ptxas ignores what it cannot give
inline constexpr size_t kStagesMax = 16;
inline constexpr size_t kLookupKeysMax = 4096;
// Requests in flight on one stream: enough for all cores of a large node. The daemon reads no more
// until an answer has left.
inline constexpr size_t kStreamInFlightMax = 512;
inline constexpr size_t kStreamMessageRequestsMax = 64;
// A search for the nearest artifact looks at this many artifacts (some tenths of a second),
// compares the requests of this many of a kernel with the same name, and reads this many bytes of
// them.
inline constexpr size_t kNearestUsagesMax = 262'144;
inline constexpr size_t kNearestComparedMax = 256;
inline constexpr size_t kNearestRequestBytesMax = 32 * kMiB;
// Records that it reads because an earlier version of Kiln has stored them.
inline constexpr size_t kNearestRecordsMax = 16'384;
// Searches that wait or run at once: a thousand ranks may miss the same kernel.
inline constexpr size_t kNearestSearchesMax = 16;
inline constexpr size_t kNearestValueBytesMax = 256;  // of one value in the answer
// Bytes of requests in flight on one stream. The daemon reads no more until an answer has left.
inline constexpr size_t kStreamRequestBytesMax = 64 * kMiB;
// Bytes of answers that a slow client has not taken yet.
inline constexpr size_t kStreamUnsentBytesMax = 256 * kKiB;

// --- What the daemon answers ---

// Blobs of this size together travel in the reply. The client fetches larger ones in chunks.
inline constexpr size_t kInlineBytesMax = 8 * kMiB;
inline constexpr size_t kFetchChunkBytes = kMiB;
inline constexpr size_t kDiagnosticsBytesMax = 64 * kKiB;
inline constexpr size_t kListPageMax = 1000;
inline constexpr size_t kListScanMax = 4 * kListPageMax;  // records that a filtered page looks at
// A page of stored requests: so many, or so many bytes. Its last request may be any size.
inline constexpr size_t kRequestPageMax = 256;
inline constexpr size_t kRequestPageBytes = 4 * kMiB;

// Headers or trailers that either side of a connection accepts.
inline constexpr size_t kMetadataBytesMax = 128 * kKiB;
// The daemon's trailers stay below gRPC's default for clients, 8 KiB: the percent-encoded message,
// one line of diagnostics, and the end of the compiler's output.
inline constexpr size_t kStatusMessageBytesMax = kKiB;
inline constexpr size_t kTrailerDiagnosticLineBytesMax = 512;
inline constexpr size_t kTrailerOutputBytesMax = 3 * kKiB;

// --- Connections ---
inline constexpr int kListenBacklog = 4096;
// Ten thousand that idle, and some that work.
inline constexpr size_t kConnectionsMax = 10'240;
inline constexpr size_t kConnectionsPerPrincipalMax = 8'192;
// Descriptors that connections leave: kWorkersMax workers have five each, and the files of a store
// of 100 GiB are 3,000 at most.
inline constexpr size_t kDescriptorsKept = 8'192;
inline constexpr int kConcurrentStreamsPerConnection = 256;
// Uids with a server at the same time. A server without connections makes room for a new uid.
inline constexpr size_t kPrincipalsMax = 256;
// What gRPC buffers of requests; it ends calls beyond that. Users with a connection have equal
// parts, which hold the largest request while there are at most a dozen.
inline constexpr size_t kRequestBufferBytesMax = kGiB / 4;
// For each operator on admin.sock: a bundle comes in pieces as large as the largest request.
inline constexpr size_t kOperatorBufferBytesMax = kGiB / 16;
// What gRPC may take besides for each connection: an idle one takes half.
inline constexpr size_t kConnectionBufferBytesMax = 32 * kKiB;
// They read the requests of the light protocol and answer its hits.
inline constexpr int kLightThreads = 4;
// Requests that one connection starts before others have their turn.
inline constexpr int kLightRequestsPerTurn = 8;
// Answers of all users that wait to be read.
inline constexpr size_t kUnreadBytesMax = 224 * kMiB;
// Requests of the light protocol that are under way, of all users.
inline constexpr size_t kLightRequestBytesMax = kGiB / 4;
// A connection ends when nothing moved on it for once to twice this time and no work is under way.
// Jobs keep idle connections between compiles and connect again when they need to.
inline constexpr auto kSilentTime = std::chrono::minutes(10);
inline constexpr auto kDrainTimeDefault = std::chrono::seconds(30);

// --- Configuration ---
inline constexpr size_t kConfigBytesMax = kMiB;

// --- Manifests ---
inline constexpr int kManifestPageRequestsMax = 256;
inline constexpr size_t kManifestPageBytes = kMiB;  // a page that has them is full
// The last request of a page may bring headers.
inline constexpr size_t kManifestPageBytesMax = kManifestPageBytes + 2 * kRequestBytesMax;
// Ten million requests.
inline constexpr size_t kManifestIndexBytesMax = 256 * kMiB;

// --- Bundles ---
// Artifacts go into one block until they have so many bytes. An artifact has a block of its own
// where it is larger.
inline constexpr size_t kBundleBlockBytes = 4 * kMiB;
// A block before compression. Larger artifacts are left out.
inline constexpr size_t kBundleBlockBytesMax = 48 * kMiB;
// A block after compression: what a request to the daemon may be, less its other fields.
inline constexpr size_t kBundleFrameBytesMax = kRequestBytesMax - kMiB;
inline constexpr size_t kBundleKeysMax = 256;  // of one request for artifacts
inline constexpr size_t kTrustedKeysBytesMax = kMiB;

// --- Workers ---
inline constexpr size_t kFrameHeaderBytesMax = 2 * kMiB;
inline constexpr size_t kFramePayloadBytesMax = 256 * kMiB;
// The daemon checks these limits of a worker's result.
inline constexpr size_t kKernelNameBytesMax = 64 * kKiB;  // mangled C++ names are long
inline constexpr size_t kParameterTypeBytesMax = 4 * kKiB;
inline constexpr size_t kToolchainMetadataBytesMax = kMiB;
inline constexpr auto kCompileTimeDefault = std::chrono::seconds(300);
// The processor time that the kernel lets a worker have beyond a compile's: a worker takes some
// before its compile, and the deadline is to come first. A worker that the kernel ends has crashed.
inline constexpr auto kCpuTimeSpare = std::chrono::seconds(10);
inline constexpr auto kZygoteStartTime = std::chrono::seconds(60);
inline constexpr auto kForkTime = std::chrono::seconds(10);
inline constexpr auto kWorkerIdleTimeDefault = std::chrono::minutes(5);
inline constexpr int kIdleWorkersDefault = 1;
inline constexpr auto kZygoteIdleTimeDefault = std::chrono::minutes(30);
// A kernel that crashes its compiler costs two workers and is then quarantined, so this many are
// two dozen such kernels.
inline constexpr int kCrashesPerHourDefault = 50;
inline constexpr size_t kWorkerRssBytesDefault = 4 * kGiB;
inline constexpr size_t kWorkerFileBytesMax = kGiB;
// The tmpfs of a worker, and the number of its files. A compile has a handful.
inline constexpr size_t kWorkerDiskBytesMax = kGiB;
inline constexpr size_t kWorkerDiskEntriesMax = 4096;
inline constexpr size_t kWorkerOutputBytesMax = 64 * kMiB;  // its stderr and stdout, per compile
// A process maps more than it holds: libraries, and memory that it gave back.
inline constexpr uint64_t kAddressSpacePerRss = 2;
inline constexpr size_t kWorkerDescriptorsMax = 256;  // a compile has about ten open
// Threads of a worker and all that it starts: in its control group, or, without one, besides all
// that runs on the machine already. NVRTC and ptxas may start one thread for each core.
inline constexpr uint64_t kWorkerThreadsMax = 1024;
// How long a slot that could not have a worker rests; doubled each time.
inline constexpr auto kWorkerRetryFirst = std::chrono::milliseconds(50);
inline constexpr auto kWorkerRetryLast = std::chrono::milliseconds(10'000);
inline constexpr int kWorkersMax = 1024;
// Directories of one name that could not be emptied.
inline constexpr int kDirectoriesAsideMax = 64;

// --- Toolchains ---
inline constexpr size_t kFingerprintDigitsMin = 8;  // of one that is named by its beginning
inline constexpr size_t kToolchainDepthMax = 32;    // levels of directories inside a package
inline constexpr size_t kToolchainFilesMax = 100'000;
inline constexpr auto kToolchainDescribeTime = std::chrono::seconds(120);
// The text that a fingerprint is the digest of: 60 KB for Triton, 0.5 MB for CUDA's headers.
inline constexpr size_t kToolchainTextBytesMax = 32 * kMiB;
// Texts that are kept of toolchains that are gone.
inline constexpr size_t kToolchainTextsMax = 32;
// Files that an answer names of two toolchains that differ.
inline constexpr size_t kToolchainDifferencesMax = 8;
// Pools of toolchains that are gone wait for one another to end.
inline constexpr size_t kToolchainsEndingMax = 256;
// How long a compile under way may still take once its toolchain was removed.
inline constexpr auto kToolchainEndingTime = std::chrono::seconds(30);
// How often the daemon looks whether a toolchain's files changed.
inline constexpr auto kToolchainLookTime = std::chrono::seconds(30);
// Retry hint for requests whose toolchain changed on disk. The daemon reads it again meanwhile.
inline constexpr auto kToolchainChangeRetry = std::chrono::seconds(1);
// Two changes of a file within the kernel's tick may leave it the same time: 10 ms at most.
inline constexpr auto kFileTimeTick = std::chrono::milliseconds(20);
// A file of a worker's program: an unoptimised build of kiln-worker takes 20 MiB.
inline constexpr size_t kWorkerProgramBytesMax = 256 * kMiB;
// What a toolchain says of itself: 3 KB for Triton 3.6.
inline constexpr size_t kToolchainDescriptionBytesMax = kMiB;
inline constexpr size_t kToolchainBackendsMax = 16;
inline constexpr size_t kSourceKindsMax = 8;
inline constexpr size_t kToolchainArchitecturesMax = 256;
inline constexpr int64_t kHiddenPointersMax = 16;
// pip's list of installed files: 12 KB for Triton, 2 MB for PyTorch.
inline constexpr size_t kDistributionRecordBytesMax = 16 * kMiB;
// Why toolchains do not fit, as part of a status message (kStatusMessageBytesMax).
inline constexpr size_t kDecisionNameBytesMax = 80;
inline constexpr size_t kDecisionReasonBytesMax = 240;
inline constexpr size_t kDecisionLogBytesMax = 640;

// --- Queue ---
inline constexpr size_t kQueueLengthDefault = 20'000;
inline constexpr size_t kQueueBytesMax = kGiB / 4;
// Memory that compiles leave available, by estimate.
inline constexpr uint64_t kFreeMemoryBytesDefault = kGiB / 2;
// The estimate for a compile before any measurement. Triton takes 30 to 300 MB.
inline constexpr uint64_t kCompileMemoryDefault = kGiB / 4;
// A process waited for memory during two of the last ten seconds.
inline constexpr int kMemoryPressurePercentDefault = 20;
// The age at which a memory reading is taken again, and the wait after a reading of too little.
inline constexpr auto kMemoryLookAge = std::chrono::milliseconds(20);
inline constexpr auto kMemoryLookAgain = std::chrono::milliseconds(100);
// /proc/self/cgroup, memory.stat and the like.
inline constexpr size_t kKernelFileBytesMax = 64 * kKiB;
// The hint to a caller when to try a full queue again.
inline constexpr auto kRetryHintMin = std::chrono::milliseconds(100);
inline constexpr auto kRetryHintMax = std::chrono::milliseconds(30'000);

// --- What was done for whom ---
// Users and jobs whose numbers are kept apart: at most 3 MiB of the daemon's memory and disk.
inline constexpr size_t kActivityUsersMax = 256;
inline constexpr size_t kActivityJobsPerUserMax = 32;
inline constexpr size_t kActivityJobBytesMax = 128;  // longer names are cut
inline constexpr size_t kActivityDaysMax = 90;
// What jobs have asked for, of all users together: 8 MB.
inline constexpr size_t kJobKeysMax = 128 * 1024;
// What a list of artifacts says about options, and the beginning of a kernel's name that is listed.
inline constexpr size_t kListedOptionsBytesMax = 256;
inline constexpr size_t kListedNameBytesMax = 512;
// Numbers of users that did nothing for so long are no longer kept apart after a restart.
inline constexpr auto kActivityAge = std::chrono::hours(24 * 90);
// How often what was counted is written; a crash loses no more.
inline constexpr auto kActivitySaveTime = std::chrono::seconds(30);
// What one call may tell of hits that the daemon did not see.
inline constexpr size_t kToldHitsMax = 64;               // entries
inline constexpr uint64_t kToldHitCountMax = 4096;       // of one entry
inline constexpr uint64_t kToldHitBytesMax = 64 * kMiB;  // of each

// --- Failures remembered ---
inline constexpr auto kFailureTtl = std::chrono::seconds(60);
inline constexpr size_t kFailuresMax = 4096;
// With the failed requests.
inline constexpr size_t kFailureBytesMax = 64 * kMiB;
// Failures that are remembered for longer, without their requests.
inline constexpr size_t kKnownFailureBytesMax = 16 * kMiB;

// --- Sources that crash compilers ---
inline constexpr auto kQuarantineTimeDefault = std::chrono::minutes(10);
inline constexpr size_t kQuarantineReasonBytesMax = kKiB / 2;

// --- Audits ---
inline constexpr size_t kAuditsWaitingMax = 64;
// The waiting requests and the binaries to compare them with, together.
inline constexpr size_t kAuditBytesMax = 64 * kMiB;
inline constexpr size_t kAuditedKeysMax = 65'536;
// How often the auditor checks whether the daemon is idle.
inline constexpr auto kAuditLook = std::chrono::seconds(1);

// --- Storage ---
inline constexpr uint64_t kStoreBytesDefault = 10 * kGiB;
inline constexpr uint64_t kFreeDiskBytesDefault = 2 * kGiB;
inline constexpr uint64_t kCacheBytesDefault = 128 * kMiB;
inline constexpr uint64_t kHotDirectoryBytesDefault = 512 * kMiB;
// A published artifact costs about 300 bytes of the daemon's memory besides the file.
inline constexpr size_t kHotFilesMax = 65'536;
// The hot directory leaves this much free for other files on the same tmpfs, such as workers'
// files.
inline constexpr uint64_t kHotFreeBytesMin = 32 * kMiB;
// Changed keys are remembered for longer than a hit takes from look-up to publication.
inline constexpr auto kRecentChangesAge = std::chrono::seconds(60);
inline constexpr size_t kRecentChangesMax = 65'536;
inline constexpr uint64_t kBlobBytesMax = 256 * kMiB;
inline constexpr uint64_t kRecordBytesMax = 4 * kMiB;
inline constexpr auto kStoreOpenTime = std::chrono::seconds(30);
// RocksDB checks a full disk for space at the same interval.
inline constexpr auto kStoreRetryInterval = std::chrono::seconds(5);
// Uses are written after this many used artifacts, or this long after the last write.
inline constexpr size_t kPendingUsesMax = 1024;
inline constexpr auto kPendingUsesAge = std::chrono::seconds(30);
// Damaged values in quarantine. The oldest goes first.
inline constexpr size_t kQuarantinedMax = 64;
inline constexpr size_t kQuarantinedValueBytesMax = kMiB;

// --- What was warmed ---
inline constexpr auto kLeaseTimeDefault = std::chrono::hours(24);
// Leased bytes of one user, and of all users together: an eighth and a half of the store's limit.
inline constexpr uint64_t kLeasedBytesPerUserPart = 8;
inline constexpr uint64_t kLeasedBytesPart = 2;
inline constexpr size_t kLeasesMax = 262'144;  // some 100 bytes of the daemon's memory each

// --- User cache ---
inline constexpr size_t kUserCacheKeyBytesMax = 256;
inline constexpr size_t kUserCacheNameBytesMax = 255;  // the limit of file systems
inline constexpr size_t kUserCacheFilesMax = 64;       // of one entry; Triton's groups have eight
// The contents of one entry together. The LLVM IR of the largest kernel seen takes 7 MB.
inline constexpr uint64_t kUserCacheEntryBytesMax = 16 * kMiB;
inline constexpr size_t kUserCacheEntriesPerCallMax = 256;
// Contents in one answer. The client asks again for the rest.
inline constexpr uint64_t kUserCacheReplyBytesMax = 32 * kMiB;
// Entries of one user, and of all users together.
inline constexpr size_t kUserCacheEntriesPerUserMax = 16'384;
inline constexpr size_t kUserCacheEntriesMax = 65'536;
// Bytes of one user, and of all users together: a sixteenth and a quarter of the store's limit.
inline constexpr uint64_t kUserCacheBytesPerUserPart = 16;
inline constexpr uint64_t kUserCacheBytesPart = 4;
// Bytes that one user may put at once, and per second in the long run. A machine compiles less: the
// files of a kernel have 100 KB to 1 MB and take tenths of a second.
inline constexpr uint64_t kUserCachePutBytesAtOnce = 512 * kMiB;
inline constexpr uint64_t kUserCachePutBytesPerSecond = 32 * kMiB;
// The least that an entry counts: a call with kUserCacheEntriesPerCallMax entries counts as a full
// one.
inline constexpr uint64_t kUserCachePutEntryBytesMin = 64 * kKiB;

// --- Clients ---
// The largest message that a client receives is a look-up of thousands of keys with metadata.
inline constexpr size_t kClientReceiveBytesMax = 64 * kMiB;
// Sources that one CompileMany keeps to send them again. At least one request is always sent. Six
// batches of a user fit what the daemon takes from it by the light protocol.
inline constexpr size_t kClientInFlightBytesMax = 20 * kMiB;
inline constexpr size_t kLookupBatchKeys = 512;
// A client tells of its hits in the hot directory when there are so many, or the first has waited
// for so long, and spends at most that budget on it.
inline constexpr size_t kUnreportedUsesMax = 256;
inline constexpr auto kUnreportedUsesTime = std::chrono::seconds(2);
inline constexpr auto kUnreportedUsesBudget = std::chrono::milliseconds(20);
// The file with the toolchains.
inline constexpr size_t kPublishedToolchainsBytesMax = 16 * kMiB;

}  // namespace kiln::limits
