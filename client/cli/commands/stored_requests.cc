#include "client/cli/commands/stored_requests.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/requests/manifest_origin.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/request_json.h"

namespace kiln::cli {
namespace {

NamedRequest Named(const admin::v1::StoredRequest& stored, const absl::StatusOr<Json>& document) {
  NamedRequest named{"kernel " + Hex(stored.key()), 0, Internal("it is not a request")};
  named.recorded.compile_micros = stored.compile_micros();
  named.recorded.count = 1 + stored.hits();
  if (!document.ok() || !document->contains("request")) return named;
  const Json& line = document->at("request");
  if (line.contains("name") && line.at("name").is_string()) named.name = line.at("name");
  named.request = ParseRequest(line, ".");
  return named;
}

// `document` names "triton==3.6.0".
void AddToolchain(const Json& document, v1::ManifestOrigin& origin) {
  const auto toolchain = document.find("toolchain");
  if (toolchain == document.end() || !toolchain->is_string()) return;
  const auto& text = toolchain->get_ref<const std::string&>();
  const size_t equals = text.find("==");
  if (equals == std::string::npos) return;
  AddVersion(text.substr(0, equals), text.substr(equals + 2), origin);
}

}  // namespace

absl::Status AddStoredRequests(AdminClient& admin, admin::v1::ListRequestsRequest wanted,
                               Session& session, ManifestWriter& writer,
                               v1::ManifestOrigin& origin) {
  do {
    KILN_ASSIGN_OR_RETURN(const auto page, admin.ListRequests(session.Call(kQuestionTime), wanted));
    for (const admin::v1::StoredRequest& stored : page.requests()) {
      const absl::StatusOr<Json> document = ParseJson(stored.request());
      const NamedRequest named = Named(stored, document);
      if (named.request.ok()) {
        KILN_RETURN_IF_ERROR(writer.Add(named));
        AddToolchain(*document, origin);
      } else {
        Fail(session.console(), "left out", Annotate(named.request.status(), named.name));
      }
    }
    for (const v1::OwnEntry& entry : page.own_entries()) {
      if (!IsWarmMarker(entry)) KILN_RETURN_IF_ERROR(writer.AddOwn(entry));
    }
    wanted.set_after(page.next());
  } while (!wanted.after().empty());
  return absl::OkStatus();
}

}  // namespace kiln::cli
