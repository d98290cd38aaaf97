#include "controller/base/remove_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scratch_folder.h"

namespace egpu::base {
namespace {

namespace fs = std::filesystem;

Status noLimit() { return Status::okay(); }

/// Limits the number of open files of this process.
class FewOpenFiles {
 public:
  explicit FewOpenFiles(rlim_t number) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{number, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FewOpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(RemoveTreeTest, AnyDepthIsRemovedWithFewOpenFiles) {
  const support::ScratchFolder scratch;
  const auto folder = scratch.path() + "/folder";
  fs::create_directories(folder);
  UniqueFd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; depth < 900; ++depth) {  // longer than the maximum path
    ASSERT_EQ(::mkdirat(at.get(), "down", 0755), 0);
    at = UniqueFd(::openat(at.get(), "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const FewOpenFiles few(100);
  const auto removed = removeTree(folder, noLimit);
  EXPECT_TRUE(removed.ok()) << removed.str();
  EXPECT_FALSE(fs::exists(folder));
}

TEST(RemoveTreeTest, LinksAreRemovedAndNotFollowed) {
  const support::ScratchFolder scratch, elsewhere;
  std::ofstream(elsewhere.path() + "/kept") << "x";
  fs::create_directories(scratch.path() + "/folder/below");
  fs::create_directory_symlink(elsewhere.path(), scratch.path() + "/folder/below/link");
  fs::create_directory_symlink(elsewhere.path(), scratch.path() + "/link");
  EXPECT_TRUE(removeTree(scratch.path() + "/folder", noLimit).ok());
  EXPECT_TRUE(removeTree(scratch.path() + "/link", noLimit).ok());
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  EXPECT_TRUE(fs::exists(elsewhere.path() + "/kept"));
}

TEST(RemoveTreeTest, NothingIsRemovedAlready) {
  const support::ScratchFolder scratch;
  EXPECT_TRUE(removeTree(scratch.path() + "/missing", noLimit).ok());
  EXPECT_TRUE(removeTree(scratch.path() + "/missing/below", noLimit).ok());
}

TEST(RemoveTreeTest, ALimitEndsTheRemovalAndTheNextCallContinues) {
  const support::ScratchFolder scratch;
  const auto folder = scratch.path() + "/folder";
  for (int i = 0; i < 1500; ++i) fs::create_directories(folder + "/" + std::to_string(i));
  int steps = 0;
  const auto removed = removeTree(folder, [&]() -> Status {
    if (++steps <= 1) return Status::okay();
    return {Code::deadline, "too long"};
  });
  EXPECT_EQ(removed.code(), Code::deadline);
  const auto left = std::distance(fs::directory_iterator(folder), {});
  EXPECT_GT(left, 0);
  EXPECT_LT(left, 1500);
  EXPECT_TRUE(removeTree(folder, noLimit).ok());
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace egpu::base
