// What workers still have to open once they are jailed.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// What the workers of one toolchain need; their zygote knows, and says so in its greeting.
struct JailNeeds {
  std::vector<std::string> programs;   // that they start, with what loads these
  std::vector<std::string> libraries;  // files, and directories with all that is in them, to read
  // They set the time of a file of theirs, and have none of their programs do it.
  bool dates_files = false;
  // They start no program and load no library: nothing is theirs of what others need for that,
  // whatever a request may name.
  bool starts_nothing = false;
};

// For workers that are forked from this process and start `programs`. A library of the system
// stands for its directory, since what is loaded later lies there too. Blocks as a disk does.
JailNeeds NeedsOfThisProcess(const std::vector<std::string>& programs);

}  // namespace kiln
