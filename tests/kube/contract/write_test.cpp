// Writes: conflicts, refusals and their form, finalizers, preconditions, the status subresource.
#include <thread>

#include "controller/codec/patch.h"
#include "tests/kube/contract/contract_fixture.h"

namespace egpu::kube {
namespace {

using base::Code;
using core::Lease;
using ::testing::HasSubstr;
using v1alpha::ElasticGPUClaim;

class ContractWrite : public ContractTest {
 protected:
  static std::string versioned(const std::string& version, const std::string& rest = {}) {
    return R"({"metadata":{"resourceVersion":")" + version + "\"" + rest + "}}";
  }
};

TEST_F(ContractWrite, TheServerSetsWhatIsItsOwn) {
  auto wish = lease("a");
  wish.metadata.uid = "mine";
  wish.metadata.creationTimestamp = "2000-01-01T00:00:00Z";
  const auto made = make(wish);
  EXPECT_NE(made.metadata.uid, "mine");
  EXPECT_EQ(made.metadata.uid.size(), 36U);
  EXPECT_NE(made.metadata.creationTimestamp, "2000-01-01T00:00:00Z");
  EXPECT_FALSE(made.metadata.resourceVersion.empty());
}

TEST_F(ContractWrite, CreatingTwiceIsAlreadyExists) {
  make(lease("a"));
  const auto again = client.create(lease("a"));
  EXPECT_EQ(again.status().code(), Code::alreadyExists);
  EXPECT_EQ(again.status().http, 409);
  EXPECT_EQ(again.status().reason, "AlreadyExists");
}

TEST_F(ContractWrite, WithoutItsNamespaceNothingIsMade) {
  auto elsewhere = lease("a");
  elsewhere.metadata.namespace_ = "no-such-namespace";
  EXPECT_EQ(client.create(elsewhere).status().code(), Code::notFound);
}

TEST_F(ContractWrite, AStaleVersionIsAConflictForEveryKindOfWrite) {
  const auto old = make(lease("a"));
  ASSERT_TRUE(merge<Lease>("a", R"({"metadata":{"labels":{"n":"1"}}})").ok());
  const auto patched = merge<Lease>("a", versioned(old.metadata.resourceVersion, R"(,"labels":{"n":"2"})"));
  EXPECT_EQ(patched.status().code(), Code::conflict);
  EXPECT_EQ(patched.status().reason, "Conflict");
  EXPECT_EQ(client.replace(old).status().code(), Code::conflict);
  EXPECT_EQ(client.remove<Lease>({ns, "a"}, codec::patch::deleteOptions({}, old.metadata.resourceVersion)).code(),
            Code::conflict);
  EXPECT_EQ(get<Lease>("a").metadata.label("n"), "1");
}

TEST_F(ContractWrite, AnotherUidIsRefused) {
  make(lease("a"));
  make(claim("a"));
  const std::string body = R"({"metadata":{"uid":"00000000-0000-0000-0000-000000000000"}})";
  for (const auto& status : {merge<Lease>("a", body).status(), merge<ElasticGPUClaim>("a", body).status()}) {
    EXPECT_EQ(status.http, 422) << status.str();
    EXPECT_THAT(status.message(), HasSubstr("metadata.uid"));
  }
  auto replaced = get<Lease>("a");
  replaced.metadata.uid = "00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(client.replace(replaced).status().code(), Code::conflict);
  EXPECT_EQ(
      client.remove<Lease>({ns, "a"}, codec::patch::deleteOptions("00000000-0000-0000-0000-000000000000", {})).code(),
      Code::conflict);
  (void)get<Lease>("a");
}

TEST_F(ContractWrite, ReplacingACustomResourceNeedsItsVersion) {
  auto made = make(claim("a"));
  made.metadata.resourceVersion.clear();
  const auto replaced = client.replace(made);
  EXPECT_EQ(replaced.status().code(), Code::invalid);
  EXPECT_EQ(replaced.status().http, 422);
  EXPECT_THAT(replaced.status().message(), HasSubstr("metadata.resourceVersion"));
}

TEST_F(ContractWrite, WhatBreaksARuleIs422AndNamesTheField) {
  auto negative = lease("a");
  negative.leaseDurationSeconds = -1;
  const auto refused = client.create(negative);
  EXPECT_EQ(refused.status().code(), Code::invalid);
  EXPECT_EQ(refused.status().http, 422);
  EXPECT_EQ(refused.status().reason, "Invalid");
  EXPECT_THAT(refused.status().message(), HasSubstr("spec.leaseDurationSeconds"));
  auto unknown = claim("a");
  unknown.spec.requests = {{"elasticgpu.io/gpu-core", "-5"}};
  EXPECT_EQ(client.create(unknown).status().http, 422);
  auto badName = lease("Not_A_Name");
  EXPECT_EQ(client.create(badName).status().http, 422);
}

TEST_F(ContractWrite, WhatIsNoJsonIs400) {
  make(lease("a"));
  EXPECT_EQ(merge<Lease>("a", "{").status().http, 400);
  EXPECT_EQ(merge<Lease>("a", R"({"spec":{"leaseDurationSeconds":"ten"}})").status().http, 422);
}

TEST_F(ContractWrite, MergePatchesSetAndRemoveAndLeaveTheRest) {
  auto object = lease("a");
  object.metadata.labels = {{"keep", "1"}, {"drop", "1"}};
  make(object);
  const auto patched = merge<Lease>("a", R"({"metadata":{"labels":{"drop":null,"add":"1"}}})");
  ASSERT_TRUE(patched.ok()) << patched.status().str();
  EXPECT_EQ(patched->metadata.labels, (core::StringMap{{"add", "1"}, {"keep", "1"}}));
  EXPECT_EQ(patched->holderIdentity, "somebody");
  const auto same = merge<Lease>("a", R"({"metadata":{"labels":{"add":"1"}}})");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->metadata.resourceVersion, patched->metadata.resourceVersion);  // an empty change is not written
}

TEST_F(ContractWrite, JsonPatchesAreAllOrNothing) {
  make(lease("a"));
  const auto apply = [this](const std::string& body) { return client.patch<Lease>({ns, "a"}, PatchType::json, body); };
  const auto good =
      apply(R"([{"op":"test","path":"/spec/holderIdentity","value":"somebody"},{"op":"add","path":"/metadata/labels",)"
            R"("value":{"a":"1"}}])");
  ASSERT_TRUE(good.ok()) << good.status().str();
  EXPECT_EQ(good->metadata.label("a"), "1");
  const auto failed =
      apply(R"([{"op":"replace","path":"/metadata/labels/a","value":"2"},{"op":"test","path":"/spec/holderIdentity",)"
            R"("value":"x"}])");
  EXPECT_EQ(failed.status().http, 422);
  EXPECT_EQ(apply(R"([{"op":"remove","path":"/metadata/labels/nothing"}])").status().http, 422);
  EXPECT_EQ(apply(R"({"op":"remove"})").status().http, 400);
  EXPECT_EQ(get<Lease>("a").metadata.label("a"), "1");
}

TEST_F(ContractWrite, StrategicPatchesAreForBuiltInKindsOnly) {
  make(lease("a"));
  make(claim("a"));
  const std::string label = R"({"metadata":{"labels":{"a":"1"}}})";
  EXPECT_TRUE(client.patch<Lease>({ns, "a"}, PatchType::strategic, label).ok());
  EXPECT_EQ(client.patch<ElasticGPUClaim>({ns, "a"}, PatchType::strategic, label).status().http, 415);
}

TEST_F(ContractWrite, PatchingWhatIsNotThereMakesNothing) {
  EXPECT_EQ(merge<Lease>("a", "{}").status().code(), Code::notFound);
  EXPECT_EQ(client.get<Lease>({ns, "a"}).status().code(), Code::notFound);
}

TEST_F(ContractWrite, DeletionRespectsItsPreconditions) {
  const auto made = make(lease("a"));
  EXPECT_TRUE(
      client.remove<Lease>({ns, "a"}, codec::patch::deleteOptions(made.metadata.uid, made.metadata.resourceVersion))
          .ok());
  EXPECT_EQ(client.remove<Lease>({ns, "a"}).code(), Code::notFound);
}

TEST_F(ContractWrite, FinalizersHoldWhatIsDeleted) {
  auto object = claim("a");
  object.metadata.finalizers = {"elasticgpu.io/test"};
  make(object);
  ASSERT_TRUE(client.remove<ElasticGPUClaim>({ns, "a"}).ok());
  const auto held = get<ElasticGPUClaim>("a");
  EXPECT_TRUE(held.metadata.deleting());
  const auto added =
      merge<ElasticGPUClaim>("a", R"({"metadata":{"finalizers":["elasticgpu.io/test","elasticgpu.io/more"]}})");
  EXPECT_EQ(added.status().http, 422);
  EXPECT_THAT(added.status().message(), HasSubstr("metadata.finalizers"));
  ASSERT_TRUE(client.remove<ElasticGPUClaim>({ns, "a"}).ok());  // deleting again is harmless
  EXPECT_EQ(get<ElasticGPUClaim>("a").metadata.deletionTimestamp, held.metadata.deletionTimestamp);
  ASSERT_TRUE(merge<ElasticGPUClaim>("a", R"({"metadata":{"finalizers":null}})").ok());
  EXPECT_EQ(client.get<ElasticGPUClaim>({ns, "a"}).status().code(), Code::notFound);
}

TEST_F(ContractWrite, StatusIsWrittenThroughItsSubresourceOnly) {
  auto wish = claim("a");
  wish.status.phase = "Bound";
  EXPECT_EQ(make(wish).status.phase, "");
  ASSERT_TRUE(merge<ElasticGPUClaim>("a", R"({"status":{"phase":"Bound"}})").ok());
  EXPECT_EQ(get<ElasticGPUClaim>("a").status.phase, "");
  const auto status = merge<ElasticGPUClaim>(
      "a", R"({"metadata":{"labels":{"a":"1"}},"spec":{"egpuClassName":"other"},"status":{"phase":"Pending"}})",
      "status");
  ASSERT_TRUE(status.ok()) << status.status().str();
  const auto after = get<ElasticGPUClaim>("a");
  EXPECT_EQ(after.status.phase, "Pending");
  EXPECT_EQ(after.spec.className, "share");
  EXPECT_EQ(after.metadata.generation, 1);
}

TEST_F(ContractWrite, ManyWhoCompareAndSwapLoseNothing) {
  make(lease("a"));
  constexpr int kWriters = 4, kEach = 5;
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < kWriters; ++w)
      writers.emplace_back([this] {
        for (int done = 0; done < kEach;) {
          const auto now = get<Lease>("a");
          const auto next = merge<Lease>("a", R"({"metadata":{"resourceVersion":")" + now.metadata.resourceVersion +
                                                  R"("},"spec":{"leaseTransitions":)" +
                                                  std::to_string(now.leaseTransitions + 1) + "}}");
          if (next)
            ++done;
          else
            EXPECT_EQ(next.status().code(), Code::conflict);
        }
      });
  }
  EXPECT_EQ(get<Lease>("a").leaseTransitions, kWriters * kEach);
}

}  // namespace
}  // namespace egpu::kube
