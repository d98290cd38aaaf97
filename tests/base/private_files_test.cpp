#include "controller/base/private_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace egpu::base {
namespace {

namespace fs = std::filesystem;

class PrivateFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "egpu-private-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    mask = ::umask(0);  // modes must not depend on the mask
  }
  void TearDown() override {
    ::umask(mask);
    fs::remove_all(folder);
  }
  std::string in(const std::string& name) const { return folder + "/" + name; }
  static unsigned modeOf(const std::string& path) {
    struct stat is {};
    return ::lstat(path.c_str(), &is) == 0 ? is.st_mode & 07777 : 0;
  }
  static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string textOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string folder;
  mode_t mask = 0;
};

TEST_F(PrivateFiles, AreForTheirOwnerAlone) {
  ASSERT_TRUE(openPrivateFile(in("kept")));
  EXPECT_EQ(modeOf(in("kept")), 0600U);
  ASSERT_TRUE(writePrivateFile(in("written"), "text").ok());
  EXPECT_EQ(modeOf(in("written")), 0600U);
  EXPECT_EQ(textOf(in("written")), "text");
  put(in("older"), "x");
  ASSERT_EQ(modeOf(in("older")), 0666U);
  ASSERT_TRUE(openPrivateFile(in("older")));
  EXPECT_EQ(modeOf(in("older")), 0600U);
  put(in("replaced"), "x");
  ASSERT_TRUE(writePrivateFile(in("replaced"), "new").ok());
  EXPECT_EQ(modeOf(in("replaced")), 0600U);
}

TEST_F(PrivateFiles, LinksAreNotFollowed) {
  put(in("victim"), "precious");
  for (const std::string link : {"to-file", "to-nothing"}) {
    fs::create_symlink(link == "to-file" ? in("victim") : in("none"), in(link));
    EXPECT_EQ(openPrivateFile(in(link)).status().code(), Code::unavailable);
    EXPECT_NE(readPrivateFile(in(link)).status().message().find("symbolic link"), std::string::npos);
    ASSERT_TRUE(writePrivateFile(in(link), "ours").ok());
    EXPECT_FALSE(fs::is_symlink(in(link)));
    EXPECT_EQ(textOf(in(link)), "ours");
  }
  EXPECT_EQ(textOf(in("victim")), "precious");
  EXPECT_FALSE(fs::exists(in("none")));
}

TEST_F(PrivateFiles, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  EXPECT_NE(readPrivateFile(in("pipe")).status().message().find("no regular file"), std::string::npos);
  EXPECT_FALSE(openPrivateFile(folder));
  EXPECT_EQ(readPrivateFile(in("none")).status().code(), Code::notFound);
}

TEST_F(PrivateFiles, AFailedWriteLeavesNothingBehind) {
  fs::create_directories(in("taken/by"));
  EXPECT_FALSE(writePrivateFile(in("taken"), "x").ok());
  EXPECT_EQ(writePrivateFile(in("no/folder"), "x").code(), Code::notFound);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(PrivateFiles, FoldersAreForTheirOwnerAlone) {
  ASSERT_TRUE(makePrivateFolder(in("a/b/c/"), "own").ok());
  EXPECT_EQ(modeOf(in("a/b/c")), 0700U);
  fs::create_directory(in("empty"));
  ASSERT_TRUE(makePrivateFolder(in("empty"), "own").ok());
  EXPECT_EQ(modeOf(in("empty")), 0700U);
  fs::create_directory(in("older"));
  put(in("older/own"), "");
  ASSERT_TRUE(makePrivateFolder(in("older"), "own").ok());
  EXPECT_EQ(modeOf(in("older")), 0700U);
}

TEST_F(PrivateFiles, AFolderWithOtherThingsInItStaysOpen) {
  fs::create_directory(in("home"));
  put(in("home/letter"), "");
  for (const mode_t mode : {0755, 0711, 0750, 01775}) {
    ASSERT_EQ(::chmod(in("home").c_str(), mode), 0);
    EXPECT_TRUE(makePrivateFolder(in("home"), "own").ok());
    EXPECT_EQ(modeOf(in("home")), mode);
  }
  EXPECT_FALSE(makePrivateFolder(in("home/letter"), "own").ok());
}

TEST_F(PrivateFiles, AFolderThatOthersWriteToIsRefused) {
  fs::create_directory(in("home"));
  put(in("home/letter"), "");
  struct FileRow {
    mode_t mode;
    const char* own;
    std::string description;
  };
  const std::string chmod = "use chmod go-w " + in("home"), another = "use a folder in it, or another one";
  for (const FileRow& row :
       {FileRow{0777, "own", "(mode 0777): " + chmod}, FileRow{0775, "own", "(mode 0775): " + chmod},
        FileRow{0722, "own", "(mode 0722): " + chmod}, FileRow{01777, "own", "(mode 1777): " + another},
        FileRow{01777, "letter", "(mode 1777): " + another}}) {
    ASSERT_EQ(::chmod(in("home").c_str(), row.mode), 0);
    const Status refused = makePrivateFolder(in("home/"), row.own);
    EXPECT_EQ(refused.code(), Code::unavailable) << row.description;
    EXPECT_EQ(refused.message(), in("home") + ": can be written to by others " + row.description);
    EXPECT_EQ(modeOf(in("home")), row.mode);
  }
}

TEST_F(PrivateFiles, AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  for (const mode_t mode : {0755, 0700, 0777, 01777}) {
    const std::string name = in("theirs" + std::to_string(mode));
    fs::create_directory(name);
    ASSERT_EQ(::chown(name.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chmod(name.c_str(), mode), 0);
    for (const char* own : {".", "own"}) {
      const Status refused = makePrivateFolder(name, own);
      EXPECT_FALSE(refused.ok());
      EXPECT_NE(refused.message().find(name + ": belongs to another user"), std::string::npos) << refused.message();
    }
    EXPECT_EQ(modeOf(name), mode);
  }
}

TEST_F(PrivateFiles, ALinkToAFolderIsFollowedIfItIsOurs) {
  fs::create_directory(in("real"));
  fs::create_directory_symlink("real", in("link"));
  fs::create_directory_symlink(in("link"), in("second"));
  ASSERT_TRUE(makePrivateFolder(in("second/"), "own").ok());
  EXPECT_EQ(modeOf(in("real")), 0700U);
  fs::create_directory_symlink(in("round"), in("round"));
  EXPECT_FALSE(makePrivateFolder(in("round"), "own").ok());
  fs::create_directory_symlink(in("none"), in("to-nothing"));
  EXPECT_FALSE(makePrivateFolder(in("to-nothing"), "own").ok());
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod(in("real").c_str(), 0755), 0);
  ASSERT_EQ(::lchown(in("link").c_str(), 65534, 65534), 0);
  for (const char* name : {"link", "link/", "second"})
    EXPECT_NE(makePrivateFolder(in(name), ".").message().find("symbolic link of another user"), std::string::npos);
  EXPECT_EQ(modeOf(in("real")), 0755U);
}

TEST_F(PrivateFiles, RootStoresNothingInAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  put(in("theirs"), "text");
  ASSERT_EQ(::chown(in("theirs").c_str(), 65534, 65534), 0);
  EXPECT_NE(openPrivateFile(in("theirs")).status().message().find("belongs to another user"), std::string::npos);
  EXPECT_EQ(modeOf(in("theirs")), 0666U);
  // Root may read and rewrite a file on behalf of its user, and the file keeps its owner.
  EXPECT_EQ(*readPrivateFile(in("theirs")), "text");
  ASSERT_TRUE(writePrivateFile(in("theirs"), "new").ok());
  struct stat is {};
  ASSERT_EQ(::stat(in("theirs").c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, 65534U);
}

TEST_F(PrivateFiles, OnlyRegularFilesAreReplaced) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", in("to-pipe"));
  fs::create_symlink("/dev/null", in("to-device"));
  fs::create_directory(in("folder"));
  for (const char* name : {"pipe", "to-pipe", "to-device", "folder"}) {
    const auto before = fs::symlink_status(in(name)).type();
    const Status refused = writePrivateFile(in(name), "x");
    EXPECT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.message().find(in(name) + ": is no regular file"), std::string::npos) << refused.message();
    EXPECT_EQ(fs::symlink_status(in(name)).type(), before) << name;
  }
}

}  // namespace
}  // namespace egpu::base
