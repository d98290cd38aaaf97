// egpu-sanity itself: it must accept good plugins and find the errors of bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/plugin/zoo.h"

namespace egpu::plugin {
namespace {

using ::testing::AllOf;
using testing::builtIn;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::zoo;

struct Trial {
  int status = -1;
  std::string output;
};
Trial sanity(const std::string& arguments) {
  Trial run;
  FILE* pipe = popen((EGPU_BIN_DIR "/egpu-sanity " + arguments + " 2>&1").c_str(), "r");
  if (!pipe) return run;
  char chunk[4096];
  for (std::size_t n; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) run.output.append(chunk, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.status = WEXITSTATUS(status);
  return run;
}

TEST(SanityTest, NoticesWhatIsWrong) {
  const Trial run = sanity("--cycles 50 " + zoo("leaks"));
  EXPECT_EQ(run.status, 1) << run.output;
  for (const char* check : {"unknown-parameter", "conflict", "mount-pure", "leaks", "missing-fields"})
    EXPECT_THAT(run.output, HasSubstr(std::string("FAIL  ") + check));
  EXPECT_THAT(run.output, AllOf(HasSubstr("pass  identity"), HasSubstr("more descriptors in 52 lifecycles"),
                                Not(HasSubstr(" 0 failed"))));
}

TEST(SanityTest, NoticesMemoryThatIsNotGivenBack) {
  const Trial run = sanity("--cycles 100 --only leaks " + zoo("leaks_memory"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("it grew by"), HasSubstr("steadily")));
}

TEST(SanityTest, NoticesAFewBytesThatAreNotGivenBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps more than that for itself";
#endif
  const Trial run = sanity("--cycles 400 --only leaks --param bytes=900 " + zoo("leaks_memory"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("it grew by"), HasSubstr("steadily")));
}

TEST(SanityTest, ToleratesAHeapThatLevelsOff) {
  const Trial run = sanity("--cycles 100 --only leaks " + zoo("warms_up"));
  EXPECT_EQ(run.status, 0) << run.output;
}

TEST(SanityTest, NoticesAPluginThatTakesANewClaimForOtherContent) {
  const Trial run = sanity("--only another-claim " + zoo("one_claim"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("provision answered exists"));
}

TEST(SanityTest, NoticesAnIsolationThatChanges) {
  const Trial run = sanity("--only isolation " + zoo("changes_isolation"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("provision changed the isolation"));
}

TEST(SanityTest, NoticesAnIgnoredDeadline) {
  const Trial run = sanity("--only deadline " + zoo("hangs"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("FAIL  deadline"));
}

TEST(SanityTest, NoticesACrash) {
  const Trial run = sanity("--only provision-10 " + zoo("crashes"));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("provision answered crashed"));
}

TEST(SanityTest, ReportsWhyAPluginDoesNotLoad) {
  const Trial run = sanity(zoo("wrong_version"));
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("ABI version 2"), HasSubstr("0 passed, 1 failed")));
}

TEST(SanityTest, RefusesWrongFlags) {
  EXPECT_EQ(sanity("").status, 64);
  EXPECT_EQ(sanity("--core much " + zoo("good")).status, 64);
  const Trial unknown = sanity("--only identity --only no-such-check " + zoo("good"));
  EXPECT_EQ(unknown.status, 64);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("there is no check no-such-check; known are identity, capabilities,"),
                                    HasSubstr("nothing-left")));
  EXPECT_EQ(sanity("--help").status, 0);
}

TEST(SanityTest, TriesAClassWithItsParameters) {
  const Trial run = sanity("--cycles 300 --core 100 --memory 4294967296 --cards 2 --param isolation=hami-core " +
                           builtIn("gpushare"));
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("26 passed, 0 failed"));
}

}  // namespace
}  // namespace egpu::plugin
