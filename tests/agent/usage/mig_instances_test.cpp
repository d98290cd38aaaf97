#include "controller/agent/usage/mig_instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::usage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MigInstancesTest : public ::testing::Test {
 protected:
  MigInstancesTest() { std::filesystem::create_directories(scratch.path() + "/mig"); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch.path() + "/mig/" + name) << text;
  }
  std::vector<MigInstance> found() const { return migInstances(scratch.path(), "boot-1"); }

  support::ScratchFolder scratch;
};

/// A record as provisioners/nvidia/mig/records.cpp writes it.
std::string record(const std::string& parts, const std::string& claim = "ns/train", const std::string& end = "end\n") {
  return "elasticgpu-mig-1\ndevice egpu-1\nclaim " + claim +
         "\ncard GPU-A\nboot boot-1\nprofile 1g.5gb\nid 19\nsize 1\nmedia 0\n" + parts + end;
}

TEST_F(MigInstancesTest, EachInstanceHasItsIdsAndItsClaim) {
  write("b", record("part 6 9 0 MIG-c\n", "other/infer"));
  write("a", record("part 0 7 0 MIG-a\npart 2 8 0 MIG-b\n"));
  EXPECT_THAT(found(), ElementsAre(MigInstance{"GPU-A", "7", "MIG-a", "1g.5gb", "ns", "train"},
                                   MigInstance{"GPU-A", "8", "MIG-b", "1g.5gb", "ns", "train"},
                                   MigInstance{"GPU-A", "9", "MIG-c", "1g.5gb", "other", "infer"}));
  EXPECT_THAT(migInstances(scratch.path(), "boot-2"), IsEmpty()) << "a reboot removes instances";
  EXPECT_THAT(migInstances(scratch.path() + "/none", "boot-1"), IsEmpty());
}

TEST_F(MigInstancesTest, InstancesThatAreNotCompleteAreLeftOut) {
  write("a", record("part 0 7 0 MIG-a\npart 2 8 -1 \npart 4 -1 -1 \n"));
  EXPECT_THAT(found(), ElementsAre(MigInstance{"GPU-A", "7", "MIG-a", "1g.5gb", "ns", "train"}));
}

TEST_F(MigInstancesTest, FilesThatAreNoRecordsHaveNoInstances) {
  const std::string part = "part 0 7 0 MIG-a\n";
  write("cut", record(part, "ns/train", ""));
  write("large", record(part) + std::string(20'000, 'x'));
  write("long", record(part, "ns/" + std::string(300, 'x')));
  write("nameless", record(part, "train"));
  write("lock-GPU-A", record(part));
  write(".a.new", record(part));
  std::ofstream(scratch.path() + "/elsewhere") << record(part);
  std::filesystem::create_symlink(scratch.path() + "/elsewhere", scratch.path() + "/mig/link");
  std::filesystem::create_directory(scratch.path() + "/mig/folder");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(MigInstancesTest, TheirNumberIsBounded) {
  for (std::size_t i = 0; i < kMaxMigInstances; ++i)
    write("r" + std::to_string(i), record("part 0 7 0 MIG-a\npart 1 8 0 MIG-b\n"));
  EXPECT_EQ(found().size(), kMaxMigInstances);
}

}  // namespace
}  // namespace egpu::agent::usage
