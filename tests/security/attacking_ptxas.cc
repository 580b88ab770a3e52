// A ptxas that a source has taken over: instead of assembling, it does what the PTX says, and then
// complains of it, in a message that begins with "done" or with "refused". attacks.py is the same
// for Triton's worker.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace {

// Its own program may be read, as part of a toolchain.
bool SetATimeThroughADescriptor(const char* program) {
  const int file = ::open(program, O_RDONLY);
  if (file < 0) return false;
  const timespec epoch[2] = {};
  return ::futimens(file, epoch) == 0;
}

bool Do(const std::string& attack) {
  char program[4096] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return false;
  if (attack == "utime-through-a-descriptor") return SetATimeThroughADescriptor(program);
  errno = ENOTSUP;
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "--version") == 0) {
    std::puts("Cuda compilation tools, release 1.2, V1.2.3");
    return 0;
  }
  std::string word;
  std::string attack;
  std::ifstream("kernel.ptx") >> word >> attack;
  const bool is_done = Do(attack);
  std::fprintf(stderr, "ptxas kernel.ptx, line 1; error   : %s: %s\n", is_done ? "done" : "refused",
               is_done ? "" : std::strerror(errno));
  return 255;
}
