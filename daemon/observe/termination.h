// What the daemon says when it ends because of an exception.
#pragma once

namespace kiln {

// From now on an exception that nobody catches is logged, with its type and words, before it ends
// the process with SIGABRT. docs/adr/0021 says why nothing but that is done about one. For main().
void LogUncaughtExceptions();

}  // namespace kiln
