#include "client/cli/commands/stored_requests.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/requests/request_json.h"

namespace kiln::cli {
namespace {

NamedRequest Named(const admin::v1::StoredRequest& stored) {
  NamedRequest named{"kernel " + Hex(stored.key()), 0, Internal("it is not a request")};
  named.recorded.compile_micros = stored.compile_micros();
  const absl::StatusOr<Json> document = ParseJson(stored.request());
  if (!document.ok() || !document->contains("request")) return named;
  const Json& line = document->at("request");
  if (line.contains("name") && line.at("name").is_string()) named.name = line.at("name");
  named.request = ParseRequest(line, ".");
  return named;
}

}  // namespace

absl::Status AddStoredRequests(AdminClient& admin, admin::v1::ListRequestsRequest wanted,
                               Session& session, ManifestWriter& writer) {
  do {
    KILN_ASSIGN_OR_RETURN(const auto page, admin.ListRequests(session.Call(kQuestionTime), wanted));
    for (const admin::v1::StoredRequest& stored : page.requests()) {
      const NamedRequest named = Named(stored);
      if (named.request.ok()) {
        KILN_RETURN_IF_ERROR(writer.Add(named));
      } else {
        Fail(session.console(), "left out", Annotate(named.request.status(), named.name));
      }
    }
    wanted.set_after(page.next());
  } while (!wanted.after().empty());
  return absl::OkStatus();
}

}  // namespace kiln::cli
