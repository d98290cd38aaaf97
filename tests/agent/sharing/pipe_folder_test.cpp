#include "controller/agent/sharing/pipe_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::sharing {
namespace {

namespace fs = std::filesystem;

void put(const std::string& file) {
  fs::create_directories(fs::path(file).parent_path());
  std::ofstream(file) << "text";
}

TEST(PipeFolderTest, FilesAreRemovedAndFoldersStay) {
  const support::ScratchFolder scratch;
  const auto pipe = scratch.path() + "/pipe";
  for (const char* file : {"/control", "/log", "/card/log", "/card/ab/control", "/card/ab/deep/file"}) put(pipe + file);
  fs::create_symlink("/etc", pipe + "/card/link");
  removeFilesIn(pipe);
  for (const char* file : {"/control", "/log", "/card/log", "/card/ab/control", "/card/link"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(pipe + file))) << file;
  EXPECT_TRUE(fs::exists(pipe + "/card/ab/deep/file")) << "only three levels have sockets";
  removeFilesIn(scratch.path() + "/missing");
}

TEST(PipeFolderTest, TheSocketsOfAFolderWithManyFilesAreRemoved) {
  const support::ScratchFolder scratch;
  for (int i = 0; i < 3000; ++i) put(scratch.path() + "/card/a/" + std::to_string(i));
  put(scratch.path() + "/card/a/control");
  put(scratch.path() + "/card/b/control");
  removeFilesIn(scratch.path());
  EXPECT_FALSE(fs::exists(scratch.path() + "/card/a/control"));
  EXPECT_FALSE(fs::exists(scratch.path() + "/card/b/control"));
  const auto left = std::distance(fs::directory_iterator(scratch.path() + "/card/a"), fs::directory_iterator());
  EXPECT_GE(left, 2000);
}

/// A container exchanges a folder and a link to a folder of the node all the time. Both contain a file of one name.
TEST(PipeFolderTest, LinksThatReplaceFoldersAreNotFollowed) {
  const support::ScratchFolder scratch, node;
  const auto folder = scratch.path() + "/pipe/card", link = scratch.path() + "/pipe/link";
  put(node.path() + "/kept");
  put(folder + "/kept");
  std::atomic<bool> stop = false;
  std::thread container([&] {
    while (!stop) {
      ::mkdir(folder.c_str(), 0755);
      ::close(::open((folder + "/kept").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
      (void)!::symlink(node.path().c_str(), link.c_str());
      ::syscall(SYS_renameat2, AT_FDCWD, folder.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    }
  });
  int rounds = 0;
  for (; rounds < 2000 && fs::exists(node.path() + "/kept"); ++rounds) removeFilesIn(scratch.path() + "/pipe");
  stop = true;
  container.join();
  EXPECT_EQ(rounds, 2000);
}

}  // namespace
}  // namespace egpu::agent::sharing
