// Create, get, list, update, patch: requests of clients and their answers.
#include <map>

#include "tests/apiserver/api.h"

namespace egpu::apiserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CrudTest : public ApiTest {};

TEST_F(CrudTest, CreateFillsInWhatTheServerOwns) {
  Json sent = claim("a", {{"uid", "mine"},
                          {"generation", 7},
                          {"creationTimestamp", "2001-01-01T00:00:00Z"},
                          {"managedFields", Json::array()}});
  sent["status"] = {{"phase", "Bound"}, {"elasticGPUName", "x"}};
  Reply r = make(kClaims, sent);
  const Json& m = r.body["metadata"];
  EXPECT_EQ(m["namespace"], "default");
  EXPECT_EQ(m["uid"].get<std::string>().size(), 36u);
  EXPECT_EQ(m["generation"], 1);
  EXPECT_EQ(m["creationTimestamp"], base::rfc3339(clock.wall()));
  EXPECT_FALSE(m.contains("managedFields"));
  EXPECT_FALSE(r.body.contains("status"));
  EXPECT_EQ(std::stoull(r.version()), server->resourceVersion());
  EXPECT_EQ(get(kClaims + "/a").body, r.body);
}

TEST_F(CrudTest, AllKindsCanBeMade) {
  make("/api/v1/namespaces", nsObject("other"));
  make(kPods, pod("p"));
  make(kGpus, card("gpu-1"));
  make(kClasses, gpuClass("share"));
  make(kClaims, claim("c"));
  make(
      "/api/v1/nodes",
      {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", meta("n")}, {"status", {{"allocatable", {{"cpu", "4"}}}}}});
  make("/api/v1/namespaces/default/events",
       {{"apiVersion", "v1"},
        {"kind", "Event"},
        {"metadata", meta("e")},
        {"involvedObject", {{"kind", "Pod"}, {"name", "p"}, {"namespace", "default"}}},
        {"reason", "R"},
        {"message", "m"},
        {"type", "Normal"}});
  make("/apis/coordination.k8s.io/v1/namespaces/default/leases", {{"apiVersion", "coordination.k8s.io/v1"},
                                                                  {"kind", "Lease"},
                                                                  {"metadata", meta("l")},
                                                                  {"spec", {{"holderIdentity", "me"}}}});
  make("/apis/resource.k8s.io/v1/deviceclasses", {{"apiVersion", "resource.k8s.io/v1"},
                                                  {"kind", "DeviceClass"},
                                                  {"metadata", meta("elasticgpu.io")},
                                                  {"spec", {{"selectors", {{{"cel", {{"expression", "false"}}}}}}}}});
  make(kResourceClaims,
       {{"apiVersion", "resource.k8s.io/v1"},
        {"kind", "ResourceClaim"},
        {"metadata", meta("c")},
        {"spec",
         {{"devices", {{"requests", {{{"name", "gpu"}, {"exactly", {{"deviceClassName", "elasticgpu.io"}}}}}}}}}}});
  EXPECT_EQ(get("/api/v1/nodes/n").body["status"]["allocatable"]["cpu"], "4");
  EXPECT_EQ(get("/api/v1/namespaces/other").body["status"]["phase"], "Active");
}

TEST_F(CrudTest, NamesAreGeneratedOrRequired) {
  Json sent = claim("x");
  sent["metadata"] = {{"generateName", "job-"}};
  std::string a = make(kClaims, sent).body["metadata"]["name"], b = make(kClaims, sent).body["metadata"]["name"];
  EXPECT_THAT(a, StartsWith("job-"));
  EXPECT_EQ(a.size(), 9u);
  EXPECT_NE(a, b);
  sent["metadata"] = Json::object();
  Reply none = call("POST", kClaims, sent);
  EXPECT_EQ(none.status, 422);
  EXPECT_THAT(none.message(), HasSubstr("metadata.name: Required value"));
  Reply bad = call("POST", kClaims, claim("Bad_Name"));
  EXPECT_EQ(bad.status, 422);
  EXPECT_EQ(bad.body["details"]["causes"][0]["field"], "metadata.name");
}

TEST_F(CrudTest, TheSameNameTwiceIsRefused) {
  make(kClaims, claim("a"));
  Reply r = call("POST", kClaims, claim("a"));
  EXPECT_EQ(r.status, 409);
  EXPECT_EQ(r.reason(), "AlreadyExists");
  EXPECT_EQ(r.message(), "elasticgpuclaims.elasticgpu.io \"a\" already exists");
  EXPECT_EQ(r.body["kind"], "Status");
  EXPECT_EQ(r.body["details"]["group"], "elasticgpu.io");
}

TEST_F(CrudTest, NamespacesMustExistAndAgree) {
  Reply r = call("POST", "/apis/elasticgpu.io/v1alpha/namespaces/nowhere/elasticgpuclaims", claim("a"));
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(r.message(), "namespaces \"nowhere\" not found");
  EXPECT_EQ(call("POST", kClaims, claim("a", {{"namespace", "kube-system"}})).status, 400);
  EXPECT_EQ(call("POST", "/apis/elasticgpu.io/v1alpha/elasticgpuclaims", claim("a")).status, 405);
}

TEST_F(CrudTest, WhatIsNotThereIsAStatus) {
  Reply r = get(kClaims + "/a");
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(r.message(), "elasticgpuclaims.elasticgpu.io \"a\" not found");
  EXPECT_EQ(r.body["details"]["kind"], "elasticgpuclaims");
  for (std::string path : {"/apis/elasticgpu.io/v1alpha/nonsense", "/apis/other/v1/things", "/nonsense",
                           "/api/v1/secrets", "/apis/elasticgpu.io/v9/elasticgpus"}) {
    Reply n = get(path);
    EXPECT_EQ(n.status, 404) << path;
    EXPECT_EQ(n.body["kind"], "Status") << path;
  }
  EXPECT_EQ(call("PUT", kClaims, claim("a")).reason(), "MethodNotAllowed");
  // kubectl logs, exec, scale: the message names the missing subresource, and `details` stays empty, by which kubectl
  // recognises a missing API.
  Reply log = get("/api/v1/namespaces/default/pods/p/log");
  EXPECT_EQ(log.status, 404);
  EXPECT_EQ(log.message(), "the server could not find the requested resource: pods/log is not served here");
  EXPECT_EQ(log.body["details"], Json::object());
  EXPECT_EQ(get(kClaims + "/a/scale").message(),
            "the server could not find the requested resource: elasticgpuclaims/scale is not served here");
}

TEST_F(CrudTest, WhatIsNotServedIsReportedWithWhatIs) {
  for (const auto& [path, name] :
       std::map<std::string, std::string>{{"/api/v1/namespaces/default/secrets", "secrets"},
                                          {"/api/v1/secrets?labelSelector=owner%3Dhelm", "secrets"},
                                          {"/apis/apps/v1/namespaces/default/deployments", "deployments.apps"},
                                          {"/apis/apps/v1/namespaces/default/deployments/d", "deployments.apps"},
                                          {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                                           "customresourcedefinitions.apiextensions.k8s.io"},
                                          {"/apis/example.org/v1/things", "things.example.org"}}) {
    for (const char* method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
      Reply r = call(method, path);
      EXPECT_EQ(r.status, 404) << path;
      EXPECT_EQ(r.reason(), "NotFound");
      EXPECT_THAT(r.message(), HasSubstr("is for trying out and does not serve " + name + "; it serves "));
      EXPECT_THAT(r.message(), HasSubstr("pods, "));
      EXPECT_THAT(r.message(), HasSubstr("elasticgpuclaims"));
    }
  }
  EXPECT_THAT(get("/apis/elasticgpu.io/v9/elasticgpus").message(),
              HasSubstr("elasticgpus.elasticgpu.io is served in v1alpha1, v1alpha, not in v9"));
}

TEST_F(CrudTest, WhereABodyBreaksIsReportedInPlainWords) {
  Reply r = ask(*server, "POST", kClaims, "{\"kind\": nonsense}");
  EXPECT_EQ(r.reason(), "BadRequest");
  EXPECT_THAT(r.message(),
              ::testing::StartsWith("the object provided is not valid JSON: parse error at line 1, column 11"));
}

TEST_F(CrudTest, BothVersionsShowTheSameObject) {
  Json sent = claim("a");
  sent["apiVersion"] = "elasticgpu.io/v1alpha1";
  const std::string newer = "/apis/elasticgpu.io/v1alpha1/namespaces/default/elasticgpuclaims";
  EXPECT_EQ(make(newer, sent).body["apiVersion"], "elasticgpu.io/v1alpha1");
  EXPECT_EQ(get(kClaims + "/a").body["apiVersion"], "elasticgpu.io/v1alpha");
  EXPECT_EQ(get(newer + "/a").body["apiVersion"], "elasticgpu.io/v1alpha1");
  EXPECT_EQ(get(newer).body["items"][0]["apiVersion"], "elasticgpu.io/v1alpha1");
  Reply patched =
      merge(newer + "/a", {{"apiVersion", "elasticgpu.io/v1alpha1"}, {"metadata", {{"labels", {{"l", "1"}}}}}});
  EXPECT_EQ(patched.status, 200) << patched.raw.body;
  EXPECT_EQ(patched.body["apiVersion"], "elasticgpu.io/v1alpha1");
  EXPECT_EQ(call("POST", kClaims, sent).status, 400);
}

TEST_F(CrudTest, PutNeedsTheVersionItSaw) {
  Reply made = make(kClaims, claim("a"));
  Json object = made.body;
  object["metadata"]["labels"] = {{"x", "1"}};
  Reply first = call("PUT", kClaims + "/a", object);
  EXPECT_EQ(first.status, 200);
  Reply stale = call("PUT", kClaims + "/a", object);
  EXPECT_EQ(stale.status, 409);
  EXPECT_EQ(stale.reason(), "Conflict");
  EXPECT_THAT(stale.message(),
              HasSubstr("the object has been modified; please apply your changes to the latest version and try again"));
  object["metadata"].erase("resourceVersion");
  Reply unset = call("PUT", kClaims + "/a", object);
  EXPECT_EQ(unset.status, 422);
  EXPECT_THAT(unset.message(),
              HasSubstr("metadata.resourceVersion: Invalid value: 0: must be specified for an update"));
  // Built-in kinds may be replaced without a version.
  make(kPods, pod("p"));
  Json p = get(kPods + "/p").body;
  p["metadata"].erase("resourceVersion");
  p["metadata"]["labels"] = {{"x", "1"}};
  EXPECT_EQ(call("PUT", kPods + "/p", p).status, 200);
  EXPECT_EQ(call("PUT", kClaims + "/none", claim("none")).status, 404);
  Json renamed = first.body;
  renamed["metadata"]["name"] = "b";
  EXPECT_EQ(call("PUT", kClaims + "/a", renamed).status, 400);
}

TEST_F(CrudTest, APatchHoldsAgainstTheObjectItMeans) {
  Reply made = make(kClaims, claim("a"));
  auto patch = [&](const Json& m) { return merge(kClaims + "/a", {{"metadata", m}}).status; };
  EXPECT_EQ(patch({{"uid", "other"}, {"labels", {{"a", "1"}}}}), 422) << "a uid is immutable";
  EXPECT_EQ(patch({{"resourceVersion", "1"}, {"labels", {{"a", "1"}}}}), 409);
  EXPECT_EQ(patch({{"uid", made.uid()}, {"resourceVersion", made.version()}, {"labels", {{"a", "1"}}}}), 200);
  EXPECT_EQ(patch({{"resourceVersion", made.version()}, {"labels", {{"a", "2"}}}}), 409);
}

TEST_F(CrudTest, GenerationCountsChangesOfTheDesiredState) {
  make(kClasses, gpuClass("k"));
  Json p = {{"metadata", {{"labels", {{"a", "1"}}}}}};
  EXPECT_EQ(merge(kClasses + "/k", p).body["metadata"]["generation"], 1);
  Reply s = merge(kClasses + "/k/status", {{"status",
                                            {{"conditions",
                                              {{{"type", "Ready"},
                                                {"status", "True"},
                                                {"reason", "Loaded"},
                                                {"message", ""},
                                                {"lastTransitionTime", "2026-01-01T00:00:00Z"}}}}}}});
  EXPECT_EQ(s.status, 200) << s.raw.body;
  EXPECT_EQ(s.body["metadata"]["generation"], 1);
  make(kGpus, card("g"));
  Json entry = {{"device", "egpu-u"}, {"claim", "default/c"}, {"core", 100}, {"memory", 1024}};
  Reply g = merge(kGpus + "/g", {{"spec", {{"allocations", {{"u", entry}}}}}});
  EXPECT_EQ(g.body["metadata"]["generation"], 2) << g.raw.body;
}

TEST_F(CrudTest, WritesThatChangeNothingDoNothing) {
  make(kClaims, claim("a", {{"labels", {{"x", "1"}}}}));
  const uint64_t before = server->resourceVersion();
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"labels", {{"x", "1"}}}}}}).status, 200);
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"annotations", {{"gone", nullptr}}}}}}).status, 200);
  Json same = get(kClaims + "/a").body;
  EXPECT_EQ(call("PUT", kClaims + "/a", same).status, 200);
  EXPECT_EQ(server->resourceVersion(), before);
}

TEST_F(CrudTest, StatusAndTheRestAreApart) {
  make(kClaims, claim("a"));
  Reply viaMain = merge(kClaims + "/a", {{"status", {{"phase", "Bound"}, {"elasticGPUName", "x"}}}});
  EXPECT_EQ(viaMain.status, 200);
  EXPECT_FALSE(viaMain.body.contains("status"));
  Reply viaStatus = merge(kClaims + "/a/status", {{"metadata", {{"labels", {{"no", "1"}}}}},
                                                  {"spec", {{"elasticGPUName", "y"}}},
                                                  {"status", {{"phase", "Bound"}, {"elasticGPUName", "x"}}}});
  EXPECT_EQ(viaStatus.status, 200) << viaStatus.raw.body;
  EXPECT_EQ(viaStatus.body["status"]["phase"], "Bound");
  EXPECT_FALSE(viaStatus.body["spec"].contains("elasticGPUName"));
  EXPECT_FALSE(viaStatus.body["metadata"].contains("labels"));
  EXPECT_EQ(merge(kClaims + "/a", {{"metadata", {{"labels", {{"yes", "1"}}}}}}).body["status"]["phase"], "Bound");
}

TEST_F(CrudTest, DryRunsChangeNothing) {
  const uint64_t before = server->resourceVersion();
  Reply r = call("POST", kClaims + "?dryRun=All", claim("a"));
  EXPECT_EQ(r.status, 201) << r.raw.body;
  EXPECT_EQ(get(kClaims + "/a").status, 404);
  EXPECT_EQ(server->resourceVersion(), before);
  make(kClaims, claim("a"));
  EXPECT_EQ(call("POST", kClaims + "?dryRun=All", claim("a")).status, 409);
  EXPECT_EQ(call("PATCH", kClaims + "/a?dryRun=All", {{"metadata", {{"labels", {{"x", "1"}}}}}}, kMerge)
                .body["metadata"]["labels"]["x"],
            "1");
  EXPECT_FALSE(get(kClaims + "/a").body["metadata"].contains("labels"));
  EXPECT_EQ(call("DELETE", kClaims + "/a?dryRun=All").status, 200);
  EXPECT_EQ(get(kClaims + "/a").status, 200);
  EXPECT_EQ(call("POST", kClaims + "?dryRun=Some", claim("b")).status, 400);
}

TEST_F(CrudTest, PatchTypes) {
  make(kClaims, claim("a"));
  make(kPods, pod("p"));
  Json add = {{{"op", "add"}, {"path", "/metadata/labels"}, {"value", {{"x", "1"}}}}};
  EXPECT_EQ(call("PATCH", kClaims + "/a", add, kJsonPatchType).body["metadata"]["labels"]["x"], "1");
  Json failing = {{{"op", "test"}, {"path", "/metadata/uid"}, {"value", "other"}},
                  {{"op", "remove"}, {"path", "/metadata/labels"}}};
  EXPECT_EQ(call("PATCH", kClaims + "/a", failing, kJsonPatchType).status, 422);
  EXPECT_EQ(get(kClaims + "/a").body["metadata"]["labels"]["x"], "1");
  Json strategic = {{"spec", {{"containers", {{{"name", "c"}, {"image", "other"}}}}}}};
  Reply s = call("PATCH", kPods + "/p", strategic, kStrategic);
  EXPECT_EQ(s.status, 200) << s.raw.body;
  EXPECT_EQ(s.body["spec"]["containers"][0]["image"], "other");
  Reply custom = call("PATCH", kClaims + "/a", strategic, kStrategic);
  EXPECT_EQ(custom.status, 415);
  EXPECT_EQ(custom.reason(), "UnsupportedMediaType");
  Reply apply = call("PATCH", kClaims + "/new?fieldManager=x", claim("new"), "application/apply-patch+yaml");
  EXPECT_EQ(apply.status, 415);
  EXPECT_EQ(apply.body["kind"], "Status");
  EXPECT_EQ(get(kClaims + "/new").status, 404);
  EXPECT_EQ(merge(kClaims + "/none", Json::object()).status, 404);
}

TEST_F(CrudTest, UnknownFieldsAreRefusedWarnedOfOrDropped) {
  Json sent = claim("a");
  sent["spec"]["foo"] = 1;
  Reply strict = call("POST", kClaims + "?fieldValidation=Strict", sent);
  EXPECT_EQ(strict.status, 400);
  EXPECT_THAT(strict.message(), HasSubstr("strict decoding error: unknown field \"spec.foo\""));
  Reply warn = call("POST", kClaims + "?fieldValidation=Warn", sent);
  EXPECT_EQ(warn.status, 201);
  ASSERT_FALSE(warn.raw.headers.empty());
  EXPECT_EQ(warn.raw.headers[0].first, "Warning");
  EXPECT_EQ(warn.raw.headers[0].second, "299 - \"unknown field \\\"spec.foo\\\"\"");
  EXPECT_FALSE(warn.body["spec"].contains("foo"));
  sent["metadata"]["name"] = "b";
  EXPECT_TRUE(call("POST", kClaims + "?fieldValidation=Ignore", sent).raw.headers.empty());
  Reply twice = ask(*server, "POST", kClaims + "?fieldValidation=Strict",
                    R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPUClaim","metadata":{"name":"d"},"spec":{)"
                    R"("egpuClassName":"a","egpuClassName":"b"}})");
  EXPECT_EQ(twice.status, 400);
  EXPECT_THAT(twice.message(), HasSubstr("duplicate field \"egpuClassName\""));
}

TEST_F(CrudTest, BodiesOfOtherTypes) {
  Reply yaml = ask(*server, "POST", kClaims,
                   "apiVersion: elasticgpu.io/v1alpha\nkind: ElasticGPUClaim\nmetadata:\n  name: why\nspec:\n  "
                   "egpuClassName: k\n  resources:\n    requests:\n      elasticgpu.io/gpu: 1\n",
                   "application/yaml");
  EXPECT_EQ(yaml.status, 201) << yaml.raw.body;
  EXPECT_EQ(ask(*server, "POST", kClaims, "k8s\0binary", "application/vnd.kubernetes.protobuf").status, 415);
  EXPECT_EQ(ask(*server, "GET", kClaims, "", "", "application/vnd.kubernetes.protobuf").status, 406);
  EXPECT_EQ(ask(*server, "GET", kClaims, "", "", "application/vnd.kubernetes.protobuf, */*").status, 200);
}

// Python's typed client omits them.
TEST_F(CrudTest, KindAndVersionMayBeLeftToThePath) {
  const auto without = [](Json object, std::initializer_list<const char*> fields) {
    for (const char* field : fields) object.erase(field);
    return object;
  };
  Reply r = call("POST", kPods, without(pod("p"), {"kind", "apiVersion"}));
  ASSERT_EQ(r.status, 201) << r.raw.body;
  EXPECT_EQ(r.body["kind"], "Pod");
  EXPECT_EQ(get(kPods + "/p").body["apiVersion"], "v1");
  EXPECT_EQ(call("POST", kClaims, without(claim("a"), {"kind"})).status, 201);
  EXPECT_EQ(call("POST", kClaims, without(claim("b"), {"apiVersion"})).status, 201);
  EXPECT_EQ(get(kClaims + "/b").body["apiVersion"], "elasticgpu.io/v1alpha");
  Json stored = without(get(kPods + "/p").body, {"kind", "apiVersion"});
  stored["metadata"]["labels"] = {{"a", "b"}};
  EXPECT_EQ(call("PUT", kPods + "/p", stored).status, 200);
  Json empty = pod("q");
  empty["kind"] = "";
  empty["apiVersion"] = nullptr;
  EXPECT_EQ(call("POST", kPods, empty).status, 201);
  Json lease = {{"metadata", meta("l")}, {"spec", {{"holderIdentity", "n1"}}}};
  EXPECT_EQ(call("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).status, 201);
  EXPECT_EQ(call("POST", "/api/v1/nodes", Json{{"metadata", meta("n1")}}).status, 201);
  // Given values must be right.
  Json wrong = pod("r");
  wrong["kind"] = "Node";
  EXPECT_EQ(call("POST", kPods, wrong).status, 400);
  wrong["kind"] = 7;
  EXPECT_EQ(call("POST", kPods, wrong).status, 400);
}

TEST_F(CrudTest, ProtobufIsRefusedWithTheRemedy) {
  for (const char* method : {"POST", "PUT"}) {
    Reply r = ask(*server, method, kPods + (std::string(method) == "PUT" ? "/p" : ""), std::string("k8s\0x", 5),
                  "application/vnd.kubernetes.protobuf");
    EXPECT_EQ(r.status, 415);
    EXPECT_EQ(r.reason(), "UnsupportedMediaType");
    EXPECT_THAT(r.message(), HasSubstr("protobuf"));
    EXPECT_THAT(r.message(), HasSubstr("ContentType: \"application/json\""));
  }
}

// From 1.32 on kubectl sends `create namespace` as protobuf and does not fall back to another format.
TEST_F(CrudTest, NamespacesMayComeAsProtobuf) {
  auto field = [](int number, const std::string& text) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(text.size()) + text;
  };
  const std::string labels = field(1, "team") + field(2, "blue");
  auto body = [&](const std::string& kind, const std::string& raw) {
    return std::string("k8s\0", 4) + field(1, field(1, "v1") + field(2, kind)) + field(2, raw) + field(3, "") +
           field(4, "");
  };
  const std::string proto = "application/vnd.kubernetes.protobuf";
  const std::string sent =
      body("Namespace", field(1, field(1, "made") + field(2, "") + field(11, labels)) + field(2, "") + field(3, ""));
  Reply r = ask(*server, "POST", "/api/v1/namespaces?fieldValidation=Strict", sent, proto, proto + ",application/json");
  EXPECT_EQ(r.status, 201) << r.raw.body;
  EXPECT_EQ(get("/api/v1/namespaces/made").body["metadata"]["labels"]["team"], "blue");
  EXPECT_EQ(ask(*server, "POST", kPods, body("Pod", field(1, field(1, "p"))), proto).status, 415);
  for (std::size_t n = 0; n < sent.size(); ++n)
    EXPECT_GE(ask(*server, "POST", "/api/v1/namespaces", sent.substr(0, n) + "\xff", proto).status, 400);
}

TEST_F(CrudTest, JunkIsRefusedWithAStatus) {
  std::string deep;
  for (int i = 0; i < 400'000; ++i) deep += "[";
  const std::string nested =
      R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPUClaim","metadata":{"name":"d"},"spec":)" + deep;
  std::string closed = nested + std::string(400'000, ']') + "}";
  for (const std::string& junk :
       {std::string("{"), std::string("null"), std::string("[]"), std::string("\"x\""), std::string(1 << 20, 'x'),
        std::string(1 << 20, '{'), nested, closed, std::string("{\"kind\":3}"), std::string("{\"a\":\"\xff\xfe\"}"),
        std::string(R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPUClaim","metadata":{"name":7}})"),
        std::string(R"({"apiVersion":"elasticgpu.io/v1alpha","kind":"ElasticGPUClaim","metadata":[]})")}) {
    for (const char* type : {"application/json", "application/yaml"}) {
      if (junk.size() > 300'000 && std::string(type) == "application/yaml" && junk.find('[') != std::string::npos &&
          junk.size() > 700'000)
        continue;
      Reply r = ask(*server, "POST", kClaims, junk, type);
      EXPECT_GE(r.status, 400);
      EXPECT_LT(r.status, 500) << r.raw.body;
      EXPECT_EQ(r.body["kind"], "Status");
    }
    Reply p = ask(*server, "PATCH", kClaims + "/x", junk, kMerge);
    EXPECT_GE(p.status, 400);
    EXPECT_LT(p.status, 500);
  }
  EXPECT_EQ(ask(*server, "POST", kClaims, std::string(4 << 20, ' ')).status, 413);
}

TEST_F(CrudTest, AdmissionEditsAndRefuses) {
  Options options;
  std::vector<std::string> seen;
  options.admission.push_back(
      [&](std::string_view resource, std::string_view operation, std::string& object, std::string_view old) {
        if (resource != "pods") return base::Status();
        seen.push_back(std::string(operation) + (old.empty() ? " new" : " old"));
        Json j = Json::parse(object);
        if (j["metadata"]["name"] == "bad") return base::Status(base::Code::forbidden, "not this one");
        if (operation == "UPDATE" && j["metadata"].value("annotations", Json::object()).contains("frozen"))
          return base::Status(base::Code::invalid, "that annotation is frozen");
        if (operation == "CREATE") j["spec"]["schedulingGates"] = {{{"name", "elasticgpu.io/claims"}}};
        object = j.dump();
        return base::Status();
      });
  start(std::move(options));
  const Json made = make(kPods, pod("p")).body;
  EXPECT_EQ(made["spec"]["schedulingGates"][0]["name"], "elasticgpu.io/claims");
  EXPECT_EQ(made["status"]["conditions"][0]["reason"], "SchedulingGated") << "what follows from it too";
  EXPECT_EQ(merge(kPods + "/p", {{"metadata", {{"labels", {{"a", "1"}}}}}}).status, 200);
  EXPECT_THAT(seen, ElementsAre("CREATE new", "UPDATE old"));
  Reply r = call("POST", kPods, pod("bad"));
  EXPECT_EQ(r.status, 403);
  EXPECT_THAT(r.message(), HasSubstr("not this one"));
  // A write of the status may contain annotations; it must not circumvent admission.
  const Json frozen = {{"metadata", {{"annotations", {{"frozen", "no"}}}}}};
  EXPECT_EQ(merge(kPods + "/p/status", frozen).status, 422);
  EXPECT_EQ(merge(kPods + "/p/status", {{"status", {{"message", "runs"}}}}).status, 200);
}

}  // namespace
}  // namespace egpu::apiserver
