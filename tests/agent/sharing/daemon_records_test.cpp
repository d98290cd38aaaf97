#include "controller/agent/sharing/daemon_records.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DaemonRecordsTest, ARecordIsReadAsItWasWritten) {
  const support::ScratchFolder scratch;
  const DaemonRecords records(scratch.path() + "/records");
  EXPECT_THAT(records.cards(), IsEmpty());
  EXPECT_FALSE(records.read("GPU-a")->has_value());
  const DaemonRecord first{"GPU-a", 4711, 123456789012, 3, true, 4700, "boot", "DEFAULT", true};
  ASSERT_TRUE(records.write(first).ok());
  ASSERT_TRUE(records.write({"GPU-b"}).ok());
  EXPECT_EQ(records.read("GPU-a")->value(), first);
  EXPECT_EQ(records.read("GPU-b")->value(), DaemonRecord{"GPU-b"});
  EXPECT_THAT(records.cards(), ElementsAre("GPU-a", "GPU-b"));
  const auto mode = std::filesystem::status(scratch.path() + "/records").permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_all);
  ASSERT_TRUE(records.remove("GPU-a").ok());
  ASSERT_TRUE(records.remove("GPU-a").ok());
  EXPECT_THAT(records.cards(), ElementsAre("GPU-b"));
}

TEST(DaemonRecordsTest, ALinkInPlaceOfARecordIsAnError) {
  const support::ScratchFolder scratch;
  std::filesystem::create_symlink("/etc/passwd", scratch.path() + "/GPU-a");
  EXPECT_FALSE(DaemonRecords(scratch.path()).read("GPU-a").ok());
}

TEST(DaemonRecordsTest, NamesThatLeadElsewhereAreNoCards) {
  EXPECT_TRUE(isCardName("GPU-a11ce000-0000-4000-8000-000000000001"));
  for (const char* name : {"", ".", "..", "a/b", "-a", ".GPU-a.tmp"}) EXPECT_FALSE(isCardName(name)) << name;
}

}  // namespace
}  // namespace egpu::agent::sharing
