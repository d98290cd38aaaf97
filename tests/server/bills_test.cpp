// Bills over HTTP, from journals as the controller writes them.
#include "controller/server/bills.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/journal/watched_cluster.h"

namespace egpu::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

http::Response get(Bills& bills, const std::string& query, bool whole = true) {
  http::Request request;
  request.method = "GET";
  request.path = "/bill";
  request.query = query;
  return bills.answer(request, whole, {});
}

/// A card, half of which the claim ns/a has for 10 s.
class BillsTest : public ::testing::Test {
 protected:
  BillsTest() {
    cluster.node("n");
    cluster.card("c", "n");
    cluster.claim("a");
    const auto ask = journal::WatchedCluster::ask("a", 500);
    cluster.bind(ask, cluster.view.decideAndAssume(ask));
    cluster.clock.advance(std::chrono::seconds(10));
    cluster.card("later", "n", 1);  // a record with the time
    cluster.journal->flush();
  }
  journal::WatchedCluster cluster;
  Bills bills{cluster.folder(), {}};
};

TEST_F(BillsTest, AnswersInThreeFormats) {
  const auto json = get(bills, "by=claim");
  EXPECT_EQ(json.status, 200) << json.body;
  EXPECT_THAT(json.body, HasSubstr(R"("cardMilliseconds":10000,)"));
  EXPECT_THAT(json.body, HasSubstr(R"({"state":"claim","namespace":"ns","claim":"a","cardMilliseconds":5000,)"));
  const auto csv = get(bills, "format=csv&by=namespace&headers=false&price=3600");
  EXPECT_EQ(csv.contentType, "text/csv");
  EXPECT_THAT(csv.body, HasSubstr(",claim,ns,5.000,,5.000000\n"));
  EXPECT_THAT(get(bills, "format=opencost&price=1").body, HasSubstr(R"("egpu_claim":"a")"));
}

TEST_F(BillsTest, ATenantSeesRowsOfItsNamespaceOnly) {
  const auto own = get(bills, "namespace=ns&by=claim", false);
  EXPECT_THAT(own.body, HasSubstr(R"("claim":"a","cardMilliseconds":5000)"));
  EXPECT_THAT(own.body, Not(HasSubstr("idle")));
  EXPECT_THAT(own.body, Not(HasSubstr(R"("cardMilliseconds":10000)"))) << "the number of cards is not the tenant's";
  EXPECT_THAT(get(bills, "namespace=other", false).body, HasSubstr(R"("rows":[])"));
  EXPECT_EQ(get(bills, "", false).status, 403);
}

TEST_F(BillsTest, InvalidQuestionsAreRefusedWithTheField) {
  for (const auto& [query, words] :
       std::map<std::string, std::string>{{"from=yesterday", "from: \\\"yesterday\\\" is not a time"},
                                          {"by=team", "by: \\\"team\\\" is unknown; valid are namespace, class"},
                                          {"from=2026-01-02&to=2026-01-01", "to: must be after from"},
                                          {"format=opencost", "price: the format opencost needs"},
                                          {"format=xml", "valid are json, csv, opencost"},
                                          {"price=B%3D1", "there is none for the model"},
                                          {"colour=1", "unknown parameter"}}) {
    const auto refused = get(bills, query);
    EXPECT_EQ(refused.status, 400) << query;
    EXPECT_THAT(refused.body, HasSubstr(words)) << query;
    EXPECT_THAT(refused.body, HasSubstr(R"("kind":"Status")"));
  }
}

TEST_F(BillsTest, TheJournalsOfAllReplicasAreAddedUp) {
  const auto all = std::filesystem::path(cluster.folder()).parent_path();
  std::filesystem::create_directory(all / "empty");
  Bills ofAll({}, all);
  EXPECT_EQ(get(ofAll, "by=claim").body, get(bills, "by=claim").body);
  Bills ofNone({}, (all / "empty").string());
  EXPECT_EQ(get(ofNone, {}).status, 404);
  Bills gone({}, (all / "gone").string());
  EXPECT_EQ(get(gone, {}).status, 503);
}

TEST(Bills, WithoutAJournalTheFlagIsNamed) {
  Bills none({}, {});
  const auto refused = get(none, {});
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("--journal"));
}

TEST_F(BillsTest, AStopEndsTheReading) {
  std::stop_source stop;
  stop.request_stop();
  http::Request request;
  request.path = "/bill";
  EXPECT_EQ(bills.answer(request, true, stop.get_token()).status, 503);
}

}  // namespace
}  // namespace egpu::server
