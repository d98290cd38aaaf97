// Lists and watch events.
#include <gtest/gtest.h>

#include <algorithm>

#include "controller/codec/codec.h"
#include "tests/codec/samples.h"

namespace egpu::codec {
namespace {

using v1alpha::ElasticGPUClaim;

struct Listed {
  std::vector<std::string> names;
  base::Result<ListMeta> meta{base::Status(base::Code::internal, "not read")};
};
Listed list(std::string_view json) {
  Listed out;
  out.meta =
      decodeList<ElasticGPUClaim>(json, [&](ElasticGPUClaim&& claim) { out.names.push_back(claim.metadata.name); });
  return out;
}

TEST(List, fieldsInAnyOrder) {
  const std::string kind = R"("kind":"ElasticGPUClaimList")";
  const std::string version = R"("apiVersion":"elasticgpu.io/v1alpha")";
  const std::string meta =
      R"("metadata":{"resourceVersion":"42","continue":"token","remainingItemCount":7,"selfLink":""})";
  const std::string items = R"("items":[{"metadata":{"name":"a"}},{"kind":"ElasticGPUClaim","metadata":{"name":"b"}}])";
  std::vector<std::string> fields{items, kind, meta, version};
  std::sort(fields.begin(), fields.end());
  do {
    const auto got = list("{" + fields[0] + "," + fields[1] + "," + fields[2] + "," + fields[3] + "}\n");
    ASSERT_TRUE(got.meta) << got.meta.status().str();
    EXPECT_EQ(got.names, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(got.meta->resourceVersion, "42");
    EXPECT_EQ(got.meta->continueToken, "token");
    EXPECT_EQ(got.meta->remaining, 7);
  } while (std::next_permutation(fields.begin(), fields.end()));
}

TEST(List, emptyOnes) {
  for (const char* items : {"[]", "null"}) {
    const auto got = list(std::string(R"({"items":)") + items + R"(,"metadata":{"resourceVersion":"1"}})");
    ASSERT_TRUE(got.meta) << got.meta.status().str();
    EXPECT_TRUE(got.names.empty());
    EXPECT_EQ(got.meta->resourceVersion, "1");
  }
}

TEST(List, wrongOnes) {
  const auto why = [](std::string_view json) { return list(json).meta.status().str(); };
  EXPECT_EQ(why(R"({"kind":"Status","status":"Failure"})"), "malformed: kind: is Status, expected ElasticGPUClaimList");
  EXPECT_EQ(why(R"({"kind":"PodList","items":[]})"), "malformed: kind: is PodList, expected ElasticGPUClaimList");
  EXPECT_EQ(why(R"({"items":[{},{"spec":7}]})"), "malformed: items[1].spec: must be an object");
  EXPECT_EQ(why(R"({"items":{}})"), "malformed: items: must be an array");
  EXPECT_FALSE(list(R"({"items":[{})").meta);
  EXPECT_FALSE(list("").meta);
}

TEST(List, everyObjectOfALargePage) {
  egpu::testing::RandomObjects random(5);
  std::vector<ElasticGPUClaim> objects;
  std::string json = R"({"kind":"ElasticGPUClaimList","items":[)";
  for (int i = 0; i < 3000; ++i) {
    objects.push_back(random.next<ElasticGPUClaim>());
    json += (i > 0 ? "," : "") + encode(objects.back());
  }
  json += R"(],"metadata":{"resourceVersion":"9"}})";
  std::size_t next = 0;
  const auto meta = decodeList<ElasticGPUClaim>(json, [&](ElasticGPUClaim&& claim) {
    ASSERT_LT(next, objects.size());
    ASSERT_TRUE(egpu::testing::same(claim, objects[next]));
    ++next;
  });
  ASSERT_TRUE(meta) << meta.status().str();
  EXPECT_EQ(next, objects.size());
  EXPECT_EQ(meta->resourceVersion, "9");
}

TEST(List, callbackMayDecodeToo) {
  int inner = 0;
  const auto meta = decodeList<ElasticGPUClaim>(R"({"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]})",
                                                [&](ElasticGPUClaim&& claim) {
                                                  const auto again = decode<ElasticGPUClaim>(encode(claim));
                                                  ASSERT_TRUE(again);
                                                  EXPECT_EQ(again->metadata.name, claim.metadata.name);
                                                  ++inner;
                                                });
  EXPECT_TRUE(meta);
  EXPECT_EQ(inner, 2);
}

TEST(Watch, theFourKindsOfChange) {
  const std::pair<const char*, EventType> types[] = {{"ADDED", EventType::added},
                                                     {"MODIFIED", EventType::modified},
                                                     {"DELETED", EventType::deleted},
                                                     {"BOOKMARK", EventType::bookmark}};
  for (const auto& [name, type] : types) {
    const std::string object = R"("object":{"kind":"ElasticGPUClaim","metadata":{"name":"a","resourceVersion":"8"}})";
    const std::string word = std::string(R"("type":")") + name + '"';
    for (const auto& line : {"{" + word + "," + object + "}\n", "{" + object + "," + word + "}"}) {
      const auto event = decodeWatchEvent<ElasticGPUClaim>(line);
      ASSERT_TRUE(event) << line << event.status().str();
      EXPECT_EQ(event->type, type);
      EXPECT_EQ(event->object.metadata.resourceVersion, "8");
      EXPECT_FALSE(event->initialEventsEnd);
      EXPECT_TRUE(event->error.ok());
    }
  }
}

template <class T>
class EventOf : public ::testing::Test {};
using Kinds = ::testing::Types<v1alpha::ElasticGPU, v1alpha::ElasticGPUClaim, v1alpha::ElasticGPUClass,
                               v1alpha::ElasticGPUQuota, core::Node, core::Pod, core::ResourceClaim>;
TYPED_TEST_SUITE(EventOf, Kinds);

TYPED_TEST(EventOf, nothingIsLeftOfTheOneBefore) {
  egpu::testing::RandomObjects random(5);
  WatchEvent<TypeParam> event;
  for (int i = 0; i < 300; ++i) {
    auto one = random.next<TypeParam>();
    if (i % 2 == 0) one = egpu::testing::fullSample<TypeParam>();
    if (i % 7 == 1) one = TypeParam{};
    const std::string line = R"({"type":"ADDED","object":)" + encode(one) + "}";
    ASSERT_TRUE(decodeWatchEvent(line, event).ok()) << line;
    const auto fresh = decodeWatchEvent<TypeParam>(line);
    ASSERT_TRUE(fresh);
    ASSERT_TRUE(egpu::testing::same(event.object, fresh->object)) << line;
    // Also after an event that was cut short, or an invalid one.
    if (i % 5 == 0) {
      ASSERT_FALSE(decodeWatchEvent(line.substr(0, line.size() / 2), event).ok());
    }
    if (i % 5 == 1) {
      ASSERT_TRUE(decodeWatchEvent(R"({"type":"ERROR","object":{"kind":"Status","code":410}})", event).ok());
    }
  }
  ASSERT_TRUE(decodeWatchEvent(R"({"type":"ADDED","object":{"metadata":null,"spec":null}})", event).ok());
  EXPECT_TRUE(egpu::testing::same(event.object, TypeParam{}));
  EXPECT_TRUE(event.error.ok());
}

TEST(Watch, endOfTheInitialEvents) {
  const auto event = decodeWatchEvent<core::Pod>(
      R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12","creationTimestamp":null,)"
      R"("annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}})");
  ASSERT_TRUE(event) << event.status().str();
  EXPECT_TRUE(event->initialEventsEnd);
  // On an object this annotation has no meaning.
  EXPECT_FALSE(decodeWatchEvent<core::Pod>(
                   R"({"type":"ADDED","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}})")
                   ->initialEventsEnd);
}

TEST(Watch, expiredVersion) {
  const auto event = decodeWatchEvent<ElasticGPUClaim>(
      R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
      R"x("message":"too old resource version: 1 (9)","reason":"Expired","code":410}})x");
  ASSERT_TRUE(event) << event.status().str();
  EXPECT_EQ(event->type, EventType::error);
  EXPECT_EQ(event->error.code(), base::Code::expired);
  EXPECT_EQ(event->error.http, 410);
  EXPECT_EQ(event->error.message(), "too old resource version: 1 (9)");
}

TEST(Watch, malformedLines) {
  const auto why = [](std::string_view line) {
    const auto event = decodeWatchEvent<ElasticGPUClaim>(line);
    if (event) return std::string("accepted");
    EXPECT_EQ(event.status().code(), base::Code::malformed) << line;
    return event.status().message();
  };
  EXPECT_NE(why(""), "accepted");
  EXPECT_NE(why("{}"), "accepted");
  EXPECT_NE(why("[]"), "accepted");
  EXPECT_EQ(why(R"({"type":"GONE","object":{}})"), "type: unknown watch event GONE");
  EXPECT_EQ(why(R"({"type":"ADDED","object":{"spec":{"resources":7}}})"), "object.spec.resources: must be an object");
  EXPECT_EQ(why(R"({"type":"ADDED","object":{"kind":"Pod"}})"), "object.kind: is Pod, expected ElasticGPUClaim");
  EXPECT_EQ(why(R"({"type":"ERROR","object":{"kind":"Pod"}})"), "object: is not a Status");
  EXPECT_EQ(why(R"({"type":"ADDED"})"), "object: is missing");
  EXPECT_EQ(why(R"({"type":"ADDED","object":{},"type":"ERROR"})"), "type: is a duplicate");
  EXPECT_EQ(why(R"({"object":{},"object":{},"type":"ADDED"})"), "object: is a duplicate");
  EXPECT_NE(why(R"({"type":7,"object":{}})"), "accepted");
}

TEST(Watch, cutAtAnyByteItIsMalformed) {
  const std::string whole = R"({"type":"ADDED","object":)" + encode(egpu::testing::fullSample<core::Pod>()) + "}";
  for (std::size_t n = 0; n < whole.size(); ++n) ASSERT_FALSE(decodeWatchEvent<core::Pod>(whole.substr(0, n))) << n;
  EXPECT_TRUE(decodeWatchEvent<core::Pod>(whole));
}

}  // namespace
}  // namespace egpu::codec
