#include "daemon/process/output_capture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/base/limits.h"

namespace kiln {
namespace {

void Write(const OutputCapture& capture, std::string_view text) {
  ASSERT_EQ(write(capture.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(OutputCaptureTest, EmptyWithoutWrites) { EXPECT_EQ(OutputCapture::Create()->Tail(100), ""); }

TEST(OutputCaptureTest, TailIsTheEnd) {
  auto capture = OutputCapture::Create();
  Write(*capture, "first ");
  Write(*capture, "second");
  EXPECT_EQ(capture->Tail(100), "first second");
  EXPECT_EQ(capture->Tail(6), "second");
}

TEST(OutputCaptureTest, WritesEndAtTheLimit) {
  auto capture = OutputCapture::Create();
  const std::string chunk(limits::kMiB, 'x');
  size_t total = 0;
  ssize_t written;
  while ((written = write(capture->fd(), chunk.data(), chunk.size())) > 0)
    total += static_cast<size_t>(written);
  EXPECT_EQ(total, limits::kWorkerOutputBytesMax);
  EXPECT_EQ(capture->Tail(3), "xxx");
}

}  // namespace
}  // namespace kiln
