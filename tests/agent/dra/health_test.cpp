// Device health that the kubelet receives, in both versions of the service.
#include "controller/agent/dra/proto/health_v1.grpc.pb.h"
#include "controller/agent/dra/proto/health_v1alpha1.grpc.pb.h"
#include "tests/agent/dra/kubelet.h"

namespace egpu::agent::dra {
namespace {

using State = DeviceHealth::State;

DeviceHealth health(const std::string& device, State state, const std::string& message = {}) {
  return {"node-a", device, state, base::Clock::Wall(std::chrono::seconds(1'700'000'000)), message};
}

template <class Service, class Request, class Response>
struct Version {
  using S = Service;
  using Q = Request;
  using R = Response;
};
template <class V>
class HealthTest : public KubeletTest {
 protected:
  void watch() {
    stub = V::S::NewStub(dial(pluginSocket()));
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    stream = stub->NodeWatchResources(&context, typename V::Q());
  }
  std::unique_ptr<typename V::S::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<typename V::R>> stream;
};
using Versions = ::testing::Types<
    Version<::v1::DRAResourceHealth, ::v1::NodeWatchResourcesRequest, ::v1::NodeWatchResourcesResponse>,
    Version<::v1alpha1::DRAResourceHealth, ::v1alpha1::NodeWatchResourcesRequest,
            ::v1alpha1::NodeWatchResourcesResponse>>;
TYPED_TEST_SUITE(HealthTest, Versions);

TYPED_TEST(HealthTest, ReportsAllAtFirstAndAgainWhenItChanges) {
  this->health.set({health("egpu-1", State::healthy), health("egpu-2", State::unhealthy, "XID 79: fell off the bus")});
  this->start();
  this->watch();
  typename TypeParam::R got;
  ASSERT_TRUE(this->stream->Read(&got));
  ASSERT_EQ(got.devices_size(), 2);
  EXPECT_EQ(got.devices(0).device().pool_name(), "node-a");
  EXPECT_EQ(got.devices(0).device().device_name(), "egpu-1");
  EXPECT_EQ(static_cast<int>(got.devices(0).health()), 1);
  EXPECT_EQ(got.devices(0).last_updated_time(), 1'700'000'000);
  EXPECT_EQ(static_cast<int>(got.devices(1).health()), 2);
  EXPECT_EQ(got.devices(1).message(), "XID 79: fell off the bus");

  this->health.set({health("egpu-2", State::unknown)});
  this->server->healthChanged();
  ASSERT_TRUE(this->stream->Read(&got));
  ASSERT_EQ(got.devices_size(), 1);
  EXPECT_EQ(static_cast<int>(got.devices(0).health()), 0);
}

TYPED_TEST(HealthTest, EndsWithTheAgent) {
  this->start();
  this->watch();
  typename TypeParam::R got;
  ASSERT_TRUE(this->stream->Read(&got));
  EXPECT_EQ(got.devices_size(), 0);
  this->server->stop();
  while (this->stream->Read(&got)) {
  }
  EXPECT_EQ(this->stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TYPED_TEST(HealthTest, WordsThatAreNotUtf8OrTooLongAreMended) {
  this->health.set({health("egpu-1", State::unhealthy, "bad \xff byte"),
                    health("egpu-2", State::unhealthy, std::string(100'000, 'x'))});
  this->start();
  this->watch();
  typename TypeParam::R got;
  ASSERT_TRUE(this->stream->Read(&got));
  EXPECT_EQ(got.devices(0).message(), "bad ? byte");
  EXPECT_LE(got.devices(1).message().size(), 1024u);
}

/// The kubelet closes its stream when it registers a driver again. Streams without a reader end: the test opens more
/// than the limit.
TYPED_TEST(HealthTest, StreamsThatNobodyHearsAreReplaced) {
  this->start();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(eventually([&] {
      this->watch();
      typename TypeParam::R got;
      const bool heard = this->stream->Read(&got);
      this->context.TryCancel();
      while (this->stream->Read(&got)) {
      }
      const bool ended = !this->stream->Finish().ok();
      this->stream.reset();
      std::destroy_at(&this->context);
      std::construct_at(&this->context);
      return heard && ended;
    })) << i;
}

}  // namespace
}  // namespace egpu::agent::dra
