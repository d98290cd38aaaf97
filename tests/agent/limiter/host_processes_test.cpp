#include "controller/agent/limiter/host_processes.h"

#include <gtest/gtest.h>

#include "tests/agent/limiter/pages.h"
#include "tests/support/scratch_folder.h"

namespace egpu::agent::limiter::testing {
namespace {

TEST(HostProcessesTest, AnOwnerIsFoundByItsNamespacePidAndStart) {
  const support::ScratchFolder proc;
  writeProcess(proc.path(), 4711, 8, 77, 500);
  HostProcesses host(proc.path());
  host.beginRound();
  EXPECT_TRUE(host.hasOwner(slotOf(8, 77, 500)));
  EXPECT_FALSE(host.hasOwner(slotOf(8, 77, 501))) << "the PID was used again";
  EXPECT_FALSE(host.hasOwner(slotOf(8, 78, 500))) << "another container";
  EXPECT_FALSE(host.hasOwner(slotOf(4711, 77, 500))) << "the PID in its own namespace counts";
  EXPECT_TRUE(host.hasOwner(slotOf(9, 0, 0))) << "its slot is not complete yet";
}

TEST(HostProcessesTest, OnceFoundAProcessIsWatchedWithoutAScan) {
  const support::ScratchFolder proc;
  writeProcess(proc.path(), 4711, 8, 77, 500);
  HostProcesses host(proc.path());
  host.beginRound();
  EXPECT_TRUE(host.hasOwner(slotOf(8, 77, 500)));
  std::filesystem::remove_all(proc.path() + "/4711");
  writeProcess(proc.path(), 4712, 9, 77, 600);
  EXPECT_FALSE(host.hasOwner(slotOf(8, 77, 500)));
  EXPECT_FALSE(host.hasOwner(slotOf(9, 77, 600))) << "one scan per round";
  host.beginRound();
  EXPECT_TRUE(host.hasOwner(slotOf(9, 77, 600)));
}

TEST(HostProcessesTest, WithoutProcAllSlotsStay) {
  HostProcesses host("/nonexistent");
  host.beginRound();
  EXPECT_TRUE(host.hasOwner(slotOf(8, 77, 500)));
}

TEST(HostProcessesTest, AProcessHasASlotOrNot) {
  const support::ScratchFolder proc;
  writeProcess(proc.path(), 4711, 8, 77, 500);
  const HostProcesses host(proc.path());
  egpu_limiter_usage usage{};
  egpu_limiter_make_usage(&usage);
  EXPECT_FALSE(host.hasSlot(4711, usage));
  usage.slot[3] = slotOf(8, 78, 500);
  EXPECT_FALSE(host.hasSlot(4711, usage));
  usage.slot[5] = slotOf(8, 77, 500);
  EXPECT_TRUE(host.hasSlot(4711, usage));
  EXPECT_TRUE(host.hasSlot(4712, usage)) << "it has ended";
}

}  // namespace
}  // namespace egpu::agent::limiter::testing
