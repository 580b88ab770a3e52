// A zygote and workers that do as they are told, in place of a compiler.
//
// tests/testing/fake_compiler.cc is the program. What a worker does with a request is written in
// the source that it is to compile:
//
//   answer TEXT      stages "ptx" (TEXT) and "cubin" ("binary of TEXT")
//   await PATH       makes a file "begun" in its directory and answers once PATH is not there; a
//                    second line may tell it from another
//   where            its directory, what is in it, and its environment, as the ptx; leaves files
//   fail             an INVALID_ARGUMENT at 3:7
//   waver PATH       a failure that is not deterministic, unless PATH exists; makes PATH
//   taint            says that the compiler caught a signal
//   segfault         dies of SIGSEGV, having written "last words"
//   abort WORDS      dies of SIGABRT, having written WORDS
//   crash-once PATH  dies like segfault, unless PATH exists; makes PATH
//   spin, sleep      never answers, busy or not
//   fork             starts a child in its group, one that tries to leave the group, and sleeps
//   eat              takes memory until there is none, and aborts
//   take-over TEXT   answers TEXT, and from then on whatever it is asked
//   bury             leaves directories that forbid reading, and 1,500 one within the other
//   process          its process id, as the ptx; a second line may tell it from another
//   hoard            fills one file of 4 MiB after the other, for ever
//   hoard-nameless   the same, of files that it has open and that have no name
//   hoard-mapped     the same, of files that it has mapped a page of, neither open nor named
//   hoard-mapped-low hoard-mapped, at addresses of fewer than eight digits
//   hoard-behind     hoard-nameless, in the last of four processes that map 16,000 pages each
//   shred            maps a page of a file without a name 60,000 times
//   hoard-orphaned   hoard-nameless, in a process whose parent has ended
//   litter           makes one empty file after the other, for ever
//   link TEXT        puts links to the system's files where outputs would lie, and answers TEXT
//   junk             writes bytes that are no frame
//   announce         announces a payload of 4 GB
//   half             dies between the header and the payload
//   twice            answers, and then answers once more
//   stranger         answers with an id that nobody asked with
//   nonsense JSON    a result frame with JSON as its header
//   chatter          fills its standard error, then answers
//   large BYTES      answers that it has so much memory
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/chain/compilation_provider.h"
#include "daemon/pool/worker_pool.h"

namespace kiln {

// A zygote of the fake compiler. `mode` is "" or one of: "silent" (never says hello), "garbage",
// "failed", "dies", "protocol" (says hello in a later protocol), "version" (is 9.9 instead of 1.0),
// "infertile" (refuses to fork), "dies-forking" (forks and
// dies before it says so), "barren" (names pids that are not its children), "escapes" (its workers
// say that they are not in their jail), "dies-entering" (they die on the way into it),
// "waits-entering" (they enter it when their directory has a file "go"), "slow-reaping" (takes a
// tenth of a second for each worker that it reaps). Its workers are not jailed unless the command
// is given a jail.
ZygoteCommand FakeZygote(const std::string& mode = "");

// A request that makes it do `what`.
WorkerRequest FakeRequest(const std::string& what);

// What a pool of such workers is for: a toolchain that compiles for cuda:90. Its fingerprint is the
// digest of its Name().
std::shared_ptr<Toolchain> MakeFakeCompiler(const std::string& version = "1.0",
                                            const std::string& name = "fake");
// What that pool is told; it makes `work_directory`.
WorkerPoolOptions FakePoolOptions(const std::string& work_directory);
// A job that makes it do `what`. Its key is the digest of that; it names no toolchain.
std::shared_ptr<CompileJob> MakeFakeJob(const std::string& what,
                                        const std::string& backend = "cuda");

// Makes `path` a toolchain of Triton 3.6.0 for cuda:90 whose interpreter is the fake compiler, so
// that a kilnd that finds it obeys sources as above.
void MakeFakeToolchain(const std::string& path);

// The stages that it answers with.
std::vector<std::string> FakeStages();

// The processes, zombies included, whose parent is this one, or whose ancestor is.
std::vector<pid_t> LivingDescendants();

}  // namespace kiln
