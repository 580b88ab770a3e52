#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/admin_calls.h"

namespace kiln {

namespace pb = admin::v1;

void ListToolchains(const AdminActions& actions, pb::ListToolchainsResponse& response) {
  const ToolchainsHere here = actions.toolchains();
  for (const ToolchainsHere::Held& held : here.held) {
    pb::HeldToolchain& converted = *response.add_toolchains();
    ToProto(*held.toolchain, *converted.mutable_toolchain());
    const bool is_first = response.toolchains_size() == 1;
    converted.mutable_toolchain()->set_is_default(here.has_default && is_first);
    converted.set_path(ToUtf8(held.toolchain->directory));
    converted.set_installation(ToUtf8(held.toolchain->installation));
    converted.set_state(ToUtf8(held.state));
    for (const std::string& remark : held.remarks) converted.add_remarks(ToUtf8(remark));
    for (const SourceKind kind : held.default_kinds) {
      converted.add_default_kinds(static_cast<kiln::v1::SourceKind>(kind));
    }
  }
  for (const auto& rejected : here.rejected) {
    pb::RejectedToolchain& converted = *response.add_rejected();
    converted.set_path(ToUtf8(rejected.directory));
    converted.set_installation(ToUtf8(rejected.installation));
    converted.set_reason(ToUtf8(rejected.reason));
  }
  for (const std::string& directory : here.directories) {
    response.add_directories(ToUtf8(directory));
  }
  response.set_default_selector(here.default_selector);
  response.set_is_default_configured(here.is_default_configured);
}

void ListToolchainsForEverybody(const AdminActions& actions, pb::ListToolchainsResponse& response) {
  ListToolchains(actions, response);
  response.clear_rejected();
  response.clear_directories();
  for (pb::HeldToolchain& held : *response.mutable_toolchains()) {
    held.clear_path();
    held.clear_installation();
    held.clear_remarks();
    held.set_state(held.state().substr(0, held.state().find(':')));
  }
}

}  // namespace kiln
