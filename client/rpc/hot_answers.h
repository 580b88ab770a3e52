// Answers to compiles from the hot directory, without a call.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "client/rpc/hot_reader.h"
#include "client/rpc/verified_contents.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// Computes a request's key as the daemon does, with the daemon's own code, and reads the artifact's
// file. Whatever is missing, damaged or in doubt is no answer: the daemon knows, and says what is
// wrong. Thread-safe. Blocks as HotReader does.
class HotAnswers {
 public:
  // `verified` outlives it.
  HotAnswers(std::string directory, std::optional<uid_t> server_uid, VerifiedContents& verified)
      : reader_(std::move(directory), server_uid), verified_(verified) {}

  // The answer that the daemon would give from its cache. Its blob has been checked against its
  // digest.
  [[nodiscard]] absl::StatusOr<v1::CompileResponse> Find(const v1::CompileRequest& request) const;

  const HotReader& reader() const { return reader_; }

 private:
  const HotReader reader_;
  VerifiedContents& verified_;
};

}  // namespace kiln
