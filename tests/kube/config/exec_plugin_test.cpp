#include "controller/kube/config/exec_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "controller/kube/config/base64.h"
#include "tests/kube/config/plugin_script.h"

namespace egpu::kube {
namespace {

using base::Code;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

class ExecPluginTest : public PluginFolder {
 protected:
  base::Result<codec::ExecCredential> run(const ExecPlugin& plugin, ExecLimits limits = {}) const {
    return runExecPlugin(plugin, endpoint, limits, {});
  }
  std::string failure(const ExecPlugin& plugin, ExecLimits limits = {}) const {
    const auto got = run(plugin, limits);
    EXPECT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), Code::unavailable);
    return got.status().message();
  }
  std::string printing(const std::string& text) const { return "cat '" + write("answer", text) + "'"; }
  Endpoint endpoint;
};

TEST_F(ExecPluginTest, GetsArgumentsVariablesAndReportsItsCredential) {
  auto plugin =
      script("echo \"$@|$GREETING|$HOME\" >'" + folder.string() + "/seen'; echo chatter >&2; read line && exit 9\n" +
             printing(execAnswer(R"({"token":"t","expirationTimestamp":"2026-01-02T03:04:05Z"})")));
  plugin.args = {"get", "a b"};
  plugin.env = {{"GREETING", "hello"}, {"HOME", "/elsewhere"}};  // its own variables override the process's
  const auto got = run(plugin);
  ASSERT_TRUE(got.ok()) << got.status().str();
  EXPECT_EQ(got->token, "t");
  EXPECT_EQ(got->expirationTimestamp, "2026-01-02T03:04:05Z");
  EXPECT_EQ(readText(folder / "seen"), "get a b|hello|/elsewhere\n");
}

TEST_F(ExecPluginTest, GetsTheClusterOnlyIfItWants) {
  endpoint.server = "https://h:6443";
  endpoint.tlsServerName = "api";
  endpoint.caFile = write("ca.crt", "CA TEXT");
  endpoint.configuredProxyUrl = "http://p:3128";
  auto plugin = script("printf %s \"$KUBERNETES_EXEC_INFO\" >'" + folder.string() + "/info'\n" +
                       printing(execAnswer(R"({"token":"t"})")));
  plugin.clusterConfig = R"({"audience":"x"})";
  ASSERT_TRUE(run(plugin).ok());
  EXPECT_EQ(readText(folder / "info"),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}})");
  plugin.provideClusterInfo = true;
  ASSERT_TRUE(run(plugin).ok());
  const std::string info = readText(folder / "info");
  for (const std::string& part :
       {std::string(R"("server":"https://h:6443")"), std::string(R"("tls-server-name":"api")"),
        R"("certificate-authority-data":")" + encodeBase64("CA TEXT") + "\"",
        std::string(R"("proxy-url":"http://p:3128")"), std::string(R"("config":{"audience":"x"})")})
    EXPECT_THAT(info, HasSubstr(part));
}

TEST_F(ExecPluginTest, ABareNameIsSearchedInPath) {
  ExecPlugin plugin = script(printing(execAnswer(R"({"token":"t"})")));
  plugin.command = "sh";
  plugin.args = {"-c", "cat '" + (folder / "answer").string() + "'"};
  EXPECT_TRUE(run(plugin).ok()) << run(plugin).status().str();
}

TEST_F(ExecPluginTest, AMissingCommandReportsHowToGetIt) {
  ExecPlugin plugin;
  plugin.command = "no-such-login-command";
  EXPECT_EQ(failure(plugin), "credential plugin no-such-login-command: no such executable");
  plugin.installHint = "Get it from https://login.example\n";
  EXPECT_EQ(failure(plugin),
            "credential plugin no-such-login-command: no such executable\n\nGet it from https://login.example");
  plugin.command = write("text", "not executable");
  EXPECT_THAT(failure(plugin), HasSubstr("no such executable"));
}

TEST_F(ExecPluginTest, AFailureIsReportedWithItsLastWords) {
  EXPECT_THAT(failure(script("echo secret; echo 'please\n log in' >&2; exit 7")),
              HasSubstr("/login: exited with status 7: please  log in"));
  EXPECT_THAT(failure(script("kill -9 $$")), HasSubstr("was killed by signal 9"));
  EXPECT_THAT(failure(script("echo secret")), AllOf(HasSubstr("not a JSON object"), Not(HasSubstr("secret"))));
  EXPECT_THAT(failure(script("")), HasSubstr("not a JSON object"));
  EXPECT_THAT(failure(script("yes long | head -c 100000 >&2; exit 1")).size(), ::testing::Lt(2000U));
}

TEST_F(ExecPluginTest, OneThatHangsIsKilledWithAllItStarted) {
  ExecLimits limits;
  limits.time = milliseconds(200);
  const auto plugin = script("sleep 1000 & echo $! >'" + folder.string() + "/child'; echo waiting >&2; wait");
  EXPECT_THAT(failure(plugin, limits), HasSubstr("no answer within 200 ms, killed: waiting"));
  const pid_t child = std::atoi(readText(folder / "child").c_str());
  ASSERT_GT(child, 0);
  // A zombie that init has not reaped yet counts as dead.
  const auto alive = [&] {
    const std::string stat = readText("/proc/" + std::to_string(child) + "/stat");
    const auto name = stat.rfind(')');
    return name != std::string::npos && stat.substr(name + 2, 1) != "Z" && stat.substr(name + 2, 1) != "X";
  };
  while (alive()) std::this_thread::yield();
}

TEST_F(ExecPluginTest, WhatItLeavesBehindDoesNotHoldUsUp) {
  // The child keeps the output open; the plugin itself has ended.
  const auto got = run(script("sleep 1000 &\n" + printing(execAnswer(R"({"token":"t"})"))));
  EXPECT_TRUE(got.ok()) << got.status().str();
}

TEST_F(ExecPluginTest, FloodsAreCut) {
  ExecLimits limits;
  limits.output = 10'000;
  EXPECT_THAT(failure(script("yes"), limits), HasSubstr("printed more than 10000 bytes"));
  EXPECT_TRUE(run(script("yes | head -c 1000000 >&2; " + printing(execAnswer(R"({"token":"t"})")))).ok());
}

TEST_F(ExecPluginTest, AStopEndsIt) {
  const auto plugin = script("echo up >'" + folder.string() + "/up'; sleep 1000");
  std::jthread running([&](std::stop_token stop) {
    EXPECT_EQ(runExecPlugin(plugin, endpoint, {}, stop).status().code(), Code::cancelled);
  });
  while (readText(folder / "up").empty()) std::this_thread::yield();
  running.request_stop();
  running.join();
}

}  // namespace
}  // namespace egpu::kube
