// Devices of containers that the kubelet reports over its socket.
#include "controller/agent/dra/pod_resources.h"

#include <gmock/gmock.h>

#include "controller/agent/dra/proto/pod_resources_v1.grpc.pb.h"
#include "tests/agent/dra/kubelet.h"
#include "tests/agent/dra/pod_resources.h"

namespace egpu::agent::dra {
namespace {

using health::Given;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

MATCHER_P5(GivenTo, pod, container, by, driver, ids, "") {
  return arg.pod == pod && arg.container == container && arg.by == by && arg.driver == driver && arg.ids == ids;
}
using Ids = std::vector<std::string>;

class PodResourcesTest : public ::testing::Test {
 protected:
  const support::ScratchFolder scratch;
  const std::string socket = scratch.path() + "/kubelet.sock";
  FakePodResources kubelet;
  PodResources asked{socket};
};

TEST_F(PodResourcesTest, ReportsWhatDevicePluginsGave) {
  auto& main = kubelet.container("team", "notebook", "main");
  addDevices(main, "nvidia.com/gpu", {"GPU-A", "GPU-B::1"});
  addDevices(main, "nvidia.com/mig-1g.10gb", {"MIG-C"});
  addDevices(kubelet.container("team", "train", "worker"), "nvidia.com/gpu", {"GPU-D"});
  kubelet.container("team", "web", "main");
  kubelet.listen(socket);
  EXPECT_THAT(asked.list({}),
              Optional(ElementsAre(GivenTo("team/notebook", "main", "nvidia.com/gpu", "", Ids{"GPU-A", "GPU-B::1"}),
                                   GivenTo("team/notebook", "main", "nvidia.com/mig-1g.10gb", "", Ids{"MIG-C"}),
                                   GivenTo("team/train", "worker", "nvidia.com/gpu", "", Ids{"GPU-D"}))));
}

TEST_F(PodResourcesTest, ReportsWhatDriversGaveButForOurs) {
  auto& main = kubelet.container("team", "notebook", "main");
  addClaimed(main, "team", "mine", "elasticgpu.io", "egpu-1", {"elasticgpu.io/device=1", "nvidia.com/gpu=GPU-A"});
  addClaimed(main, "team", "whole", "gpu.nvidia.com", "gpu-1", {"k8s.gpu.nvidia.com/claim=u-gpu-1"});
  kubelet.listen(socket);
  EXPECT_THAT(asked.list({}),
              Optional(ElementsAre(GivenTo("team/notebook", "main", "ResourceClaim team/whole of gpu.nvidia.com",
                                           "gpu.nvidia.com", Ids{"gpu-1", "k8s.gpu.nvidia.com/claim=u-gpu-1"}))));
}

TEST_F(PodResourcesTest, OfAKubeletThatDoesNotAnswerNothingIsKnownAndItIsAskedAgain) {
  kubelet.listen(socket);
  EXPECT_THAT(asked.list({}), Optional(IsEmpty())) << "it has given nothing";
  kubelet.close();

  addDevices(kubelet.container("team", "notebook", "main"), "nvidia.com/gpu", {"GPU-A"});
  EXPECT_EQ(asked.list({}), std::nullopt) << "there is no socket";
  kubelet.listen(socket);
  EXPECT_THAT(asked.list({}),
              Optional(ElementsAre(GivenTo("team/notebook", "main", "nvidia.com/gpu", "", Ids{"GPU-A"}))));
  kubelet.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"};
  EXPECT_EQ(asked.list({}), std::nullopt);
  kubelet.status = {};
  EXPECT_THAT(asked.list({}), Optional(SizeIs(1)));
  kubelet.close();
  EXPECT_EQ(asked.list({}), std::nullopt);
  kubelet.listen(socket);
  EXPECT_THAT(asked.list({}), Optional(SizeIs(1))) << "it was started anew";
}

TEST_F(PodResourcesTest, ItsSilenceIsLoggedOnce) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(asked.list({}), std::nullopt);
  EXPECT_EQ(asked.list({}), std::nullopt);
  const auto lines = ::testing::internal::GetCapturedStderr();
  const std::string words = "the kubelet does not list";
  EXPECT_NE(lines.find(words), std::string::npos) << lines;
  EXPECT_EQ(lines.find(words), lines.rfind(words)) << lines;
}

TEST_F(PodResourcesTest, AnAnswerBeyondBoundsIsNone) {
  addDevices(kubelet.container("team", "notebook", "main"), "nvidia.com/gpu",
             {"GPU-A", std::string(PodResources::kMaxBytes, 'x')});
  kubelet.listen(socket);
  EXPECT_EQ(asked.list({}), std::nullopt);
}

TEST_F(PodResourcesTest, OneThatHangsHoldsNobodyUp) {
  Gate gate;
  kubelet.before = [&] { gate.pass({}); };
  kubelet.listen(socket);
  EXPECT_EQ(asked.list({}), std::nullopt) << "it has its time, and no more";
  std::jthread stopped([&](const std::stop_token& stop) { EXPECT_EQ(asked.list(stop), std::nullopt); });
  EXPECT_TRUE(eventually([&] { return gate.waiting() == 2; }));
  stopped.request_stop();
  stopped.join();
  gate.open();
  kubelet.close();  // its threads use the gate
}

}  // namespace
}  // namespace egpu::agent::dra
