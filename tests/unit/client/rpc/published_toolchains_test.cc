#include "client/rpc/published_toolchains.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/messages/translate.h"
#include "daemon/toolchain/discovered_toolchains.h"
#include "tests/testing/fake_catalog.h"

namespace kiln {
namespace {

using ToolchainPtr = std::shared_ptr<const Toolchain>;

ToolchainPtr Versioned(std::shared_ptr<Toolchain> toolchain, const std::string& version,
                       const std::string& bytes, const std::string& architecture = "90") {
  toolchain->version = version;
  toolchain->fingerprint = Digest::Of(bytes);
  for (BackendDescription& backend : toolchain->backends) backend.architectures = {architecture};
  return toolchain;
}

std::string Serialized(const ToolchainCatalog& catalog) {
  v1::ListToolchainsResponse listed;
  ToProto(catalog, listed);
  return listed.SerializeAsString();
}

TEST(PublishedToolchains, FindsWhatTheDaemonFindsOrNothing) {
  const ToolchainPtr all[] = {
      Versioned(MakeTriton(), "3.6.0", "a"),        Versioned(MakeTriton(), "3.6.0", "b", "80"),
      Versioned(MakeTriton(), "3.5.0", "c", "100"), Versioned(MakeNvrtc(), "12.9.86", "d"),
      Versioned(MakeNvrtc(), "13.0.88", "e", "80"), Versioned(MakePtxas(), "12.8.93", "f")};
  const std::string selectors[] = {"",
                                   "triton==3.6.0",
                                   "triton==3.5.0",
                                   "nvrtc==12.9.86",
                                   "nvrtc==13.0.88",
                                   "ptxas==12.8.93",
                                   "triton==9.9.9",
                                   Digest::Of("b").Hex(),
                                   "sha256:" + Digest::Of("a").Hex(),
                                   "x"};
  int found = 0;
  for (unsigned chosen = 0; chosen < 1u << std::size(all); ++chosen) {
    std::vector<ToolchainPtr> here;
    for (size_t i = 0; i < std::size(all); ++i) {
      if ((chosen >> i & 1) != 0) here.push_back(all[i]);
    }
    for (const std::string& default_selector : selectors) {
      const DiscoveredToolchains daemons(here, {}, default_selector);
      const auto published = PublishedToolchains::Parse(Serialized(daemons));
      ASSERT_TRUE(published.ok()) << published.status();
      for (const std::string& selector : selectors) {
        for (const SourceKind kind : {SourceKind::kTtir, SourceKind::kCudaCxx, SourceKind::kPtx}) {
          for (const char* architecture : {"80", "90", "100"}) {
            const Target target{"cuda", architecture, 0};
            const auto ours = (*published)->Find(selector, kind, target);
            if (!ours.ok()) continue;
            ++found;
            const auto theirs = daemons.Find(selector, kind, target);
            ASSERT_TRUE(theirs.ok()) << default_selector << " " << selector << theirs.status();
            EXPECT_EQ((*ours)->fingerprint, (*theirs)->fingerprint) << selector;
          }
        }
      }
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(PublishedToolchains, FindsByDefaultNameAndFingerprint) {
  const ToolchainPtr triton = Versioned(MakeTriton(), "3.6.0", "a");
  const ToolchainPtr nvrtc = Versioned(MakeNvrtc(), "12.9.86", "b");
  const auto published =
      PublishedToolchains::Parse(Serialized(DiscoveredToolchains({triton, nvrtc}, {}, "")));
  ASSERT_TRUE(published.ok()) << published.status();
  const Target target{"cuda", "90", 0};
  for (const std::string& selector : {std::string(), triton->Name(), triton->fingerprint.Hex()}) {
    const auto found = (*published)->Find(selector, SourceKind::kTtir, target);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->fingerprint, triton->fingerprint);
    EXPECT_EQ((*found)->backends.front().options.size(), triton->backends.front().options.size());
  }
  EXPECT_EQ((*(*published)->Find("", SourceKind::kCudaCxx, target))->fingerprint,
            nvrtc->fingerprint);
}

TEST(PublishedToolchains, AnAmbiguousNameIsTheDaemonsToDecide) {
  const FakeCatalog two(
      {Versioned(MakeTriton(), "3.6.0", "a"), Versioned(MakeTriton(), "3.6.0", "b")});
  const auto published = PublishedToolchains::Parse(Serialized(two));
  ASSERT_TRUE(published.ok());
  EXPECT_FALSE((*published)->Find("triton==3.6.0", SourceKind::kTtir, {"cuda", "90", 0}).ok());
}

TEST(PublishedToolchains, IgnoresToolchainsOfUnknownKinds) {
  EXPECT_FALSE(PublishedToolchains::Parse("\x0a\xff damaged").ok());
  v1::ListToolchainsResponse newer;
  newer.add_toolchains()->set_fingerprint(std::string(32, 'x'));
  EXPECT_TRUE(PublishedToolchains::Parse(newer.SerializeAsString()).ok());
  newer.mutable_toolchains(0)->add_kinds(static_cast<v1::SourceKind>(99));
  EXPECT_FALSE(PublishedToolchains::Parse(newer.SerializeAsString()).ok());
  newer.mutable_toolchains(0)->clear_kinds();
  newer.mutable_toolchains(0)->add_backends()->add_options()->set_type("complex");
  EXPECT_FALSE(PublishedToolchains::Parse(newer.SerializeAsString()).ok());
}

}  // namespace
}  // namespace kiln
