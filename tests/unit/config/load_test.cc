#include "daemon/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/config/fields.h"
#include "daemon/config/toml_file.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LoadConfigTest : public ::testing::Test {
 protected:
  LoadConfigTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "kiln-config-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    sources_.file = directory_ + "/kilnd.toml";
  }
  ~LoadConfigTest() override { std::filesystem::remove_all(directory_); }

  void Write(std::string_view text) { std::ofstream(sources_.file) << text; }

  std::string Error() {
    const auto loaded = LoadConfig(sources_);
    EXPECT_FALSE(loaded.ok());
    return std::string(Message(loaded.status()));
  }

  std::string directory_;
  ConfigSources sources_;
};

TEST_F(LoadConfigTest, AJailCannotBeRequiredAndSwitchedOff) {
  Write("[workers]\njail = \"off\"\n");
  EXPECT_EQ(LoadConfig(sources_)->config.workers.jail, "off");
  sources_.settings = {"workers.require_jail=true"};
  EXPECT_THAT(Error(), AllOf(HasSubstr("kilnd.toml:2: workers.jail"), HasSubstr("contradict")));
  sources_.settings.push_back("workers.jail=on");
  EXPECT_TRUE(LoadConfig(sources_)->config.workers.require_jail);
  sources_.settings = {"workers.require_jail=yes"};
  EXPECT_THAT(Error(), HasSubstr("must be true or false"));
  sources_.settings = {"workers.jail=maybe"};
  EXPECT_THAT(Error(), HasSubstr("must be \"on\" or \"off\""));
}

TEST_F(LoadConfigTest, UsesDefaultsWithoutSources) {
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.store.size_bytes, limits::kStoreBytesDefault);
  EXPECT_TRUE(loaded->origins.empty());
}

TEST_F(LoadConfigTest, NamedFileMustBeThere) {
  sources_.file_must_exist = true;
  EXPECT_THAT(Error(), HasSubstr(sources_.file));
}

TEST_F(LoadConfigTest, EveryMistakeOfAFileIsNamed) {
  Write("[store]\nsize = \"1GB\"\n[log]\nlevel = \"trace\"\n[queue]\nlenght = 3\n");
  EXPECT_THAT(
      Error(),
      AllOf(HasSubstr(":2: store.size"), HasSubstr("\n  " + sources_.file + ":4: log.level"),
            HasSubstr("must be \"debug\", \"info\", \"warning\" or \"error\""),
            HasSubstr(":6: unknown setting queue.lenght; section [queue] has queue.length")));
}

TEST_F(LoadConfigTest, FlagsWinOverEnvironmentOverFile) {
  Write("[store]\nsize = \"1GiB\"\nfree_disk = \"1GiB\"\nmemory = \"1GiB\"\n");
  sources_.environment = {{"KILN_STORE_FREE_DISK", "2GiB"}, {"KILN_STORE_MEMORY", "2GiB"}};
  sources_.settings = {"store.memory=3GiB"};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.store.size_bytes, 1 * limits::kGiB);
  EXPECT_EQ(loaded->config.store.free_disk_bytes, 2 * limits::kGiB);
  EXPECT_EQ(loaded->config.store.memory_bytes, 3 * limits::kGiB);
  EXPECT_EQ(loaded->origins.at("store.size"), sources_.file + ":2");
  EXPECT_EQ(loaded->origins.at("store.free_disk"), "KILN_STORE_FREE_DISK");
  EXPECT_EQ(loaded->origins.at("store.memory"), "--set");
}

TEST_F(LoadConfigTest, AnEarlierNameIsRefusedWithTheOneToUse) {
  Write("[store]\nmemory_tier = \"1GiB\"\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr(":2: "), HasSubstr("set store.memory,")));
}

TEST_F(LoadConfigTest, MistypedNamesAreRefusedWithThoseThatAreThere) {
  Write("[store]\nsize = \"1GiB\"\n\n[stoer]\nsize = 1\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr(":5: "), HasSubstr("[stoer]"),
                             HasSubstr("sockets, store, toolchain")));
  Write("[store]\nsze = \"1GiB\"\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr(":2: "), HasSubstr("store.sze"),
                             HasSubstr("[store] has store.size, "),
                             HasSubstr("; did you mean store.size?")));
  Write("[stoer]\n");
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("unknown section [stoer]"), HasSubstr("; did you mean store?")));
  Write("size = 1\n");
  EXPECT_THAT(Error(), HasSubstr("outside of any section"));
}

TEST_F(LoadConfigTest, BadValuesAreNamedWithPlaceFormAndBounds) {
  Write("[store]\n\nsize = \"10GB\"\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr(":3: store.size = \"10GB\""), HasSubstr("GiB"),
                             HasSubstr("from 16MiB to 64TiB")));
  Write("[workers]\nslots = -1\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("workers.slots = -1"), HasSubstr("must be from 0 to 1024")));
  Write("[workers]\nslots = true\n");
  EXPECT_THAT(Error(), HasSubstr("workers.slots = true: expected a whole number"));
  Write("[workers]\ncompile_time = 2020-01-01\n");
  EXPECT_THAT(Error(), HasSubstr("workers.compile_time: neither text"));
  Write("[toolchain]\ndirectories = [\"relative\"]\n");
  EXPECT_THAT(Error(), HasSubstr("\"relative\" is not an absolute path"));
  Write("[toolchain]\ndirectories = [1, 2]\n");
  EXPECT_THAT(Error(), HasSubstr("a list may hold only texts"));
  Write("[log]\nlevel = \"loud\"\n");
  EXPECT_THAT(Error(), HasSubstr("\"debug\", \"info\", \"warning\" or \"error\""));
}

TEST_F(LoadConfigTest, FilesThatAreNotToml) {
  Write("[store\nsize=1");
  EXPECT_THAT(Error(), HasSubstr(sources_.file + ":1: "));
  Write(std::string(limits::kConfigBytesMax + 1, '#'));
  EXPECT_THAT(Error(), HasSubstr("the limit is"));
  std::filesystem::remove(sources_.file);
  std::filesystem::create_directory(sources_.file);
  EXPECT_THAT(Error(), HasSubstr("not a regular file"));
}

TEST_F(LoadConfigTest, EnvironmentAndFlagsNameThemselvesInErrors) {
  sources_.environment = {{"KILN_QUEUE_LENGTH", "many"}};
  EXPECT_THAT(Error(), HasSubstr("KILN_QUEUE_LENGTH: queue.length = \"many\""));
  sources_.environment.clear();
  for (const char* setting : {"store.size", "size=1", "=", "store=1", ".=1"}) {
    sources_.settings = {setting};
    EXPECT_THAT(Error(), HasSubstr("--set"));
  }
}

TEST_F(LoadConfigTest, MistypedVariablesAreRefusedWithThoseThatAreThere) {
  sources_.environment = {{"KILN_STORE_SISE", "1GiB"}};
  EXPECT_THAT(Error(), AllOf(HasSubstr("KILN_STORE_SISE: unknown setting store.sise"),
                             HasSubstr("[store] has store.size, ")));
  // Variables of clients and of tests are no mistake.
  sources_.environment = {{"KILN_ROOT", "/r"}, {"KILN_TEST_BIN", "/b"}, {"KILN_STORE", "x"}};
  EXPECT_TRUE(LoadConfig(sources_).ok());
}

TEST_F(LoadConfigTest, ARootWinsAndNamesWhereItWasGiven) {
  sources_.settings = {"paths.root=/set"};
  sources_.root = "/given";
  sources_.root_origin = "KILN_ROOT";
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(PrintConfig(*loaded), HasSubstr("From: KILN_ROOT.\nroot = \"/given\""));
  sources_.root = "relative";
  EXPECT_THAT(Error(), HasSubstr("KILN_ROOT: paths.root = \"relative\""));
}

TEST_F(LoadConfigTest, ListsAreSeparatedByColonsInTheEnvironment) {
  sources_.environment = {{"KILN_TOOLCHAIN_DIRECTORIES", "/a:/b:"}};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->config.toolchain.directories, ::testing::ElementsAre("/a", "/b"));
}

TEST_F(LoadConfigTest, ListsMayBeWrittenAsInTheFile) {
  sources_.settings = {R"(toolchain.directories=["/a", "/b:c"])"};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->config.toolchain.directories, ::testing::ElementsAre("/a", "/b:c"));
  for (const char* value : {"[", "[1]", "[\"/a\"]\nx = 1"}) {
    sources_.settings = {fmt::format("toolchain.directories={}", value)};
    EXPECT_THAT(Error(), HasSubstr("--set: toolchain.directories"));
  }
}

TEST_F(LoadConfigTest, NormalizesDirectories) {
  sources_.environment = {
      {"KILN_TOOLCHAIN_DIRECTORIES", "/x/inc/:/x//inc:/x/./inc:/x/inc/.:/:/x/../y"}};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  // Where x is a link, /x/../y is not /y.
  EXPECT_THAT(loaded->config.toolchain.directories,
              ::testing::ElementsAre("/x/inc", "/x/inc", "/x/inc", "/x/inc", "/", "/x/../y"));
}

TEST_F(LoadConfigTest, PrintedConfigurationReadsBackEqual) {
  sources_.settings = {"store.size=3GiB",
                       "workers.slots=7",
                       "workers.compile_time=90s",
                       "sockets.mode=0640",
                       "toolchain.directories=/a:/b \"c\"\\",
                       "toolchain.default=triton==3.6.0"};
  const auto loaded = LoadConfig(sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string printed = PrintConfig(*loaded);
  EXPECT_THAT(printed, HasSubstr("From: --set.\nsize = \"3GiB\""));
  Write(printed);
  sources_.settings.clear();
  const auto again = LoadConfig(sources_);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const Field& field : Fields()) {
    EXPECT_EQ(field.print(again->config), field.print(loaded->config)) << field.Name();
  }
}

TEST(Fields, EveryDefaultIsWithinItsOwnBounds) {
  for (const Field& field : Fields()) {
    const std::string text =
        fmt::format("[{}]\n{} = {}\n", field.section, field.name, field.print(Config()));
    const auto entries = ParseToml(text, "default");
    ASSERT_TRUE(entries.ok()) << entries.status();
    Config config;
    EXPECT_TRUE(SetField(field, entries->at(0).value, config).ok()) << field.Name();
  }
}

}  // namespace
}  // namespace kiln
