#include "controller/base/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

namespace egpu::base {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
constexpr milliseconds kLong{30'000};

std::string readAll(const Subprocess& process) {
  std::string out;
  char chunk[1024];
  for (;;) {
    pollfd p{process.output(), POLLIN, 0};
    if (poll(&p, 1, 30'000) <= 0) return out + "(nothing more came)";
    const ssize_t n = read(process.output(), chunk, sizeof chunk);
    if (n <= 0) return out;
    out.append(chunk, static_cast<std::size_t>(n));
  }
}

Result<Subprocess> shell(const std::string& script, int channel = -1) {
  Subprocess::Options options;
  options.argv = {"/bin/sh", "-c", script};
  options.env = {"GREETING=hello"};
  options.channel = channel;
  return Subprocess::spawn(options);
}

bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string field;
  for (int i = 0; i < 3; ++i) stat >> field;
  return stat && field != "Z" && field != "X";
}

TEST(SubprocessTest, GivesTheEnvironmentAndTakesBothOutputs) {
  auto p = shell("echo \"$GREETING\"; echo oops >&2; test -z \"$HOME\" && exit 3");
  ASSERT_TRUE(p.ok()) << p.status().str();
  EXPECT_EQ(readAll(*p), "hello\noops\n");
  EXPECT_EQ(p->finish(kLong), "exited with status 3");
}

TEST(SubprocessTest, ErrorsCanGoElsewhere) {
  auto errors = socketPair();
  ASSERT_TRUE(errors.ok());
  Subprocess::Options options;
  options.argv = {"/bin/sh", "-c", "echo out; echo oops >&2"};
  options.errors = errors->second.get();
  auto p = Subprocess::spawn(options);
  ASSERT_TRUE(p.ok()) << p.status().str();
  EXPECT_EQ(readAll(*p), "out\n");
  EXPECT_EQ(p->finish(kLong), "exited with status 0");
  char text[16] = {};
  EXPECT_EQ(read(errors->first.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "oops\n");
}

TEST(SubprocessTest, ReportsWhichSignalKilled) {
  auto p = shell("kill -TERM $$; sleep 100");
  ASSERT_TRUE(p.ok());
  EXPECT_THAT(p->finish(kLong), HasSubstr("was killed by signal 15"));
}

TEST(SubprocessTest, WhatCannotBeRunIsAnError) {
  Subprocess::Options options;
  options.argv = {"/nonexistent/program"};
  const auto p = Subprocess::spawn(options);
  ASSERT_FALSE(p.ok());
  EXPECT_THAT(p.status().message(), HasSubstr("/nonexistent/program: No such file"));
}

TEST(SubprocessTest, TheChannelIsDescriptorThree) {
  auto sockets = socketPair();
  ASSERT_TRUE(sockets.ok());
  auto p = shell("echo over the channel >&3", sockets->second.get());
  ASSERT_TRUE(p.ok());
  sockets->second.reset();
  pollfd ready{sockets->first.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 30'000), 1);
  char text[64];
  const ssize_t n = recv(sockets->first.get(), text, sizeof text, 0);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))), "over the channel\n");
}

TEST(SubprocessTest, TheWholeGroupIsKilled) {
  auto p = shell("sleep 1000 & echo $!; wait");
  ASSERT_TRUE(p.ok());
  pollfd ready{p->output(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 30'000), 1);
  char text[64] = {};
  ASSERT_GT(read(p->output(), text, sizeof text - 1), 0);
  const pid_t grandchild = static_cast<pid_t>(atoi(text));
  ASSERT_GT(grandchild, 0);
  EXPECT_THAT(p->finish(milliseconds(0)), HasSubstr("killed by signal 9"));
  for (int i = 0; i < 30'000 && alive(grandchild); ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(alive(grandchild));
}

/// Acts as the first process of a container: adopts orphaned descendants.
struct Adopts {
  Adopts() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Adopts() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

TEST(SubprocessTest, NoDescendantIsLeftAsAZombie) {
  const Adopts adopts;
  for (const char* end : {"wait", "exit", "kill -9 $$"}) {
    auto p = shell("(sleep 1000 & true &); (sleep 1000 & sleep 1000) & sleep 1000 & echo up; " + std::string(end));
    ASSERT_TRUE(p.ok());
    pollfd ready{p->output(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 30'000), 1);
    p->finish(std::strcmp(end, "wait") == 0 ? milliseconds(0) : kLong);
    int status;
    EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1) << end;
    EXPECT_EQ(errno, ECHILD) << end;
  }
}

TEST(SubprocessTest, DestructionReaps) {
  { ASSERT_TRUE(shell("sleep 1000").ok()); }
  int status;
  EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1);
}

TEST(SubprocessTest, TheChildDiesWithItsParentEvenByKill9) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto p = shell("sleep 1000");
    const pid_t pid = p.ok() ? p->pid() : -1;
    [[maybe_unused]] const auto n = write(pipe[1], &pid, sizeof pid);
    for (;;) pause();
  }
  pid_t child = -1;
  ASSERT_EQ(read(pipe[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ASSERT_GT(child, 0);
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  int status;
  waitpid(parent, &status, 0);
  for (int i = 0; i < 30'000 && alive(child); ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(alive(child));
  close(pipe[0]);
  close(pipe[1]);
}

}  // namespace
}  // namespace egpu::base
