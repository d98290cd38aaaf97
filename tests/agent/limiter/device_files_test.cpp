#include "controller/agent/limiter/device_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/agent/limiter/pages.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::limiter::testing {
namespace {

using ::testing::HasSubstr;

class DeviceFilesTest : public ::testing::Test {
 protected:
  DeviceFilesTest() { makeFiles(folder, {cardOf(1000, 300)}); }
  const support::ScratchFolder scratch;
  const std::string folder = scratch.path() + "/device";
  DeviceFiles files{folder};
};

TEST_F(DeviceFilesTest, LimitsReachTheContainerAndTheirNumberGrows) {
  ASSERT_TRUE(files.read().ok());
  EXPECT_EQ(files.limits().card[0].memory, 1000u);
  const auto before = readPage<egpu_limiter_limits>(folder + "/limits");
  ASSERT_TRUE(files.limit({cardOf(2000, 500)}).ok());
  const auto after = readPage<egpu_limiter_limits>(folder + "/limits");
  EXPECT_EQ(after.sequence, before.sequence + 1);
  EXPECT_EQ(limitsIn(folder).card[0].memory, 2000u);
  EXPECT_EQ(limitsIn(folder).card[0].cores, 500u);
  EXPECT_EQ(std::string(after.cuda), "/driver/libcuda.so.1");
  EXPECT_EQ(files.limits().card[0].memory, 2000u);
}

TEST_F(DeviceFilesTest, WhileThePluginWritesNothingIsWritten) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_EQ(files.limit({cardOf(2000, 500)}).code(), base::Code::unavailable);
  EXPECT_EQ(limitsIn(folder).card[0].memory, 1000u);
  ::close(lock);
  EXPECT_TRUE(files.limit({cardOf(2000, 500)}).ok());
}

TEST_F(DeviceFilesTest, OnlyTheSlotsOfTheirOwnersAreFreed) {
  auto usage = readPage<egpu_limiter_usage>(folder + "/usage");
  for (const uint32_t slot : {0u, 1u, 2u}) {
    usage.slot[slot] = slotOf(10 + slot, 7, 5);
    usage.used[0][slot] = usage.used[15][slot] = 100;
    usage.want[slot].bytes = 50;
  }
  writePage(folder + "/usage", usage);
  ASSERT_TRUE(files.read().ok());
  usage.slot[1].owner = slotOf(99, 7, 5).owner;  // freed and taken by another process meanwhile
  writePage(folder + "/usage", usage);
  ASSERT_TRUE(files.freeSlots({0, 1}).ok());
  const auto after = readPage<egpu_limiter_usage>(folder + "/usage");
  EXPECT_EQ(after.slot[0].owner, 0u);
  EXPECT_EQ(after.slot[0].started, 0u);
  EXPECT_EQ(after.want[0].bytes, 0u);
  EXPECT_EQ(after.used[0][0], 0u);
  EXPECT_EQ(after.used[15][0], 0u);
  for (const uint32_t slot : {1u, 2u}) {
    EXPECT_EQ(after.slot[slot].owner, usage.slot[slot].owner);
    EXPECT_EQ(after.used[15][slot], 100u);
  }
}

/// A container may hold the lock for ever.
TEST_F(DeviceFilesTest, TheLockOfAContainerDoesNotBlock) {
  auto usage = readPage<egpu_limiter_usage>(folder + "/usage");
  usage.slot[0] = slotOf(10, 7, 5);
  writePage(folder + "/usage", usage);
  ASSERT_TRUE(files.read().ok());
  const int lock = ::open((folder + "/usage").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_TRUE(files.freeSlots({0}).ok());
  EXPECT_NE(readPage<egpu_limiter_usage>(folder + "/usage").slot[0].owner, 0u);
  ::close(lock);
}

TEST_F(DeviceFilesTest, DamagedFilesAreErrorsAndChangeNothing) {
  ASSERT_TRUE(files.read().ok());
  ASSERT_EQ(::truncate((folder + "/usage").c_str(), 100), 0);
  EXPECT_THAT(files.read().message(), HasSubstr("usage: it is not a file of this version"));
  EXPECT_EQ(files.limits().card[0].memory, 1000u);
  std::filesystem::remove(folder + "/usage");
  std::filesystem::create_symlink("/etc/passwd", folder + "/usage");
  EXPECT_THAT(files.read().message(), HasSubstr("usage"));
  makeFiles(folder + "2", {cardOf(1, 1)});
  auto limits = readPage<egpu_limiter_limits>(folder + "2/limits");
  limits.bank[limits.sequence & 1].card[0].memory = 7;
  writePage(folder + "2/limits", limits);
  EXPECT_THAT(DeviceFiles(folder + "2").read().message(), HasSubstr("limits are damaged"));
}

TEST_F(DeviceFilesTest, ReadsUuids) {
  EXPECT_EQ(uuidOf(kUuid)->at(0), 0xa1);
  EXPECT_EQ(uuidOf(kUuid)->at(15), 1);
  for (const char* wrong :
       {"", "GPU-", "GPU-1", "MIG-a11ce000-0000-4000-8000-000000000001", "GPU-a11ce000-0000-4000-8000-00000000000x"})
    EXPECT_FALSE(uuidOf(wrong)) << wrong;
}

}  // namespace
}  // namespace egpu::agent::limiter::testing
