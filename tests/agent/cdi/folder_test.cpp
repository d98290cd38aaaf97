#include "controller/agent/cdi/folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::cdi {
namespace {

namespace fs = std::filesystem;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { EXPECT_TRUE(folder.open().ok()); }

  static Spec spec(const std::string& uid, const std::string& claim = "c") {
    Spec out;
    out.device = "egpu-" + uid;
    out.deviceUid = uid;
    out.claimNamespace = "default";
    out.claimName = claim;
    out.claimUid = "uid-of-" + claim;
    out.provisioner = "x.example.com";
    out.cards = {{"gpu-1", "GPU-1", 100, 1, 100, 1}};
    return out;
  }
  void prepared(const std::string& uid) {
    ASSERT_TRUE(folder.write(spec(uid)).ok());
    ASSERT_TRUE(folder.publish(uid).ok());
  }
  std::string fileOf(const std::string& uid) const {
    return scratch.path() + "/cdi/elasticgpu.io-device_" + uid + ".json";
  }
  void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(scratch.path() + "/cdi")) out.push_back(each.path().filename());
    return out;
  }

  support::ScratchFolder scratch;
  Folder folder{scratch.path() + "/cdi"};
};

TEST_F(FolderTest, APartIsNoFileForRuntimesUntilItIsPublished) {
  ASSERT_TRUE(folder.write(spec("a")).ok());
  EXPECT_EQ(files(), std::vector<std::string>{"elasticgpu.io-device_a.json.part"});
  auto found = folder.find("a");
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_TRUE((*found)->part && !(*found)->ready);
  EXPECT_EQ(*(*found)->spec, spec("a"));

  ASSERT_TRUE(folder.publish("a").ok());
  EXPECT_EQ(files(), std::vector<std::string>{"elasticgpu.io-device_a.json"});
  found = folder.find("a");
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_TRUE((*found)->ready && !(*found)->part);

  ASSERT_TRUE(folder.withdraw("a").ok());
  EXPECT_TRUE(folder.withdraw("a").ok()) << "again";
  EXPECT_EQ(files(), std::vector<std::string>{"elasticgpu.io-device_a.json.part"});
  ASSERT_TRUE(folder.removePart("a").ok());
  EXPECT_TRUE(folder.removePart("a").ok()) << "again";
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(folder.find("a")->has_value());
}

TEST_F(FolderTest, ListsItsOwnFilesAlone) {
  prepared("b");
  ASSERT_TRUE(folder.write(spec("a")).ok());
  for (const char* other : {"/cdi/nvidia.yaml", "/cdi/elasticgpu.io-device_.json", "/cdi/elasticgpu.io-device_a_b.json",
                            "/cdi/elasticgpu.io-device_x.yaml"})
    put(scratch.path() + other, "{}");
  const auto all = folder.list();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].deviceUid, "a");
  EXPECT_EQ((*all)[1].deviceUid, "b");
}

TEST_F(FolderTest, AFileThatChangesIsReadAgain) {
  prepared("a");
  ASSERT_TRUE(folder.list().ok());
  Spec changed = spec("a", "other");
  const std::string beside = scratch.path() + "/beside";
  put(beside, codec::encodeCdiSpec(changed));
  fs::rename(beside, fileOf("a"));
  EXPECT_EQ(folder.list()->at(0).spec->claimName, "other");
  fs::remove(fileOf("a"));
  EXPECT_TRUE(folder.list()->empty());
}

/// Files are identified by name and inode: cached contents of either one alone are not used.
TEST_F(FolderTest, WhatIsReadIsWhatStandsThereAfterEachStep) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const std::string claim = round % 2 == 0 ? "one" : "two";  // files of equal size
    ASSERT_TRUE(folder.write(spec("a", claim)).ok());
    if (round % 3 == 0) {
      EXPECT_EQ(folder.list()->at(0).spec.ok(), true);
    }
    ASSERT_TRUE(folder.write(spec("a", claim == "one" ? "two" : "one")).ok());
    if (round % 5 == 0) {
      EXPECT_EQ(folder.list()->at(0).spec.ok(), true);
    }
    ASSERT_TRUE(folder.write(spec("a", claim)).ok());
    ASSERT_TRUE(folder.publish("a").ok());
    EXPECT_EQ(*folder.list()->at(0).spec, spec("a", claim));
    ASSERT_TRUE(folder.withdraw("a").ok());
    EXPECT_EQ(*folder.list()->at(0).spec, spec("a", claim));
    EXPECT_EQ(*Folder(folder.path()).list()->at(0).spec, spec("a", claim));
    if (round % 4 == 0) {
      ASSERT_TRUE(folder.removePart("a").ok());
    }
  }
}

TEST_F(FolderTest, WhatItWroteItKnowsAsItIsRead) {
  Spec full = spec("a");
  full.edits.env = {{"A", "1"}, {"B", "=\"\\"}};
  full.edits.deviceNodes = {{"/dev/x0", "/dev/x0", "rw"}, {"/dev/x1", "/dev/y1", "r"}};
  full.edits.mounts = {{"/lib/x", "/lib/y", {"ro", "bind"}}};
  full.edits.cdiDevices = {"nvidia.com/gpu=1"};
  ASSERT_TRUE(folder.write(full).ok());
  EXPECT_EQ(*folder.list()->at(0).spec, *Folder(folder.path()).list()->at(0).spec);
  ASSERT_TRUE(folder.publish("a").ok());
  EXPECT_EQ(*folder.list()->at(0).spec, *Folder(folder.path()).list()->at(0).spec);
}

TEST_F(FolderTest, ADraftThatIsGoneIsReported) {
  auto draft = folder.draft(spec("a"));
  ASSERT_TRUE(draft.ok());
  ASSERT_TRUE(Folder(folder.path()).open().ok()) << "an agent that starts";
  EXPECT_EQ(folder.write(std::move(*draft)).code(), base::Code::unavailable) << "it may be tried again";
  EXPECT_TRUE(files().empty());
  { ASSERT_TRUE(folder.draft(spec("a")).ok()); }
  EXPECT_TRUE(files().empty()) << "one that is not written goes";
}

TEST_F(FolderTest, AFileThatCantBeReadIsListedWithTheReason) {
  prepared("a");
  const std::string good = codec::encodeCdiSpec(spec("a"));
  for (const std::string& text :
       {std::string(), good.substr(0, 60), codec::encodeCdiSpec(spec("b")), good + std::string(2 << 20, ' ')}) {
    put(fileOf("a"), text);
    const auto all = folder.list();
    ASSERT_TRUE(all.ok());
    ASSERT_EQ(all->size(), 1U);
    EXPECT_TRUE(all->at(0).ready);
    ASSERT_FALSE(all->at(0).spec.ok());
    EXPECT_NE(all->at(0).spec.status().message().find(fileOf("a")), std::string::npos);
    EXPECT_TRUE(fs::exists(fileOf("a"))) << "nothing is lost";
  }
  fs::remove(fileOf("a"));
  fs::create_directory(fileOf("a"));
  EXPECT_FALSE(folder.list()->at(0).spec.ok());
}

TEST_F(FolderTest, ALinkIsNotFollowed) {
  put(scratch.path() + "/elsewhere", codec::encodeCdiSpec(spec("a")));
  fs::create_symlink(scratch.path() + "/elsewhere", fileOf("a"));
  EXPECT_FALSE(folder.list()->at(0).spec.ok());
  prepared("a");
  EXPECT_FALSE(fs::is_symlink(fileOf("a")));
  EXPECT_TRUE(folder.list()->at(0).spec.ok());
}

TEST_F(FolderTest, OfAFileAndItsPartTheFileCounts) {
  prepared("a");
  ASSERT_TRUE(folder.write(spec("a", "newer")).ok());
  auto entry = folder.list()->at(0);
  EXPECT_TRUE(entry.ready && entry.part);
  EXPECT_EQ(entry.spec->claimName, "c");
  ASSERT_TRUE(entry.coming.has_value());
  EXPECT_EQ((*entry.coming)->claimName, "newer");
  put(fileOf("a"), "{");
  EXPECT_EQ(folder.list()->at(0).spec->claimName, "newer") << "the file can't be read";
  EXPECT_FALSE(folder.list()->at(0).coming.has_value());
}

TEST_F(FolderTest, L3_TemporariesOfADeadProcessGoAtTheStart) {
  put(fileOf("a") + ".part.x7y2~", "{");
  put(scratch.path() + "/cdi/nvidia.json~", "{");
  ASSERT_TRUE(folder.open().ok());
  EXPECT_EQ(files(), std::vector<std::string>{"nvidia.json~"});
}

TEST_F(FolderTest, NoUidNoFile) {
  for (const std::string uid : {"", "..", "a/b", "a.b", "-a", "a_b"}) {
    EXPECT_FALSE(isUid(uid)) << uid;
    EXPECT_FALSE(folder.write(spec(uid)).ok()) << uid;
    EXPECT_FALSE(folder.find(uid).ok()) << uid;
  }
  EXPECT_FALSE(isUid(std::string(64, 'a')));
  EXPECT_TRUE(isUid("0f3c8a52-7a4e-4c5e-9c1b-9a8d6f1f0e11"));
  EXPECT_TRUE(files().empty());
}

TEST_F(FolderTest, AFullDiskIsNamedAndLeavesWhatWasThere) {
  prepared("a");
  ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto failed = folder.write(spec("a", "newer")), other = folder.write(spec("b"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(failed.code(), base::Code::unavailable);
  EXPECT_NE(failed.message().find(fileOf("a")), std::string::npos) << failed.message();
  EXPECT_FALSE(other.ok());
  EXPECT_EQ(files(), std::vector<std::string>{"elasticgpu.io-device_a.json"}) << "no temporaries either";
  EXPECT_EQ(folder.list()->at(0).spec->claimName, "c");
}

TEST_F(FolderTest, AFolderThatIsGoneIsAnError) {
  fs::remove_all(scratch.path() + "/cdi");
  EXPECT_FALSE(folder.list().ok());
  EXPECT_FALSE(folder.write(spec("a")).ok());
  ASSERT_TRUE(folder.open().ok());
  EXPECT_TRUE(folder.write(spec("a")).ok());
}

}  // namespace
}  // namespace egpu::agent::cdi
