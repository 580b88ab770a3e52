// What workers still have to open once they are jailed.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// What the workers of one toolchain need. Their zygote's greeting says so.
struct JailNeeds {
  std::vector<std::string> programs;   // that workers start, with their loaders
  std::vector<std::string> libraries;  // files to read, and directories with their content
  // Workers start no other program and load no other library, whatever a request names.
  bool starts_nothing = false;
};

// For workers that are forked from this process and start `programs`. Names the directory of each
// library of the system, since libraries that are loaded later lie there too. Blocks as a disk
// does.
JailNeeds NeedsOfThisProcess(const std::vector<std::string>& programs);

}  // namespace kiln
