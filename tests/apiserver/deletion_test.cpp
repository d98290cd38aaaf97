// Deleting: preconditions, finalizers, dependents, namespaces.
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::HasSubstr;

Json finalized(const std::string& name, const Json& finalizers = {"elasticgpu.io/claim"}) {
  return claim(name, {{"finalizers", finalizers}});
}
Json ownedBy(const Reply& owner) {
  return {{"ownerReferences",
           {{{"apiVersion", owner.body["apiVersion"]},
             {"kind", owner.body["kind"]},
             {"name", owner.body["metadata"]["name"]},
             {"uid", owner.uid()}}}}};
}

class DeletionTest : public ApiTest {};

TEST_F(DeletionTest, GoneAtOnceWithoutFinalizers) {
  Reply made = make(kClaims, claim("a"));
  Reply r = call("DELETE", kClaims + "/a");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body["status"], "Success");
  EXPECT_EQ(r.body["details"]["uid"], made.uid());
  EXPECT_EQ(get(kClaims + "/a").status, 404);
  EXPECT_EQ(call("DELETE", kClaims + "/a").status, 404);
  make(kPods, pod("p"));
  EXPECT_EQ(call("DELETE", kPods + "/p", {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"gracePeriodSeconds", 30}})
                .body["kind"],
            "Pod");
  EXPECT_EQ(get(kPods + "/p").status, 404);
}

TEST_F(DeletionTest, Preconditions) {
  Reply made = make(kClaims, claim("a"));
  auto with = [&](const Json& p) {
    return call("DELETE", kClaims + "/a", {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"preconditions", p}});
  };
  EXPECT_EQ(with({{"uid", "other"}}).status, 409);
  EXPECT_EQ(with({{"resourceVersion", "1"}}).reason(), "Conflict");
  EXPECT_EQ(with({{"uid", 5}}).status, 400);
  EXPECT_EQ(with({{"uid", made.uid()}, {"resourceVersion", made.version()}}).status, 200);
  EXPECT_EQ(call("DELETE", kClaims + "/a", {{"kind", "Pod"}}).status, 400);
}

TEST_F(DeletionTest, FinalizersHoldTheObjectUntilTheLastIsGone) {
  make(kClaims, finalized("a", {"elasticgpu.io/claim", "example.com/other"}));
  WatchClient w = watch(kClaims + "?watch=true&resourceVersion=" + get(kClaims).version());
  Reply r = call("DELETE", kClaims + "/a");
  EXPECT_EQ(r.body["metadata"]["deletionTimestamp"], base::rfc3339(clock.wall()));
  EXPECT_EQ(r.body["metadata"]["generation"], 2);
  EXPECT_EQ(w.word(), "MODIFIED a");
  const uint64_t before = server->resourceVersion();
  EXPECT_EQ(call("DELETE", kClaims + "/a").status, 200);
  EXPECT_EQ(server->resourceVersion(), before) << "deleting what is being deleted changes nothing";
  Reply more = merge(kClaims + "/a",
                     {{"metadata", {{"finalizers", {"elasticgpu.io/claim", "example.com/other", "example.com/new"}}}}});
  EXPECT_EQ(more.status, 422);
  EXPECT_THAT(
      more.message(),
      HasSubstr("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"));
  Reply undo = merge(kClaims + "/a", {{"metadata", {{"deletionTimestamp", nullptr}}}});
  EXPECT_TRUE(undo.body["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"deletionTimestamp", "2030-01-01T00:00:00Z"}}}}).status, 422);
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"finalizers", {"example.com/other"}}}}}).status, 200);
  EXPECT_EQ(w.word(), "MODIFIED a");
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"finalizers", nullptr}}}}).status, 200);
  EXPECT_EQ(w.word(), "DELETED a");
  EXPECT_EQ(get(kClaims + "/a").status, 404);
}

TEST_F(DeletionTest, DependentsFollowTheirLastOwner) {
  Reply one = make(kClaims, claim("one")), two = make(kClaims, claim("two"));
  make(kPods,
       pod("both", {{"ownerReferences", {ownedBy(one)["ownerReferences"][0], ownedBy(two)["ownerReferences"][0]}}}));
  Reply middle = make(kPods, pod("middle", ownedBy(one)));
  make(kPods, pod("leaf", ownedBy(middle)));
  make(kPods, pod("held", [&] {
         Json m = ownedBy(one);
         m["finalizers"] = {"elasticgpu.io/resource-claim"};
         return m;
       }()));
  call("DELETE", kClaims + "/one");
  EXPECT_EQ(get(kPods + "/middle").status, 404);
  EXPECT_EQ(get(kPods + "/leaf").status, 404);
  EXPECT_TRUE(get(kPods + "/held").body["metadata"].contains("deletionTimestamp"));
  Reply both = get(kPods + "/both");
  ASSERT_EQ(both.status, 200);
  EXPECT_EQ(both.body["metadata"]["ownerReferences"].size(), 1u);
  call("DELETE", kClaims + "/two");
  EXPECT_EQ(get(kPods + "/both").status, 404);
}

TEST_F(DeletionTest, DependentsFollowWhenTheLastFinalizerGoes) {
  Reply owner = make(kClaims, finalized("a"));
  make(kPods, pod("p", ownedBy(owner)));
  call("DELETE", kClaims + "/a");
  EXPECT_EQ(get(kPods + "/p").status, 200);
  merge(kClaims + "/a", {{"metadata", {{"finalizers", Json::array()}}}});
  EXPECT_EQ(get(kPods + "/p").status, 404);
}

TEST_F(DeletionTest, AnOwnerThatIsNotThereTakesItsDependentAlong) {
  Reply owner = make(kClaims, claim("a"));
  call("DELETE", kClaims + "/a");
  EXPECT_EQ(call("POST", kPods, pod("late", ownedBy(owner))).status, 201);
  EXPECT_EQ(get(kPods + "/late").status, 404);
}

TEST_F(DeletionTest, OrphansStay) {
  Reply owner = make(kClaims, claim("a"));
  make(kPods, pod("p", ownedBy(owner)));
  EXPECT_EQ(call("DELETE", kClaims + "/a?propagationPolicy=Orphan").status, 200);
  Reply p = get(kPods + "/p");
  EXPECT_EQ(p.status, 200);
  EXPECT_FALSE(p.body["metadata"].contains("ownerReferences"));
  EXPECT_EQ(call("DELETE", kPods + "/p?propagationPolicy=Sideways").status, 422);
}

TEST_F(DeletionTest, CollectionsBySelector) {
  for (const char* n : {"a", "b", "c"})
    make(kClaims, claim(n, {{"labels", {{"keep", std::string(n) == "b" ? "yes" : "no"}}}}));
  Reply r = call("DELETE", kClaims + "?labelSelector=keep%3Dno");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body["items"].size(), 2u);
  EXPECT_EQ(get(kClaims).body["items"].size(), 1u);
}

TEST_F(DeletionTest, ANamespaceGoesWithItsContents) {
  const std::string claims = "/apis/elasticgpu.io/v1alpha/namespaces/team/elasticgpuclaims";
  make("/api/v1/namespaces", nsObject("team"));
  make(claims, claim("free"));
  make(claims, finalized("held"));
  Reply r = call("DELETE", "/api/v1/namespaces/team");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body["status"]["phase"], "Terminating");
  EXPECT_EQ(get(claims + "/free").status, 404);
  EXPECT_TRUE(get(claims + "/held").body["metadata"].contains("deletionTimestamp"));
  Reply refused = call("POST", claims, claim("late"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
  EXPECT_THAT(refused.message(),
              HasSubstr("unable to create new content in namespace team because it is being terminated"));
  merge(claims + "/held", {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_EQ(get("/api/v1/namespaces/team").status, 404);
  EXPECT_EQ(call("POST", claims, claim("late")).status, 404);
  EXPECT_EQ(call("DELETE", "/api/v1/namespaces/default").status, 403);
}

TEST_F(DeletionTest, EventsGoAnHourAfterTheirLastWrite) {
  const std::string events = "/api/v1/namespaces/default/events";
  const auto event = [&](const std::string& name) {
    return Json{{"metadata", {{"name", name}, {"namespace", "default"}}},
                {"involvedObject", {{"kind", "Pod"}, {"namespace", "default"}, {"name", "p"}}},
                {"lastTimestamp", base::rfc3339(clock.wall())}};
  };
  const auto names = [&] {
    std::string all;
    const auto listed = get(events);
    for (const auto& each : listed.body.at("items")) all += each["metadata"]["name"].get<std::string>() + " ";
    return all;
  };
  make(events, event("old"));
  make(events, event("repeated"));
  clock.advance(std::chrono::minutes(40));
  EXPECT_EQ(merge(events + "/repeated", {{"lastTimestamp", base::rfc3339(clock.wall())}}).status, 200);
  make(events, event("new"));
  EXPECT_EQ(names(), "new old repeated ");
  clock.advance(std::chrono::minutes(25));
  EXPECT_EQ(names(), "new repeated ");
  clock.advance(std::chrono::minutes(61));
  EXPECT_EQ(names(), "");
}

}  // namespace
}  // namespace egpu::apiserver
