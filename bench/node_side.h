// A node for benchmarks: an API server over loopback with bound claims, a driver root for the fake NVML, and plugins in
// processes of their own.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/claim_times.h"
#include "bench/measure.h"
#include "controller/agent/prepare/preparer.h"
#include "controller/http/http.h"
#include "controller/kube/transport/curl_transport.h"
#include "controller/plugin/hosted_registry.h"
#include "tests/nvml/fake_nvml.h"
#include "tests/provisioners/loader_cache_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/world.h"

namespace egpu::bench {

/// A machine with eight cards named as World names them, and with the files that the driver's installer leaves.
class NvidiaMachine {
 public:
  NvidiaMachine() : root(std::getenv("ELASTICGPU_SYSTEM_ROOT")) {  // NOLINT(concurrency-mt-unsafe): one thread yet
    for (int i = 0; i < 8; ++i) fake.file["devices"][i]["uuid"] = "GPU-n1-" + std::to_string(i);
    fake.write();
    const std::string version = fake.file["driver"].as<std::string>();
    put("/sys/module/nvidia/version", version + "\n");
    put("/proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n");
    for (const char* node : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}) put(std::string("/dev/") + node, "");
    for (int i = 0; i < 8; ++i) {
      const std::string number = std::to_string(i);
      put("/dev/nvidia" + number, "");
      put("/proc/driver/nvidia/gpus/0000:0" + number + ":00.0/information",
          "GPU UUID: \t GPU-n1-" + number + "\nDevice Minor: \t " + number + "\n");
    }
    std::vector<plugin::testing::CachedLibrary> cached;
    const std::string folder = "/usr/lib/" EGPU_MULTIARCH "/";
    constexpr int kOthers = 1500, kDrivers = 24;  // names in the loader cache, as on a developer's machine
    for (int i = 0; i < kOthers; ++i)
      cached.push_back({"libother" + std::to_string(i) + ".so.1", folder + "libother" + std::to_string(i) + ".so.1"});
    for (int i = 0; i < kDrivers; ++i) {
      const std::string soname = "libnvidia-part" + std::to_string(i) + ".so.1",
                        file = "libnvidia-part" + std::to_string(i) + ".so." + version;
      put(folder + file, "");
      std::filesystem::create_symlink(file, root + folder + soname);
      cached.push_back({soname, folder + soname});
    }
    put("/etc/ld.so.cache", plugin::testing::loaderCache(cached));
  }

  nvidia::testing::FakeNvml fake{"h100"};
  const std::string root;

 private:
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path, std::ios::binary) << text;
  }
};

/// A node n1 with `claims` claims, each bound and reserved for a pod of its own. They ask for shares of a card; if
/// there are ten or more, the first two ask for a whole card each.
class NodeSide {
 public:
  NodeSide(const NvidiaMachine& machine, int claims) : machine_(machine) {
    world.addNamespace("default");
    world.addNode("n1");
    for (int i = 0; i < 8; ++i) world.addCard("n1", i);
    world.registry.add(whole_);
    world.addClass("share");
    world.addClass("whole", "Delete", "Immediate", {}, kWhole);
    support::Driver driver(world.handler(), *world.transport, world.registry, world.clock);
    driver.start();
    for (int i = 0; i < claims; ++i) {
      const std::string name = "c" + std::to_string(i);
      if (claims >= 10 && i < 2)
        world.addClaim(name, "whole", {{"gpu", "1"}});
      else
        world.addClaim(name, "share", {{"gpu-core", "1"}, {"gpu-memory", "16Mi"}});
      world.addPod(name, {name});
    }
    driver.settle();
    for (int i = 0; i < claims; ++i) {
      const std::string name = "c" + std::to_string(i);
      world.schedule(name);
      refs.push_back({"default", name, world.resourceClaim(name)->metadata.uid});
    }
    world.registry.forgetListeners();
    for (const char* name : {support::World::kPlugin, kWhole}) {
      std::string why = "not loaded";
      auto* real = hosted_.find(name, &why);
      if (real == nullptr) must(base::Status(base::Code::unavailable, why));
      registry_.add(*watched_.emplace_back(std::make_unique<WatchedPlugin>(*real)));
    }
    must(folder.open());
  }

  support::World world;
  std::vector<agent::ClaimRef> refs;

 private:
  static constexpr const char* kWhole = "physical.provisioner.elasticgpu.io";
  static kube::Endpoint endpointOf(const http::Listener& listener) {
    kube::Endpoint made;
    made.server = "http://" + listener.address();
    return made;
  }
  plugin::HostOptions hostOptions() const {
    plugin::HostOptions options;
    options.env = machine_.fake.environment();
    options.env.push_back("ELASTICGPU_STATE_DIR=" + state_.path());
    return options;
  }
  agent::PreparerOptions preparerOptions() const {
    agent::PreparerOptions options;
    options.node = "n1";
    options.permitted.stateFolder = state_.path();
    options.permitted.hostRoot = "/";
    options.permitted.systemRoot = machine_.root;
    return options;
  }

  const NvidiaMachine& machine_;
  const support::ScratchFolder state_;
  support::FakeProvisioner whole_{kWhole, "physicalGPU"};
  base::SystemClock clock_;
  plugin::HostedRegistry hosted_{{EGPU_PROVISIONER_DIR "/libgpushare.so", EGPU_PROVISIONER_DIR "/libphysical.so"},
                                 hostOptions(),
                                 clock_,
                                 world.random};
  std::vector<std::unique_ptr<WatchedPlugin>> watched_;
  support::FakeRegistry registry_;
  std::unique_ptr<http::Listener> listener_ = must(http::listen("127.0.0.1:0", world.handler()));
  std::unique_ptr<kube::Transport> curl_ = must(kube::curlTransport(endpointOf(*listener_), clock_));
  WatchedTransport transport_{*curl_};
  kube::Client client_{transport_, clock_, world.random, world.metrics};
  support::EventLog events_;

 public:
  WatchedFolder folder{machine_.root + "/var/run/cdi"};
  agent::ClaimPreparer preparer{client_, registry_, events_, folder, preparerOptions()};
};

}  // namespace egpu::bench
