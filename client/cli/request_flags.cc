#include "client/cli/commands.h"
#include "client/cli/request_source.h"

namespace kiln::cli {

void AddRequestFlags(CLI::App& command, RequestFlags& flags) {
  command
      .add_option("--target", flags.targets,
                  "What to compile for: cuda:90, hip:gfx942. Repeat it for several")
      ->allow_extra_args(false)
      ->type_name("TARGET");
  command.add_option(
      "--toolchain", flags.toolchain,
      "The compiler, as triton==3.6.0 or by its fingerprint (default: the daemon's)");
  command.add_option("--cache", flags.cache_policy, "use, refresh or only-if-cached")
      ->type_name("POLICY");
  command.add_option("--priority", flags.priority, "waiting-rank, autotune, warm or background");
  command.add_option("--job", flags.job, "The job's name, for fairness and logs");
}

}  // namespace kiln::cli
