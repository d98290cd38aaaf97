// Lists: order, selectors, paging on a consistent snapshot, resourceVersion in all its meanings, shapes.
#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names(const Reply& list) {
  std::vector<std::string> out;
  for (const Json& i : list.body.at("items")) out.push_back(i["metadata"]["name"]);
  return out;
}

class ListTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    for (const char* n : {"c", "a", "e", "b", "d"})
      make(kClaims,
           claim(n, {{"labels",
                      {{"name", n}, {"vowel", std::string(n) == "a" || std::string(n) == "e" ? "yes" : "no"}}}}));
  }
  std::vector<std::string> select(const std::string& query) {
    Reply r = get(kClaims + "?" + query);
    EXPECT_EQ(r.status, 200) << r.raw.body;
    return r.status == 200 ? names(r) : std::vector<std::string>();
  }
};

TEST_F(ListTest, IsOrderedAndReportsItsVersion) {
  Reply r = get(kClaims);
  EXPECT_EQ(r.body["kind"], "ElasticGPUClaimList");
  EXPECT_EQ(r.body["apiVersion"], "elasticgpu.io/v1alpha");
  EXPECT_THAT(names(r), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(std::stoull(r.version()), server->resourceVersion());
  EXPECT_THAT(names(get("/apis/elasticgpu.io/v1alpha/elasticgpuclaims")), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(names(get("/apis/elasticgpu.io/v1alpha/namespaces/kube-system/elasticgpuclaims")), IsEmpty());
}

TEST_F(ListTest, LabelSelectors) {
  EXPECT_THAT(select("labelSelector=vowel%3Dyes"), ElementsAre("a", "e"));
  EXPECT_THAT(select("labelSelector=vowel%3D%3Dyes,name!%3Da"), ElementsAre("e"));
  EXPECT_THAT(select("labelSelector=name+in+(a,b),vowel"), ElementsAre("a", "b"));
  EXPECT_THAT(select("labelSelector=name%20notin%20(a,b)"), ElementsAre("c", "d", "e"));
  EXPECT_THAT(select("labelSelector=!vowel"), IsEmpty());
  EXPECT_THAT(select("labelSelector=absent!%3Dx"), ElementsAre("a", "b", "c", "d", "e"));
  for (std::string bad : {"a%3D%3D%3D", "name+in+a)", "%3Db", "x+y", ",", "a(b)"})
    EXPECT_EQ(get(kClaims + "?labelSelector=" + bad).status, 400) << bad;
}

TEST_F(ListTest, FieldSelectors) {
  EXPECT_THAT(select("fieldSelector=metadata.name%3Dc"), ElementsAre("c"));
  EXPECT_THAT(select("fieldSelector=metadata.name!%3Dc,metadata.namespace%3Ddefault"), ElementsAre("a", "b", "d", "e"));
  EXPECT_THAT(select("fieldSelector=status.phase%3D"), ElementsAre("a", "b", "c", "d", "e"));
  Reply r = get(kClaims + "?fieldSelector=spec.nonsense%3D1");
  EXPECT_EQ(r.status, 400);
  EXPECT_THAT(r.message(), HasSubstr("field label not supported: spec.nonsense"));
  Json p = pod("p1");
  p["spec"]["nodeName"] = "n1";
  make(kPods, p);
  make(kPods, pod("p2"));
  EXPECT_THAT(names(get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")), ElementsAre("p1"));
  EXPECT_THAT(names(get("/api/v1/pods?fieldSelector=status.phase%3DPending")), ElementsAre("p1", "p2"));
  make("/api/v1/namespaces/default/events",
       {{"apiVersion", "v1"},
        {"kind", "Event"},
        {"metadata", meta("e")},
        {"reason", "R"},
        {"message", "m"},
        {"type", "Normal"},
        {"involvedObject", {{"kind", "Pod"}, {"name", "p1"}, {"namespace", "default"}, {"uid", "u"}}}});
  EXPECT_THAT(names(get("/api/v1/namespaces/default/"
                        "events?fieldSelector=involvedObject.name%3Dp1,involvedObject.namespace%3Ddefault,"
                        "involvedObject.kind%3DPod,involvedObject.uid%3Du")),
              ElementsAre("e"));
}

TEST_F(ListTest, PagesShowOneSnapshot) {
  Reply first = get(kClaims + "?limit=2");
  EXPECT_THAT(names(first), ElementsAre("a", "b"));
  EXPECT_EQ(first.body["metadata"]["remainingItemCount"], 3);
  std::string token = first.body["metadata"]["continue"];
  // All objects change between the pages; the pages must not.
  call("DELETE", kClaims + "/c");
  make(kClaims, claim("bb"));
  merge(kClaims + "/d", {{"metadata", {{"labels", {{"late", "1"}}}}}});
  Reply second = get(kClaims + "?limit=2&continue=" + token);
  EXPECT_THAT(names(second), ElementsAre("c", "d"));
  EXPECT_FALSE(second.body["items"][1]["metadata"]["labels"].contains("late"));
  EXPECT_EQ(second.version(), first.version());
  Reply third = get(kClaims + "?limit=2&continue=" + second.body["metadata"]["continue"].get<std::string>());
  EXPECT_THAT(names(third), ElementsAre("e"));
  EXPECT_FALSE(third.body["metadata"].contains("continue"));
  EXPECT_THAT(select("limit=2&labelSelector=vowel%3Dyes"), ElementsAre("a", "e"));
  Reply filtered = get(kClaims + "?limit=1&labelSelector=vowel%3Dyes");
  EXPECT_TRUE(filtered.body["metadata"].contains("continue"));
  EXPECT_FALSE(filtered.body["metadata"].contains("remainingItemCount"));
}

TEST_F(ListTest, AForgottenSnapshotIsGone) {
  std::string token = get(kClaims + "?limit=2").body["metadata"]["continue"];
  make(kClaims, claim("x"));
  server->compact();
  Reply r = get(kClaims + "?limit=2&continue=" + token);
  EXPECT_EQ(r.status, 410);
  EXPECT_EQ(r.reason(), "Expired");
  EXPECT_EQ(get(kClaims + "?continue=rubbish").status, 400);
  EXPECT_EQ(get(kClaims + "?limit=-1").status, 400);
}

TEST_F(ListTest, PagesOutliveTheHistory) {
  Options o;
  o.historyLength = 3;
  start(std::move(o));
  for (const char* n : {"a", "b", "c", "d", "e"}) make(kClaims, claim(n, {{"labels", {{"name", n}}}}));
  Reply page = get(kClaims + "?limit=1");
  const std::string first = page.body["metadata"]["continue"], version = page.version();
  std::vector<std::string> seen = names(page);
  for (int round = 0; round < 4; ++round) {
    for (const char* n : {"c", "d"})
      merge(kClaims + "/" + n, {{"metadata", {{"labels", {{"late", std::to_string(round)}}}}}});
    make(kClaims, claim("late" + std::to_string(round)));
    if (round == 1) call("DELETE", kClaims + "/e");
    page = get(kClaims + "?limit=1&continue=" + page.body["metadata"]["continue"].get<std::string>());
    ASSERT_EQ(page.status, 200) << page.raw.body;
    EXPECT_EQ(page.version(), version);
    EXPECT_FALSE(page.body["items"][0]["metadata"]["labels"].contains("late"));
    for (const auto& name : names(page)) seen.push_back(name);
  }
  EXPECT_THAT(seen, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_FALSE(page.body["metadata"].contains("continue"));
  // Reads again from any page, and with a selector.
  EXPECT_THAT(names(get(kClaims + "?continue=" + first)), ElementsAre("b", "c", "d", "e"));
  EXPECT_THAT(names(get(kClaims + "?labelSelector=name%3Dd&continue=" + first)), ElementsAre("d"));
  EXPECT_EQ(get("/apis/elasticgpu.io/v1alpha/elasticgpuclaims?continue=" + first).status, 410);  // a different list
}

TEST_F(ListTest, PagesOfTheLatestListsOnlyAreCached) {
  Options o;
  o.historyLength = 3;
  start(std::move(o));
  for (const char* n : {"a", "b", "c"}) make(kClaims, claim(n));
  const std::string old = get(kClaims + "?limit=1").body["metadata"]["continue"];
  for (int i = 0; i < 20; ++i) {
    make(kClaims, claim("x" + std::to_string(i)));
    get(kClaims + "?limit=1");
  }
  EXPECT_EQ(get(kClaims + "?continue=" + old).status, 410);
}

TEST_F(ListTest, AnAnswerOver64MiBIsPagedOrRefused) {
  Json big = claim("big");
  big["metadata"]["annotations"] = {{"a", std::string(200 * 1024, 'x')}};
  for (int i = 0; i < 340; ++i) {
    big["metadata"]["name"] = "big" + std::to_string(1000 + i);
    make(kClaims, big);
  }
  Reply whole = get(kClaims);
  EXPECT_EQ(whole.status, 413);
  EXPECT_THAT(whole.message(), HasSubstr("limit=500"));
  std::size_t count = 0, pages = 0;
  for (std::string next; pages == 0 || !next.empty(); ++pages) {
    Reply page = get(kClaims + "?limit=10000" + (next.empty() ? "" : "&continue=" + next));
    ASSERT_EQ(page.status, 200);
    EXPECT_LT(page.raw.body.size(), std::size_t{65} << 20);
    count += page.body["items"].size();
    next = page.body["metadata"].value("continue", "");
  }
  EXPECT_EQ(pages, 2U);
  EXPECT_EQ(count, 345U);
  EXPECT_EQ(get(kClaims + "?labelSelector=name%3Da").status, 200);
}

TEST_F(ListTest, VersionsTooHighMustBeTriedAgain) {
  for (std::string path : {kClaims, kClaims + "/a"}) {
    Reply r = get(path + "?resourceVersion=99999");
    EXPECT_EQ(r.status, 504);
    EXPECT_EQ(r.reason(), "Timeout");
    EXPECT_EQ(r.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    EXPECT_THAT(r.raw.headers, ::testing::Contains(::testing::Pair("Retry-After", "1")));
    EXPECT_EQ(get(path + "?resourceVersion=0").status, 200);
    EXPECT_EQ(get(path + "?resourceVersion=abc").status, 400);
  }
}

TEST_F(ListTest, ExactVersions) {
  const std::string then = get(kClaims).version();
  call("DELETE", kClaims + "/a");
  make(kClaims, claim("z"));
  EXPECT_THAT(select("resourceVersion=" + then + "&resourceVersionMatch=Exact"), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(select("resourceVersion=" + then + "&resourceVersionMatch=NotOlderThan"),
              ElementsAre("b", "c", "d", "e", "z"));
  server->compact();
  EXPECT_EQ(get(kClaims + "?resourceVersionMatch=Exact&resourceVersion=" + then).status, 410);
  EXPECT_EQ(get(kClaims + "?resourceVersionMatch=Exact").status, 422);
  EXPECT_EQ(get(kClaims + "?resourceVersionMatch=Exact&resourceVersion=0").status, 422);
  EXPECT_EQ(get(kClaims + "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan").status, 422);
}

TEST_F(ListTest, TheTablesOfKubectlAreAnsweredWhole) {
  for (int i = 0; i < 600; ++i) make(kClaims, claim("more" + std::to_string(i)));
  const auto rows = [this](const std::string& query) {
    const std::string table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    return ask(*server, "GET", kClaims + query, "", "", table).body;
  };
  const auto whole = rows("?limit=500");
  EXPECT_EQ(whole["rows"].size(), 605U);
  EXPECT_FALSE(whole["metadata"].contains("continue"));
  EXPECT_EQ(rows("?limit=499")["rows"].size(), 499U);
  EXPECT_EQ(get(kClaims + "?limit=500").body["items"].size(), 500U) << "clients that page know why";
}

TEST_F(ListTest, TablesAndMetadataOnly) {
  Reply table = ask(*server, "GET", kClaims, "", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
  EXPECT_EQ(table.body["kind"], "Table");
  EXPECT_EQ(table.body["rows"].size(), 5u);
  EXPECT_EQ(table.body["rows"][0]["cells"][0], "a");
  Reply one =
      ask(*server, "GET", kClaims + "/a", "", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
  EXPECT_EQ(one.body["rows"].size(), 1u);
  Reply partial =
      ask(*server, "GET", kClaims, "", "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
  EXPECT_EQ(partial.body["kind"], "PartialObjectMetadataList");
  EXPECT_FALSE(partial.body["items"][0].contains("spec"));
}

TEST_F(ListTest, DiscoveryAndHealth) {
  EXPECT_EQ(get("/version").body["major"].get<std::string>().empty(), false);
  for (std::string path : {"/healthz", "/livez", "/readyz"}) EXPECT_EQ(get(path).raw.body, "ok");
  EXPECT_EQ(get("/api").status, 200);
  EXPECT_EQ(get("/apis").status, 200);
  EXPECT_EQ(get("/api/v1").body["kind"], "APIResourceList");
  EXPECT_EQ(get("/apis/elasticgpu.io/v1alpha").body["kind"], "APIResourceList");
  EXPECT_EQ(get("/openapi/v3").status, 200);
  EXPECT_EQ(get("/openapi/v9").status, 404);
  EXPECT_EQ(call("POST", "/version", Json::object()).status, 405);
}

}  // namespace
}  // namespace egpu::apiserver
