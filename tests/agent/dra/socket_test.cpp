#include "controller/agent/dra/socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/scratch_folder.h"

namespace egpu::agent::dra {
namespace {

namespace fs = std::filesystem;

struct SocketTest : ::testing::Test {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
};

TEST_F(SocketTest, TakesOverFromAnotherAndKnowsWhoseTheFileIs) {
  Socket first(folder + "/s"), second(folder + "/s");
  ASSERT_TRUE(first.open().ok());
  EXPECT_TRUE(first.ours());
  EXPECT_FALSE(first.taken());
  ASSERT_TRUE(second.open().ok());
  EXPECT_FALSE(first.ours());
  EXPECT_TRUE(first.taken());
  first.close();
  EXPECT_TRUE(second.ours());
  second.close();
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(SocketTest, AFileThatNobodyAnswersAtIsNotTaken) {
  Socket socket(folder + "/s");
  ASSERT_TRUE(socket.open().ok());
  fs::remove(folder + "/s");
  EXPECT_FALSE(socket.ours());
  EXPECT_FALSE(socket.taken());
  ASSERT_TRUE(socket.open().ok());
  EXPECT_TRUE(socket.ours());
}

TEST_F(SocketTest, ALinkInItsPlaceIsReplacedAndNotFollowed) {
  fs::create_symlink(folder + "/elsewhere", folder + "/s");
  Socket socket(folder + "/s");
  ASSERT_TRUE(socket.open().ok());
  EXPECT_TRUE(fs::is_socket(fs::symlink_status(folder + "/s")));
  EXPECT_FALSE(fs::exists(folder + "/elsewhere"));
}

TEST_F(SocketTest, AFolderInItsPlaceIsNamed) {
  fs::create_directory(folder + "/s");
  Socket socket(folder + "/s");
  const auto s = socket.open();
  EXPECT_EQ(s.code(), base::Code::unavailable);
  EXPECT_NE(s.message().find(folder + "/s: "), std::string::npos) << s.message();
}

TEST_F(SocketTest, APathAsLongAsASocketMayHaveWorks) {
  const std::string longest = folder + "/" + std::string(107 - folder.size() - 1, 'x');
  Socket fits(longest), tooLong(longest + "x");
  EXPECT_TRUE(fits.check().ok());
  EXPECT_TRUE(fits.open().ok());
  EXPECT_EQ(tooLong.check().code(), base::Code::invalid);
}

}  // namespace
}  // namespace egpu::agent::dra
