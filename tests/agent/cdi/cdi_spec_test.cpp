#include "controller/codec/cdi_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace egpu::codec {
namespace {

CdiSpec spec(const std::string& uid = "a1b2") {
  CdiSpec out;
  out.device = "egpu-1";
  out.deviceUid = uid;
  out.claimNamespace = "team";
  out.claimName = "c";
  out.claimUid = "u-1";
  out.provisioner = "x.example.com";
  out.cards = {{"gpu-1", "GPU-1", 100, 4096, 50, 2048}};
  return out;
}

TEST(CdiSpec, ReportsAllAgainThatItWasGiven) {
  CdiSpec all = spec();
  all.edits.env = {{"A", "1=2"}, {"B", ""}, {"C", "a \"b\"\n\\"}};
  all.edits.deviceNodes = {{"/dev/nvidia0", "/other/nvidia0", "rw"}, {"/dev/nvidiactl", "", "rwm"}};
  all.edits.mounts = {{"/a", "/b", {"ro", "bind"}}, {"/c", "/d", {}}};
  all.edits.cdiDevices = {"nvidia.com/gpu=GPU-1"};
  all.edits.hooks = {{"createRuntime", "/bin/a", {"a", "create"}, {"A=1"}, 30}, {"poststop", "/bin/a", {}, {}, 0}};
  all.boot = "6f1c";
  all.driver = "535.104.05";
  all.minors = {3};
  all.cards[0].slots.bits = 0x103;
  const auto again = decodeCdiSpec(encodeCdiSpec(all));
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(*again, all);
}

TEST(CdiSpec, IsWhatRuntimesReadAndNothingElse) {
  CdiSpec one = spec();
  one.edits.env = {{"A", "1"}};
  one.edits.deviceNodes = {{"/dev/nvidia0", "/dev/nvidia0", "rw"}};
  one.edits.mounts = {{"/a", "/b", {"ro"}}};
  EXPECT_EQ(
      encodeCdiSpec(one),
      R"({"cdiVersion":"0.3.0","kind":"elasticgpu.io/device","devices":[{"name":"a1b2","containerEdits":{"env":[)"
      R"("ELASTICGPU_PREPARED_FOR={)"
      R"(\"namespace\":\"team\",\"resourceClaim\":\"c\",\"uid\":\"u-1\",\"device\":\"egpu-1\",)"
      R"(\"provisioner\":\"x.example.com\",)"
      R"(\"cards\":[{\"name\":\"gpu-1\",\"uuid\":\"GPU-1\",\"core\":100,\"memory\":4096,\"chargedCore\":50,)"
      R"(\"chargedMemory\":2048}]}","A=1"],)"
      R"("deviceNodes":[{"path":"/dev/nvidia0","permissions":"rw"}],"mounts":[{"hostPath":"/a","containerPath":"/b",)"
      R"("options":["ro"]}]}}]})"
      "\n");
}

TEST(CdiSpec, HooksAreWhatRuntimesExecute) {
  CdiSpec one = spec();
  one.edits.hooks = {{"createRuntime", "/bin/a", {"a", "b"}, {"A=1"}, 30}};
  EXPECT_NE(encodeCdiSpec(one).find(R"("hooks":[{"hookName":"createRuntime","path":"/bin/a","args":["a","b"],)"
                                    R"("env":["A=1"],"timeout":30}])"),
            std::string::npos)
      << encodeCdiSpec(one);
}

TEST(CdiSpec, HasTheLowestVersionThatItNeeds) {
  const auto version = [](const CdiSpec& of) { return encodeCdiSpec(of).substr(15, 5); };
  EXPECT_EQ(version(spec()), "0.3.0");
  EXPECT_EQ(version(spec("1a")), "0.5.0") << "a device's name begins with a digit";
  CdiSpec moved = spec();
  moved.edits.deviceNodes = {{"/dev/a", "/dev/b", "rw"}};
  EXPECT_EQ(version(moved), "0.5.0") << "hostPath";
}

TEST(CdiSpec, WhatIsNoFileOfOursIsRefusedInWords) {
  const std::string good = encodeCdiSpec(spec());
  const auto without = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    text.replace(text.find(what), what.size(), by);
    return text;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {good.substr(0, good.size() / 2), "not a JSON object"},
      {without("elasticgpu.io/device", "nvidia.com/gpu"), "its kind is not elasticgpu.io/device"},
      {R"({"kind":"elasticgpu.io/device","devices":[]})", "must have one device, not 0"},
      {R"({"kind":"elasticgpu.io/device","devices":[1]})", "no name"},
      {R"({"kind":"elasticgpu.io/device","devices":[{"name":"x","containerEdits":{"env":[1]}}]})", "not valid CDI"},
      {R"({"kind":"elasticgpu.io/device","devices":[{"name":"x","containerEdits":{"mounts":[{}]}}]})", "not valid CDI"},
      {R"({"kind":"elasticgpu.io/device","devices":[{"name":"x","containerEdits":null}]})", "ELASTICGPU_PREPARED_FOR"},
      {without("ELASTICGPU_PREPARED_FOR", "OTHER"), "ELASTICGPU_PREPARED_FOR does not name"},
      {without("\\\"uid\\\":\\\"u-1\\\",", ""), "ELASTICGPU_PREPARED_FOR does not name"},
      {without("\\\"chargedCore\\\":50", "\\\"chargedCore\\\":-50"), "ELASTICGPU_PREPARED_FOR does not name"},
      {without("\\\"chargedCore\\\":50", "\\\"chargedCore\\\":18446744073709551615"), "ELASTICGPU_PREPARED_FOR does"},
  };
  for (const auto& [text, message] : cases) {
    const auto decoded = decodeCdiSpec(text);
    EXPECT_FALSE(decoded.ok()) << text;
    EXPECT_NE(decoded.status().message().find(message), std::string::npos) << text << " → " << decoded.status().str();
  }
}

TEST(CdiSpec, APodRunsIfOneOfItsContainersDoes) {
  const auto pod = [](const std::string& status) { return hasRunningContainer(R"({"status":{)" + status + "}}"); };
  const std::string running = R"([{"state":{"running":{"startedAt":"x"}}}])",
                    ended = R"([{"state":{"terminated":{}}}])";
  EXPECT_TRUE(pod(R"("phase":"Running","containerStatuses":)" + running));
  EXPECT_FALSE(pod(R"("phase":"Running","containerStatuses":)" + ended)) << "the phase comes later";
  EXPECT_TRUE(pod(R"("phase":"Pending","initContainerStatuses":)" + running));
  EXPECT_TRUE(pod(R"("phase":"Running")"));
  EXPECT_FALSE(pod(R"("phase":"Pending","containerStatuses":[{"state":{"waiting":{}}},{"state":null},7])"));
  EXPECT_FALSE(hasRunningContainer("{"));
  EXPECT_FALSE(hasRunningContainer("[]"));
}

}  // namespace
}  // namespace egpu::codec
