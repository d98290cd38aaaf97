#include "controller/base/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace egpu::base {
namespace {

TEST(ReadFile, TheWholeFileOrWhyNot) {
  const std::string file = ::testing::TempDir() + "egpu-files-test";
  const std::string text("a\n\0b", 4);
  std::ofstream(file, std::ios::binary) << text;
  EXPECT_EQ(*readFile(file), text);
  std::ofstream(file, std::ios::trunc).close();
  EXPECT_EQ(*readFile(file), "");
  std::filesystem::remove(file);
  EXPECT_EQ(readFile(file).status().code(), Code::notFound);
  EXPECT_EQ(readFile(file).status().message(), file + ": No such file or directory");
  EXPECT_EQ(readFile(::testing::TempDir()).status().code(), Code::unavailable);
  EXPECT_EQ(readFile("/proc/self/mem").status().code(), Code::unavailable);  // can be opened, but not read
}

}  // namespace
}  // namespace egpu::base
