#include "daemon/rpc/light/frame_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "storage/base/limits.h"
#include "tests/unit/rpc/light_client.h"

namespace kiln {
namespace {

class LightFrameReaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::optional<LightFrame>> Next(std::string_view bytes) {
    reader_.Append(bytes);
    return reader_.Next();
  }

  absl::Status admission_;
  std::vector<size_t> asked_;
  LightFrameReader reader_{[this](size_t bytes) {
    asked_.push_back(bytes);
    return admission_;
  }};
  const std::string preamble_{kLightPreamble};
};

TEST_F(LightFrameReaderTest, SeveralRequestsInOnePiece) {
  auto frame = Next(preamble_ + LightFrameBytes(1, 2, "body", 30) + LightFrameBytes(2, 3, ""));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->id, 1u);
  EXPECT_EQ((*frame)->method, 2);
  EXPECT_EQ((*frame)->timeout_ms, 30u);
  EXPECT_EQ((*frame)->body.value(), "body");
  frame = reader_.Next();
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->id, 2u);
  EXPECT_EQ((*frame)->body.value(), "");
  frame = reader_.Next();
  EXPECT_TRUE(frame.ok() && !*frame);
}

TEST_F(LightFrameReaderTest, ReadsAFrameByteByByte) {
  const std::string bytes = preamble_ + LightFrameBytes(7, 1, "kernel");
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    const auto frame = Next(bytes.substr(i, 1));
    ASSERT_TRUE(frame.ok() && !*frame) << i;
  }
  const auto frame = Next(bytes.substr(bytes.size() - 1));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->body.value(), "kernel");
  EXPECT_EQ(asked_, std::vector<size_t>{4 + 13 + 6});
}

TEST_F(LightFrameReaderTest, RefusesAnotherPreamble) {
  EXPECT_EQ(Next("kiln/2\r\n").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LightFrameReaderTest, RefusesALengthBelowTheHeaders) {
  EXPECT_EQ(Next(preamble_ + std::string("\x0c\0\0\0", 4)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LightFrameReaderTest, SkipsABodyThatIsTooLong) {
  const std::string large = LightFrameBytes(1, 1, std::string(limits::kRequestBytesMax + 1, 'x'));
  auto frame = Next(preamble_ + large.substr(0, 100));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->body.status().code(), absl::StatusCode::kResourceExhausted);
  frame = Next(large.substr(100) + LightFrameBytes(2, 1, "next"));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->id, 2u);
  EXPECT_EQ((*frame)->body.value(), "next");
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(LightFrameReaderTest, SkipsABodyThatIsNotAdmitted) {
  admission_ = ResourceExhausted("too much");
  auto frame = Next(preamble_ + LightFrameBytes(1, 1, "body"));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->body.status(), admission_);
  admission_ = absl::OkStatus();
  frame = Next(LightFrameBytes(2, 1, "next"));
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->body.value(), "next");
}

}  // namespace
}  // namespace kiln
