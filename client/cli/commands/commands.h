// Every subcommand of `kiln`, one file each. Add… declares it and its arguments.
#pragma once

#include "client/cli/commands/command_parser.h"

namespace kiln::cli {

void AddCompile(CommandParser& parser);
void AddWarm(CommandParser& parser);
void AddGet(CommandParser& parser);
void AddLs(CommandParser& parser);
void AddInspect(CommandParser& parser);
void AddReproduce(CommandParser& parser);
void AddStats(CommandParser& parser);
void AddEvict(CommandParser& parser);
void AddPin(CommandParser& parser);
void AddVerify(CommandParser& parser);
void AddDrain(CommandParser& parser);
void AddDoctor(CommandParser& parser);
void AddToolchainCommand(CommandParser& parser);
void AddVersion(CommandParser& parser);

}  // namespace kiln::cli
