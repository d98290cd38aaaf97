// Watches: start version, selection, bookmarks, the end of history.
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;

class WatchTest : public ApiTest {
 protected:
  void SetUp() override {
    Options o;
    o.historyLength = 100;
    start(std::move(o));
  }
  std::string label(const std::string& name, const Json& value) {
    return merge(kClaims + "/" + name, {{"metadata", {{"labels", {{"x", value}}}}}}).version();
  }
};

TEST_F(WatchTest, WithoutAVersionItBeginsWithWhatIs) {
  make(kClaims, claim("a"));
  make(kClaims, claim("b"));
  for (std::string from : {"", "&resourceVersion=0"}) {
    WatchClient w = watch(kClaims + "?watch=true" + from);
    EXPECT_EQ(w.word(), "ADDED a");
    EXPECT_EQ(w.word(), "ADDED b");
    label("a", from.empty() ? "1" : "2");
    EXPECT_EQ(w.word(), "MODIFIED a");
  }
}

TEST_F(WatchTest, FromAVersionItGivesWhatCameAfter) {
  make(kClaims, claim("a"));
  const std::string from = get(kClaims).version();
  make(kClaims, claim("b"));
  label("a", "1");
  call("DELETE", kClaims + "/a");
  WatchClient w = watch(kClaims + "?watch=1&resourceVersion=" + from);
  Json added = w.next();
  EXPECT_EQ(added["type"], "ADDED");
  EXPECT_EQ(added["object"], get(kClaims + "/b").body);
  EXPECT_EQ(w.word(), "MODIFIED a");
  Json deleted = w.next();
  EXPECT_EQ(deleted["type"], "DELETED");
  EXPECT_EQ(deleted["object"]["metadata"]["labels"]["x"], "1");
  EXPECT_EQ(deleted["object"]["metadata"]["resourceVersion"], std::to_string(server->resourceVersion()));
}

TEST_F(WatchTest, WakesForWhatHappensLater) {
  WatchClient w = watch(kClaims + "?watch=true&resourceVersion=" + std::to_string(server->resourceVersion()));
  std::jthread later([&] { make(kClaims, claim("a")); });
  EXPECT_EQ(w.word(), "ADDED a");
}

TEST_F(WatchTest, SelectorsMapChangesToAddedAndDeleted) {
  make(kClaims, claim("a"));
  WatchClient w = watch(kClaims + "?watch=true&labelSelector=x%3D1&resourceVersion=" + get(kClaims).version());
  label("a", "1");
  EXPECT_EQ(w.word(), "ADDED a");
  merge(kClaims + "/a", {{"metadata", {{"annotations", {{"n", "1"}}}}}});
  EXPECT_EQ(w.word(), "MODIFIED a");
  std::string left = label("a", "2");
  Json gone = w.next();
  EXPECT_EQ(gone["type"], "DELETED");
  EXPECT_EQ(gone["object"]["metadata"]["labels"]["x"], "1");
  EXPECT_EQ(gone["object"]["metadata"]["resourceVersion"], left);
  call("DELETE", kClaims + "/a");
  make(kClaims, claim("b", {{"labels", {{"x", "1"}}}}));
  EXPECT_EQ(w.word(), "ADDED b");
  WatchClient byName = watch(kClaims + "?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=0");
  EXPECT_EQ(byName.word(), "ADDED b");
  WatchClient elsewhere =
      watch("/apis/elasticgpu.io/v1alpha/namespaces/kube-system/elasticgpuclaims?watch=true&timeoutSeconds=0");
  EXPECT_EQ(elsewhere.word(), "END");
}

TEST_F(WatchTest, TimesOut) {
  make(kClaims, claim("a"));
  WatchClient w = watch(kClaims + "?watch=true&timeoutSeconds=0&resourceVersion=0");
  EXPECT_EQ(w.word(), "ADDED a");
  EXPECT_EQ(w.word(), "END");
}

TEST_F(WatchTest, Bookmarks) {
  Options o;
  o.bookmarkInterval = std::chrono::milliseconds(1);
  start(std::move(o));
  make(kPods, pod("elsewhere"));
  const std::string from = get(kClaims).version();
  WatchClient w = watch(kClaims + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + from);
  make(kPods, pod("another"));
  Json b = w.next();
  EXPECT_EQ(b["type"], "BOOKMARK");
  EXPECT_EQ(b["object"]["kind"], "ElasticGPUClaim");
  EXPECT_EQ(b["object"]["metadata"]["resourceVersion"], std::to_string(server->resourceVersion()));
}

TEST_F(WatchTest, WatchListMarksTheEndOfTheInitialEvents) {
  make(kClaims, claim("a"));
  const std::string query =
      "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
  WatchClient w = watch(kClaims + query);
  EXPECT_EQ(w.word(), "ADDED a");
  Json b = w.next();
  EXPECT_EQ(b["type"], "BOOKMARK");
  EXPECT_EQ(b["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  EXPECT_EQ(b["object"]["metadata"]["resourceVersion"], std::to_string(server->resourceVersion()));
  make(kClaims, claim("b"));
  EXPECT_EQ(w.word(), "ADDED b");
  EXPECT_EQ(get(kClaims + "?watch=true&sendInitialEvents=true").status, 422);
  EXPECT_EQ(get(kClaims + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").status, 422);
  EXPECT_EQ(get(kClaims + "?watch=true&resourceVersionMatch=NotOlderThan").status, 422);
}

TEST_F(WatchTest, ForgottenHistoryIsAnErrorEvent) {
  make(kClaims, claim("a"));
  const std::string from = get(kClaims).version();
  make(kClaims, claim("b"));
  WatchClient running = watch(kClaims + "?watch=true&resourceVersion=" + get(kClaims).version());
  server->compact();
  WatchClient w = watch(kClaims + "?watch=true&resourceVersion=" + from);
  Json e = w.next();
  EXPECT_EQ(e["type"], "ERROR");
  EXPECT_EQ(e["object"]["kind"], "Status");
  EXPECT_EQ(e["object"]["code"], 410);
  EXPECT_EQ(e["object"]["reason"], "Expired");
  EXPECT_THAT(e["object"]["message"], HasSubstr("too old resource version: " + from));
  EXPECT_EQ(w.word(), "END");
  make(kClaims, claim("c"));
  EXPECT_EQ(running.word(), "ADDED c");
}

TEST_F(WatchTest, FromAVersionToComeItIsSilentUntilThen) {
  Options o;
  o.bookmarkInterval = std::chrono::milliseconds(1);
  start(std::move(o));
  const std::string from = std::to_string(server->resourceVersion() + 2);
  WatchClient w = watch(kClaims + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + from);
  WatchClient ending = watch(kClaims + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=" + from);
  EXPECT_EQ(make(kClaims, claim("a")).version(), std::to_string(std::stoull(from) - 1));
  EXPECT_EQ(ending.word(), "END");
  EXPECT_EQ(make(kClaims, claim("b")).version(), from);
  make(kClaims, claim("c"));
  EXPECT_EQ(w.word(), "ADDED c");
  EXPECT_EQ(get(kClaims + "?resourceVersion=99999").status, 504);
  EXPECT_EQ(
      get(kClaims + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                    "&resourceVersion=99999")
          .status,
      504);
}

TEST_F(WatchTest, AWatchThatFallsBehindTheHistoryGetsAnError) {
  make(kClaims, claim("a"));
  WatchClient slow = watch(kClaims + "?watch=true&resourceVersion=" + get(kClaims).version());
  for (int i = 0; i < 150; ++i) label("a", std::to_string(i));
  EXPECT_EQ(slow.word(), "ERROR");
  EXPECT_EQ(slow.word(), "END");
}

TEST_F(WatchTest, ShapesAndVersions) {
  make(kClaims, claim("a"));
  WatchClient newer = watch("/apis/elasticgpu.io/v1alpha1/elasticgpuclaims?watch=true");
  EXPECT_EQ(newer.next()["object"]["apiVersion"], "elasticgpu.io/v1alpha1");
  Reply r = ask(*server, "GET", kClaims + "?watch=true", "", "", "application/json;as=Table;v=v1;g=meta.k8s.io");
  EXPECT_EQ(r.raw.contentType, "application/json;stream=watch");
  WatchClient table(std::move(r.raw.stream));
  EXPECT_EQ(table.next()["object"]["kind"], "Table");
}

// Events reach every watcher once and in order, for concurrent writers.
TEST_F(WatchTest, ManyWritersOneOrder) {
  Options o;
  o.historyLength = 10'000;
  start(std::move(o));
  WatchClient w = watch(kClaims + "?watch=true&resourceVersion=" + std::to_string(server->resourceVersion()));
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < 8; ++t)
      writers.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) make(kClaims, claim("c" + std::to_string(t) + "-" + std::to_string(i)));
      });
  }
  uint64_t last = 0;
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    Json e = w.next();
    uint64_t v = std::stoull(e["object"]["metadata"]["resourceVersion"].get<std::string>());
    EXPECT_GT(v, last);
    last = v;
    seen.insert(e["object"]["metadata"]["name"]);
  }
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_EQ(last, server->resourceVersion());
}

}  // namespace
}  // namespace egpu::apiserver
