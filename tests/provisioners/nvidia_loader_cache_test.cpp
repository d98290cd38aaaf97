#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "provisioners/nvidia/container/loader_cache.h"
#include "tests/provisioners/loader_cache_file.h"

namespace egpu::plugin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Returns "name path" of each library.
std::vector<std::string> read(const std::string& bytes) {
  std::vector<std::string> out;
  for (const auto& library : nvidia::readLoaderCache(bytes)) out.push_back(library.name + " " + library.path);
  return out;
}

const std::vector<CachedLibrary> kTwo{{"libcuda.so.1", "/usr/lib64/libcuda.so.1"}, {"libz.so.1", "/lib/libz.so.1"}};

TEST(LoaderCache, BothFormatsReportTheSame) {
  for (const bool old : {false, true})
    EXPECT_THAT(read(loaderCache(kTwo, old)),
                ElementsAre("libcuda.so.1 /usr/lib64/libcuda.so.1", "libz.so.1 /lib/libz.so.1"));
}

TEST(LoaderCache, OtherProcessorsLibrariesAreLeftOut) {
  auto all = kTwo;
  all[0].flags = 0x0003;  // i386
  EXPECT_THAT(read(loaderCache(all)), ElementsAre("libz.so.1 /lib/libz.so.1"));
}

TEST(LoaderCache, WhatCannotBeIsLeftOut) {
  EXPECT_THAT(read(""), IsEmpty());
  EXPECT_THAT(read("glibc-ld.so.cache2.0" + std::string(100, 'x')), IsEmpty());
  EXPECT_THAT(read(loaderCache({{"", "/lib/x"},
                                {"../x", "/lib/x"},
                                {"x", "lib/x"},
                                {"x", ""},
                                {"x\n", "/lib/x"},
                                {"x", "/lib/x\x7f"},
                                {"x", "/" + std::string(5000, 'x')}})),
              IsEmpty());
  std::string far = loaderCache(kTwo);
  far.replace(48 + 4, 4, "\xff\xff\xff\xff");  // the offset of the first name
  far.replace(20, 4, "\xff\xff\xff\x7f");      // the number of entries
  EXPECT_THAT(read(far), ElementsAre("libz.so.1 /lib/libz.so.1"));
  std::string old = loaderCache(kTwo, true);
  old.replace(12, 4, "\xff\xff\xff\xff");  // the number of entries in the old format
  EXPECT_THAT(read(old), IsEmpty());
}

TEST(LoaderCache, AFileCutAnywhereReportsNothingElse) {
  for (const bool old : {false, true}) {
    const std::string whole = loaderCache(kTwo, old);
    const auto all = read(whole);
    for (std::size_t size = 0; size < whole.size(); ++size)
      for (const auto& library : read(whole.substr(0, size))) EXPECT_THAT(all, ::testing::Contains(library)) << size;
  }
}

/// The real output of ldconfig.
TEST(LoaderCache, ThisMachinesReportsWhereLibcIs) {
  std::ifstream in("/etc/ld.so.cache", std::ios::binary);
  if (!in) GTEST_SKIP() << "this machine has no /etc/ld.so.cache";
  std::ostringstream bytes;
  bytes << in.rdbuf();
  const auto all = nvidia::readLoaderCache(bytes.str());
  const auto libc = std::find_if(all.begin(), all.end(), [](const auto& l) { return l.name == "libc.so.6"; });
  ASSERT_NE(libc, all.end());
  EXPECT_TRUE(std::filesystem::exists(libc->path)) << libc->path;
}

}  // namespace
}  // namespace egpu::plugin::testing
