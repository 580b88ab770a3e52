#include "storage/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kiln {
namespace {

TEST(Status, AnnotateKeepsCodeAndPayload) {
  absl::Status status = NotFound("no {}", 7);
  status.SetPayload("type", absl::Cord("detail"));
  const absl::Status annotated = Annotate(status, "reading");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(annotated), "reading: no 7");
  EXPECT_EQ(annotated.GetPayload("type"), absl::Cord("detail"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(Status, AnnotateNamesAFileOnce) {
  const absl::Status status = ErrnoStatus(ENOENT, "a.kiln");
  EXPECT_EQ(Annotate(status, "a.kiln"), status);
  EXPECT_EQ(Message(Annotate(status, "a")), "a: a.kiln: No such file or directory");
}

TEST(Status, ErrnoSaysWhoseFaultItIs) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(ErrnoStatus(EACCES, "open /x")), "open /x: Permission denied");
}

TEST(Status, RetryHintTravelsThroughAnnotations) {
  const absl::Status full =
      WithRetryAfter(ResourceExhausted("full"), std::chrono::milliseconds(250));
  EXPECT_EQ(RetryAfter(Annotate(full, "queue")), std::chrono::milliseconds(250));
  EXPECT_EQ(RetryAfter(ResourceExhausted("full")), std::nullopt);
  EXPECT_TRUE(WithRetryAfter(absl::OkStatus(), std::chrono::milliseconds(1)).ok());
}

absl::StatusOr<int> Doubled(absl::StatusOr<int> value) {
  KILN_ASSIGN_OR_RETURN(const int number, value);
  KILN_RETURN_IF_ERROR(number < 0 ? InvalidArgument("negative") : absl::OkStatus());
  return 2 * number;
}

TEST(Status, MacrosPassErrorsOn) {
  EXPECT_EQ(*Doubled(2), 4);
  EXPECT_EQ(Doubled(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Doubled(NotFound("gone")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kiln
