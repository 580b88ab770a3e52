// Every subcommand of `kiln`, one file each. Add… declares it and its arguments.
#pragma once

#include "client/cli/commands/command_parser.h"

namespace kiln::cli {

using AddCommand = void(CommandParser& parser);
AddCommand AddCompile, AddGraph, AddRecord, AddWarm, AddWait, AddManifest, AddExport, AddImport,
    AddGet, AddLs, AddInspect, AddReproduce, AddStats, AddWhy, AddEvict, AddPin, AddVerify,
    AddDrain, AddDoctor, AddToolchainCommand, AddVersion;

}  // namespace kiln::cli
