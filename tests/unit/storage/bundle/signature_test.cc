#include "storage/bundle/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "storage/base/digest.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// As docs/bundle.md has them.
constexpr char kPrivate[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kPublic[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";
constexpr char kSignature[] =
    "269f452ba570209734973f97c4a3041bab00ae7ca1b77cb6b0bf1abc6e3ad481c9c58af6a6158517510bc98f4d80c3"
    "a5"
    "ca4e1fcc9db13911dad2bd1a683f720f";
// RFC 8032, 7.1, test 2.
constexpr char kOtherPublic[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";

std::string Hex(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

class SignatureTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0600) {
    std::string path = directory_.File("keys.pem");
    WriteFileOrDie(path, text);
    ::chmod(path.c_str(), mode);
    return path;
  }
  TrustedKeys Trust(const std::string& text) { return *TrustedKeys::Read(Write(text)); }
  std::string Sign(std::string_view bytes) {
    return *SigningKey::Read(Write(kPrivate))->Sign(bytes);
  }

  TempDirectory directory_;
};

TEST_F(SignatureTest, OfABlockIsTheDocumentedOne) {
  const std::string bytes = SignedBytes(std::string(kBundleIdBytes, '\0'), 7, "frame");
  EXPECT_EQ(Hex(Sign(bytes)), kSignature);
}

TEST_F(SignatureTest, IsBelievedOfAnyTrustedKeyAndOfTheseBytesAlone) {
  const std::string signature = Sign("bytes");
  const std::string words = "# whoever builds our nodes\n";
  EXPECT_TRUE(Trust(words + kOtherPublic + words + kPublic).HaveSigned("bytes", signature));
  EXPECT_FALSE(Trust(kOtherPublic).HaveSigned("bytes", signature));
  EXPECT_FALSE(Trust(kPublic).HaveSigned("other bytes", signature));
  EXPECT_FALSE(Trust(kPublic).HaveSigned("bytes", std::string(kSignatureBytes, '\0')));
  EXPECT_FALSE(Trust(kPublic).HaveSigned("bytes", signature.substr(1)));
  EXPECT_FALSE(Trust(kPublic).HaveSigned("bytes", ""));
}

TEST_F(SignatureTest, ADamagedKeyHidesNoneBehindItAndIsNamed) {
  const std::string signature = Sign("bytes");
  std::string damaged = kOtherPublic;
  damaged.replace(damaged.find("MCow"), 4, "!!!!");
  std::string cut = kOtherPublic;
  cut.resize(cut.find("-----END"));
  const TrustedKeys keys = Trust("# ours\n" + damaged + cut + kPrivate + kPublic);
  EXPECT_TRUE(keys.HaveSigned("bytes", signature));
  EXPECT_EQ(keys.bad_lines(), "line 2, line 5, line 7");
  EXPECT_EQ(Trust(kPublic).bad_lines(), "");
}

TEST_F(SignatureTest, NoKeyIsTrustedThatOthersMayWriteOrThatIsNone) {
  const auto code = [&](const std::string& path) {
    return TrustedKeys::Read(path).status().code();
  };
  const auto refused = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(code(directory_.File("none")), refused);
  EXPECT_EQ(code(directory_.path()), refused);
  EXPECT_EQ(code(Write(kPublic, 0620)), refused);
  EXPECT_EQ(code(Write(kPublic, 0602)), refused);
  EXPECT_EQ(code(Write("")), refused);
  EXPECT_EQ(code(Write(kPrivate)), refused);
  EXPECT_EQ(code(Write(kPublic, 0644)), absl::StatusCode::kOk);
}

TEST_F(SignatureTest, ASigningKeyIsAnEd25519PrivateKey) {
  EXPECT_EQ(SigningKey::Read(Write(kPublic)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SigningKey::Read(Write("x")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SigningKey::Read(directory_.File("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST(SignedBytes, NameBundleAndPlace) {
  const std::string id(kBundleIdBytes, 'a');
  const std::string bytes = SignedBytes(id, 0, "frame");
  EXPECT_NE(bytes, SignedBytes(id, 1, "frame"));
  EXPECT_NE(bytes, SignedBytes(id, 0, "other"));
  EXPECT_NE(bytes, SignedBytes(std::string(kBundleIdBytes, 'b'), 0, "frame"));
}

TEST(ZstdFrame, IsReadWholeOrNotAtAll) {
  const std::string content(100'000, 'x');
  const std::string frame = *CompressFrame(content);
  EXPECT_EQ(*DecompressFrame(frame, content.size()), content);
  EXPECT_TRUE(absl::IsDataLoss(DecompressFrame(frame, content.size() - 1).status()));
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(DecompressFrame(frame.substr(0, size), content.size()).ok()) << size;
  }
}

}  // namespace
}  // namespace kiln
