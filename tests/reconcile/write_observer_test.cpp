// The drivers' observer finds objects that are repeatedly written to the same contents, and no others.
#include "tests/support/write_observer.h"

#include <gmock/gmock.h>

#include "tests/reconcile/fixture.h"

namespace egpu::support {
namespace {

using ::testing::HasSubstr;

class WriteObserverTest : public reconcile::ReconcileTest {
 protected:
  WriteObserverTest()
      : observer(*world.transport, [this] { return world.writes(); }),
        own(observer, world.clock, world.random, world.metrics, Driver::options()) {}
  void SetUp() override {
    ReconcileTest::SetUp();
    driver.reset();
    world.addClaim("a", "absent", {{"gpu-core", "10"}});
  }
  void write(const std::string& message) {
    World::must(own.patch<cache::Claim>({"default", "a"}, kube::PatchType::merge,
                                        R"({"status":{"message":")" + message + R"("}})", "status"));
  }

  WriteObserver observer;
  kube::Client own;
};

TEST_F(WriteObserverTest, ContentsThatReturnAreFound) {
  for (int i = 0; i < 8; ++i) write(i % 2 == 0 ? "one" : "other");
  EXPECT_EQ(observer.oscillations(), "");
  write("one");
  EXPECT_THAT(observer.oscillations(), HasSubstr("ElasticGPUClaim default/a was written 5 times to the same contents"));
}

TEST_F(WriteObserverTest, AnotherClientsWritesAreInputs) {
  for (int i = 0; i < 40; ++i) {
    write(i % 2 == 0 ? "one" : "other");
    if (i % 4 == 3) world.nextSecond(), world.labelNamespace("default", R"({"turn":")" + std::to_string(i) + "\"}");
  }
  EXPECT_EQ(observer.oscillations(), "");
}

TEST_F(WriteObserverTest, AnObjectThatIsMadeAgainIsTheSame) {
  core::ResourceClaim made;
  made.metadata.name = "again";
  made.metadata.namespace_ = "default";
  made.requestName = "gpu";
  made.deviceClassName = "elasticgpu.io";
  for (int i = 0; i < 5; ++i) {
    World::must(own.create(made));
    World::mustOk(own.remove<core::ResourceClaim>({"default", "again"}));
  }
  EXPECT_THAT(observer.oscillations(), HasSubstr("ResourceClaim default/again was written 5 times"));
}

TEST_F(WriteObserverTest, NewContentsAndWritesThatChangeNothingAreNoOscillation) {
  for (int i = 0; i < 20; ++i) write("the same");
  for (int i = 0; i < 20; ++i) write("number " + std::to_string(i));
  EXPECT_EQ(observer.oscillations(), "");
}

}  // namespace
}  // namespace egpu::support
