// Reflectors: streamed initial lists, watches that end, break and lose their history, bookmarks.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "controller/kube/line_framer.h"
#include "controller/kube/reflector.h"
#include "tests/kube/contract/contract_fixture.h"

namespace egpu::kube {
namespace {

using core::Lease;
using std::chrono::seconds;
using v1alpha::ElasticGPUClaim;

/// Names and versions that a reflector delivers, and the number of full replacements.
template <class T>
class Mirror final : public Sink<T> {
 public:
  void beginList() override { listed_.clear(); }
  void listed(const T& object) override { listed_.insert(object.metadata.name); }
  void unlisted(const T& object) override { listed_.erase(object.metadata.name); }
  void endList(const std::string&) override {
    std::lock_guard lock(mutex_);
    world_ = listed_;
    ++replaced_;
    changed_.notify_all();
  }
  void apply(codec::WatchEvent<T>&& event) override {
    std::lock_guard lock(mutex_);
    if (event.type == codec::EventType::deleted) world_.erase(event.object.metadata.name);
    if (event.type == codec::EventType::added || event.type == codec::EventType::modified)
      world_.insert(event.object.metadata.name);
    changed_.notify_all();
  }
  void waitFor(const std::set<std::string>& world) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return world_ == world; });
  }
  void waitForReplaced(int times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return replaced_ >= times; });
  }
  int replaced() const {
    std::lock_guard lock(mutex_);
    return replaced_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> listed_;  // used only by the reflector's thread
  std::set<std::string> world_;
  int replaced_ = 0;
};

class ContractWatch : public ContractTest {
 protected:
  ReflectorOptions options(bool watchList) const {
    ReflectorOptions o;
    o.namespace_ = ns;
    o.watchList = watchList;
    return o;
  }
  /// Numbers of lists and of streamed initial lists.
  std::pair<int, int> listsAndStreams() const {
    int lists = 0, streams = 0;
    for (const auto& target : transport.targets()) {
      if (target.find("watch=true") == std::string::npos && target.find("limit=") != std::string::npos) ++lists;
      if (target.find("sendInitialEvents=true") != std::string::npos) ++streams;
    }
    return {lists, streams};
  }
  template <class T, class Make>
  void follows(bool watchList, Make&& object) {
    make(object("a"));
    make(object("b"));
    Mirror<T> mirror;
    Reflector<T> reflector(client, mirror, options(watchList));
    reflector.start();
    ASSERT_TRUE(reflector.waitForSync());
    mirror.waitFor({"a", "b"});
    make(object("c"));
    ASSERT_TRUE(client.remove<T>({ns, "a"}).ok());
    mirror.waitFor({"b", "c"});
    EXPECT_EQ(mirror.replaced(), 1);
    reflector.stop();
    EXPECT_EQ(listsAndStreams(), watchList ? std::pair(0, 1) : std::pair(1, 0));
  }
};

TEST_F(ContractWatch, StreamedInitialListsOfBuiltInKinds) {
  follows<Lease>(true, [this](const std::string& name) { return lease(name); });
}
TEST_F(ContractWatch, StreamedInitialListsOfCustomKinds) {
  follows<ElasticGPUClaim>(true, [this](const std::string& name) { return claim(name); });
}
TEST_F(ContractWatch, StreamedInitialListsWithoutAWatchCache) {
  follows<core::Event>(true, [this](const std::string& name) { return event(name); });
}
TEST_F(ContractWatch, ListsThenWatchesOfBuiltInKinds) {
  follows<Lease>(false, [this](const std::string& name) { return lease(name); });
}
TEST_F(ContractWatch, ListsThenWatchesOfCustomKinds) {
  follows<ElasticGPUClaim>(false, [this](const std::string& name) { return claim(name); });
}

TEST_F(ContractWatch, ABrokenWatchGoesOnWhereItWas) {
  make(lease("a"));
  Mirror<Lease> mirror;
  Reflector<Lease> reflector(client, mirror, options(false));
  reflector.start();
  mirror.waitFor({"a"});
  transport.cut();
  make(lease("b"));
  ASSERT_TRUE(client.remove<Lease>({ns, "a"}).ok());
  transport.join();
  mirror.waitFor({"b"});
  EXPECT_EQ(mirror.replaced(), 1);
}

TEST_F(ContractWatch, AWatchWhoseHistoryIsForgottenListsAnewAndReportsWhatVanished) {
  for (const bool watchList : {false, true}) {
    make(event("a"));
    make(event("b"));
    Mirror<core::Event> mirror;
    Reflector<core::Event> reflector(client, mirror, options(watchList));
    reflector.start();
    mirror.waitFor({"a", "b"});
    transport.cut();
    ASSERT_TRUE(client.remove<core::Event>({ns, "a"}).ok());
    make(event("c"));
    server.compact();
    transport.join();
    mirror.waitForReplaced(2);
    mirror.waitFor({"b", "c"});
    reflector.stop();
    for (const char* name : {"b", "c"}) ASSERT_TRUE(client.remove<core::Event>({ns, name}).ok());
  }
}

/// The lines of one watch, until it ends.
struct Lines {
  base::Result<HttpResponse> end = base::Status(base::Code::internal, "not yet");
  std::vector<codec::WatchEvent<ElasticGPUClaim>> events;
};
Lines watch(
    Transport& transport, const std::string& target, const std::function<void()>& onEvent = [] {}) {
  HttpRequest request;
  request.target = target;
  request.headers = {{"Accept", "application/json"}};
  Lines out;
  LineFramer framer;
  out.end = transport.stream(request,
                             [&](std::string_view chunk) {
                               return framer.feed(chunk, [&](std::string_view line) {
                                 auto event = codec::decodeWatchEvent<ElasticGPUClaim>(line);
                                 EXPECT_TRUE(event.ok()) << event.status().str();
                                 if (!event) return false;
                                 out.events.push_back(std::move(*event));
                                 onEvent();
                                 return true;
                               });
                             },
                             {});
  return out;
}

TEST_F(ContractWatch, AQuietWatchGetsABookmarkAndEndsCleanlyAtItsTime) {
  const auto made = make(claim("a"));
  make(claim("b"));
  auto elsewhere = claim("c");  // a change for which the watch has no event
  elsewhere.metadata.namespace_ = server.makeNamespace();
  ElasticGPUClaim later;
  const auto seen = watch(
      transport,
      Client::path(core::kindOf<ElasticGPUClaim>, ns) +
          "?watch=true&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion=" + made.metadata.resourceVersion,
      [&] {
        if (!later.metadata.uid.empty()) return;
        Client other(*direct, clock, random, metrics);
        auto created = other.create(elsewhere);
        ASSERT_TRUE(created.ok()) << created.status().str();
        later = *created;
      });
  ASSERT_TRUE(seen.end.ok()) << seen.end.status().str();
  EXPECT_EQ(seen.end->status, 200);
  ASSERT_GE(seen.events.size(), 2U);
  EXPECT_EQ(seen.events[0].type, codec::EventType::added);
  EXPECT_EQ(seen.events[0].object.metadata.name, "b");
  const auto& last = seen.events.back();
  EXPECT_EQ(last.type, codec::EventType::bookmark);
  EXPECT_GE(std::stoull(last.object.metadata.resourceVersion), std::stoull(later.metadata.resourceVersion));
}

TEST_F(ContractWatch, InitialEventsEndWithTheirMark) {
  make(claim("a"));
  const std::string path = Client::path(core::kindOf<ElasticGPUClaim>, ns);
  const auto seen = watch(transport, path +
                                         "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                                         "&allowWatchBookmarks=true&timeoutSeconds=1");
  ASSERT_TRUE(seen.end.ok()) << seen.end.status().str();
  ASSERT_GE(seen.events.size(), 2U);
  EXPECT_EQ(seen.events[0].object.metadata.name, "a");
  EXPECT_EQ(seen.events[1].type, codec::EventType::bookmark);
  EXPECT_TRUE(seen.events[1].initialEventsEnd);
  EXPECT_FALSE(seen.events[1].object.metadata.resourceVersion.empty());
  const auto half = watch(transport, path + "?watch=true&sendInitialEvents=true&timeoutSeconds=1");
  ASSERT_TRUE(half.end.ok());
  EXPECT_EQ(half.end->status, 422);  // without resourceVersionMatch
}

TEST_F(ContractWatch, InitialEventsAtAVersionThatIsTooHighAreRefused) {
  const auto seen = watch(transport, Client::path(core::kindOf<ElasticGPUClaim>, ns) +
                                         "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                                         "&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=99999999");
  base::Status status = seen.end.status();
  if (seen.end && seen.end->status != 200) status = codec::decodeStatus(seen.end->status, seen.end->body);
  if (!seen.events.empty()) status = seen.events.back().error;  // or reported within the stream
  EXPECT_EQ(status.code(), base::Code::tooLarge) << status.str();
}

TEST_F(ContractWatch, AWatchFromAVersionToComeIsAcceptedAndSilent) {
  make(claim("a"));
  const auto seen = watch(transport, Client::path(core::kindOf<ElasticGPUClaim>, ns) +
                                         "?watch=true&allowWatchBookmarks=true&timeoutSeconds=3"
                                         "&resourceVersion=99999999");
  ASSERT_TRUE(seen.end.ok()) << seen.end.status().str();
  EXPECT_EQ(seen.end->status, 200);
  EXPECT_TRUE(seen.events.empty());
}

TEST_F(ContractWatch, SelectorsMapChangesToAddedAndDeleted) {
  make(lease("a"));
  Mirror<Lease> mirror;
  auto selected = options(true);
  selected.labelSelector = "team=x";
  Reflector<Lease> reflector(client, mirror, selected);
  reflector.start();
  ASSERT_TRUE(reflector.waitForSync());
  ASSERT_TRUE(merge<Lease>("a", R"({"metadata":{"labels":{"team":"x"}}})").ok());
  mirror.waitFor({"a"});
  ASSERT_TRUE(merge<Lease>("a", R"({"metadata":{"labels":{"team":"y"}}})").ok());
  mirror.waitFor({});
}

}  // namespace
}  // namespace egpu::kube
