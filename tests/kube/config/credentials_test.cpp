#include "controller/kube/config/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "controller/kube/config/key_pair.h"
#include "tests/kube/config/plugin_script.h"
#include "tests/kube/transport/certificates.h"

namespace egpu::kube {
namespace {

using base::Code;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;

class CredentialsTest : public PluginFolder {
 protected:
  static std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + hours(1); }
  static CredentialsPtr current(CredentialSource& source) {
    auto got = source.current(soon(), {});
    EXPECT_TRUE(got.ok()) << got.status().str();
    return got ? *got : std::make_shared<const Credentials>();
  }
  static std::string failure(CredentialSource& source) {
    const auto got = source.current(soon(), {});
    EXPECT_EQ(got.status().code(), Code::unavailable);
    return got.status().message();
  }
  Endpoint endpoint;
  base::ManualClock clock;
};

TEST_F(CredentialsTest, NothingIsNothing) {
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(*current(source), Credentials{});
  EXPECT_EQ(source.refused(current(source), soon(), {}), nullptr);
}

TEST_F(CredentialsTest, TokenFileIsReadAgainAfterAMinuteAndWhenRefused) {
  endpoint.tokenFile = write("token", "one\n");
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->token, "one");
  write("token", "two\n");
  clock.advance(seconds(59));
  EXPECT_EQ(current(source)->token, "one");
  clock.advance(seconds(1));
  const auto two = current(source);
  EXPECT_EQ(two->token, "two");
  EXPECT_EQ(source.refused(two, soon(), {}), nullptr);  // the file holds nothing newer
  write("token", "three");
  const auto three = source.refused(two, soon(), {});
  ASSERT_NE(three, nullptr);
  EXPECT_EQ(three->token, "three");
  EXPECT_EQ(source.refused(two, soon(), {}), three);  // another thread was refused with the old one
}

TEST_F(CredentialsTest, WhatCanNotBeReadLeavesWhatWasRead) {
  Authority authority;
  endpoint.tokenFile = write("token", "one");
  endpoint.caFile = write("ca", authority.pem());
  CredentialSource source(endpoint, clock);
  const auto before = current(source);
  for (const char* text : {"", " \n"}) {
    write("token", text);
    clock.advance(seconds(60));
    EXPECT_EQ(current(source), before);
  }
  std::filesystem::remove(endpoint.tokenFile);
  std::filesystem::remove(endpoint.caFile);
  clock.advance(seconds(60));
  EXPECT_EQ(current(source), before);
}

TEST_F(CredentialsTest, WhatWasNeverReadIsAnErrorUntilItIs) {
  endpoint.caFile = (folder / "ca").string();
  endpoint.tokenFile = (folder / "token").string();
  CredentialSource source(endpoint, clock);
  EXPECT_THAT(failure(source), AllOf(HasSubstr("/ca can't be read"), HasSubstr("/token can't be read")));
  write("ca", "CA");
  write("token", "t");
  EXPECT_EQ(current(source)->authorities, "CA");  // without waiting a minute
}

TEST_F(CredentialsTest, SuspicionReadsFilesAtOnce) {
  endpoint.caFile = write("ca", "old");
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->authorities, "old");
  write("ca", "new");
  EXPECT_EQ(current(source)->authorities, "old");
  source.suspect();
  EXPECT_EQ(current(source)->authorities, "new");
}

TEST_F(CredentialsTest, DataWinsOverFiles) {
  endpoint.caData = "data";
  endpoint.caFile = (folder / "missing").string();
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->authorities, "data");
}

TEST_F(CredentialsTest, APairIsTakenWhole) {
  Authority authority;
  const Certificate first = authority.issue("a", ""), second = authority.issue("b", "");
  EXPECT_TRUE(keyFits(first.certificate + authority.pem(), first.key));
  EXPECT_FALSE(keyFits(first.certificate, second.key));
  EXPECT_FALSE(keyFits("rubbish", first.key));
  endpoint.clientCertificateFile = write("c", first.certificate);
  endpoint.clientKeyFile = write("k", first.key);
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->certificate, first.certificate);
  write("c", second.certificate);  // half of the rotation
  clock.advance(seconds(60));
  EXPECT_EQ(current(source)->certificate, first.certificate);
  EXPECT_EQ(current(source)->key, first.key);
  write("k", second.key);
  source.suspect();
  EXPECT_EQ(current(source)->certificate, second.certificate);
  EXPECT_EQ(current(source)->key, second.key);
}

TEST_F(CredentialsTest, APluginIsAskedOnceUntilItsCredentialRunsOut) {
  const std::string ends = base::rfc3339(clock.wall() + seconds(100));
  endpoint.exec = script("n=$(wc -c <'" + folder.string() + "/runs'); echo '" +
                         execAnswer(R"({"token":"t'$n'","expirationTimestamp":")" + ends + R"("})") + "'");
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->token, "t1");
  clock.advance(seconds(99));
  EXPECT_EQ(current(source)->token, "t1");
  EXPECT_EQ(runs(), 1U);
  clock.advance(seconds(1));
  EXPECT_EQ(current(source)->token, "t2");
  EXPECT_EQ(current(source)->token, "t2");  // expired on arrival: used, and requested again a second later
  EXPECT_EQ(runs(), 2U);
  clock.advance(seconds(1));
  EXPECT_EQ(current(source)->token, "t3");
}

TEST_F(CredentialsTest, ARefusedCredentialIsAskedForAgainNoSoonerThanAfterTenSeconds) {
  endpoint.exec =
      script("n=$(wc -c <'" + folder.string() + "/runs'); echo '" + execAnswer(R"({"token":"t'$n'"})") + "'");
  CredentialSource source(endpoint, clock);
  const auto first = current(source);
  const auto second = source.refused(first, soon(), {});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->token, "t2");
  EXPECT_EQ(source.refused(first, soon(), {}), second);  // refused before `second` arrived
  EXPECT_EQ(source.refused(second, soon(), {}), nullptr);
  EXPECT_EQ(runs(), 2U);
  clock.advance(seconds(10));
  EXPECT_EQ(source.refused(second, soon(), {})->token, "t3");
}

TEST_F(CredentialsTest, APluginThatFailsIsLeftAloneForAWhile) {
  endpoint.exec = script("test -e '" + folder.string() + "/good' || { echo no luck >&2; exit 1; }; echo '" +
                         execAnswer(R"({"token":"t"})") + "'");
  CredentialSource source(endpoint, clock);
  EXPECT_THAT(failure(source), HasSubstr("exited with status 1: no luck"));
  EXPECT_THAT(failure(source), HasSubstr("no luck"));
  EXPECT_EQ(runs(), 1U);
  clock.advance(seconds(1));
  EXPECT_THAT(failure(source), HasSubstr("no luck"));
  EXPECT_EQ(runs(), 2U);
  clock.advance(seconds(1));  // the backoff is two seconds now
  EXPECT_THAT(failure(source), HasSubstr("no luck"));
  EXPECT_EQ(runs(), 2U);
  write("good", "");
  clock.advance(seconds(1));
  EXPECT_EQ(current(source)->token, "t");
}

TEST_F(CredentialsTest, APluginsCertificateIsUsed) {
  Authority authority;
  const Certificate pair = authority.issue("a", "");
  std::string certificate, key;
  for (const char c : pair.certificate) certificate += c == '\n' ? std::string("\\n") : std::string(1, c);
  for (const char c : pair.key) key += c == '\n' ? std::string("\\n") : std::string(1, c);
  endpoint.exec = script("cat '" +
                         write("answer", execAnswer(R"({"clientCertificateData":")" + certificate +
                                                    R"(","clientKeyData":")" + key + "\"}")) +
                         "'");
  CredentialSource source(endpoint, clock);
  EXPECT_EQ(current(source)->certificate, pair.certificate);
  EXPECT_EQ(current(source)->key, pair.key);
}

TEST_F(CredentialsTest, AnEndThatIsNoTimeIsAnError) {
  endpoint.exec = script("echo '" + execAnswer(R"({"token":"t","expirationTimestamp":"tomorrow"})") + "'");
  CredentialSource source(endpoint, clock);
  EXPECT_THAT(failure(source), HasSubstr("status.expirationTimestamp is not an RFC 3339 time"));
}

TEST_F(CredentialsTest, ManyAskersOneRun) {
  endpoint.exec = script("echo '" + execAnswer(R"({"token":"t"})") + "'");
  CredentialSource source(endpoint, clock);
  {
    std::vector<std::jthread> askers;
    for (int i = 0; i < 16; ++i) askers.emplace_back([&] { EXPECT_EQ(current(source)->token, "t"); });
  }
  EXPECT_EQ(runs(), 1U);
}

TEST_F(CredentialsTest, AnAskerWithoutTimeLeavesTheRunToTheNext) {
  endpoint.exec = script("while ! test -e '" + folder.string() + "/go'; do sleep 0.01; done; echo '" +
                         execAnswer(R"({"token":"t"})") + "'");
  CredentialSource source(endpoint, clock);
  const auto hasty = source.current(std::chrono::steady_clock::now(), {});
  EXPECT_EQ(hasty.status().code(), Code::unavailable);
  EXPECT_THAT(hasty.status().message(), HasSubstr("has not answered yet"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(source.current(soon(), stop.get_token()).status().code(), Code::cancelled);
  write("go", "");
  EXPECT_EQ(current(source)->token, "t");
  EXPECT_EQ(runs(), 1U);
}

TEST_F(CredentialsTest, ItsEndEndsARunningPlugin) {
  endpoint.exec = script("sleep 1000");
  CredentialSource source(endpoint, clock);
  EXPECT_FALSE(source.current(std::chrono::steady_clock::now(), {}).ok());
}

}  // namespace
}  // namespace egpu::kube
