#include "tests/testing/as_each_user.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace kiln {
namespace {

constexpr rlim_t kDescriptors = 24;

[[noreturn]] void RunInChild(const std::string& directory, bool as_another,
                             const std::function<void()>& body) {
  const rlimit limit{kDescriptors, kDescriptors};
  // The directory first: nobody else need be able to reach it by its name.
  const bool is_ready =
      ::chdir(directory.c_str()) == 0 && ::setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      (!as_another || ::syscall(SYS_setresuid, kAnotherUser, kAnotherUser, kAnotherUser) == 0);
  if (!is_ready) ::_exit(2);
  body();
  std::fflush(stdout);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void AsEachUser(const std::string& directory, const std::function<void()>& body) {
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  for (const bool as_another : {false, true}) {
    if (as_another && ::geteuid() != 0) break;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) RunInChild(directory, as_another, body);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << (as_another ? "as another user" : "as oneself");
  }
}

}  // namespace kiln
