// remote.provisioner.elasticgpu.io: GPUs of a pool that containers use over the network. Beside the controller, the
// plugin gets a lease per device from the pool. On the node, it gives containers the address of the GPU, and renews the
// lease while the device is staged.
#include <curl/curl.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/remote/lease_book.h"
#include "provisioners/remote/pool_client.h"
#include "provisioners/remote/pool_settings.h"
#include "provisioners/remote/renewal.h"

namespace {

using namespace egpu::sdk;
using egpu::remote::LeaseBook;
using egpu::remote::PoolClient;
using egpu::remote::PoolSettings;
using egpu::remote::readPool;
using egpu::remote::Renewal;

constexpr const char* kEndpointVariable = "ELASTICGPU_REMOTE_ENDPOINT";
constexpr const char* kMode = "remote";  // isolation mode

/// Splits "host:container, host:container".
Status readMounts(const std::string& text, std::vector<std::pair<std::string, std::string>>& out) {
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    auto part = text.substr(start, end - start);
    part.erase(0, part.find_first_not_of(' '));
    const auto colon = part.find(':');
    const auto path = [&](const std::string& p) { return p.size() > 1 && p.front() == '/'; };
    if (colon == std::string::npos || !path(part.substr(0, colon)) || !path(part.substr(colon + 1)))
      return invalid("mounts: \"" + part + "\" is not HOST-PATH:CONTAINER-PATH, both absolute");
    out.emplace_back(part.substr(0, colon), part.substr(colon + 1));
    start = end + 1;
  }
  return ok();
}

/// True if the device or its class names a pool. Otherwise an administrator made the device, with its endpoint.
bool hasPool(const Parameters& parameters) { return parameters.count("pool") != 0; }

/// Checks the parameters of a class without a pool.
Status checkWithoutPool(const Parameters& parameters) {
  for (const char* name : {"owner", "caFile", "tokenFile", "leaseSeconds"})
    if (parameters.count(name) != 0)
      return invalid(std::string(name) + " is given without pool; state pool, such as https://pool.example.com:7443");
  return refuseUnknown(parameters, {"pool", "endpointVariable", "mounts"});
}

bool isVariable(const std::string& name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// Calls `ask` for each pool, at the same time, because each request can take most of a call's time.
void askEach(const std::vector<PoolSettings>& pools, const std::function<void(std::size_t)>& ask) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < pools.size(); ++i) threads.emplace_back([&ask, i] { ask(i); });
  if (!pools.empty()) ask(0);
  for (auto& thread : threads) thread.join();
}

class Remote final : public Provisioner {
 public:
  Remote() { curl_global_init(CURL_GLOBAL_DEFAULT); }

  Description describe() override {
    // Advisory: the pool limits its clients.
    return {"remote.provisioner.elasticgpu.io", "0.1.0", "remote", "Advisory"};
  }

  /// Also records the pool: the host validates every class at its start, and deprovision and list have no parameters.
  Status validate(const Parameters& parameters) override {
    PoolSettings pool;
    const bool hasOne = hasPool(parameters);
    if (Status status = hasOne ? readPool(parameters, pool) : checkWithoutPool(parameters); status.code != EGPU_OK)
      return status;
    if (const auto name = parameter(parameters, "endpointVariable", kEndpointVariable); !isVariable(name))
      return invalid("endpointVariable is \"" + name + "\", which is no name of an environment variable");
    std::vector<std::pair<std::string, std::string>> mounts;
    if (Status status = readMounts(parameter(parameters, "mounts"), mounts); status.code != EGPU_OK) return status;
    if (hasOne) book_.named(pool);
    return ok();
  }

  Status provision(Call& call, const Device& device) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    call.isolation({kMode, "None", "None", "Soft"});
    if (!hasPool(device.parameters) && device.source.endpoint.empty())
      return invalid(
          "the class has no parameter pool, and no ElasticGPU of the class with remote.endpoint is Available, large "
          "enough, and on a node that pods of the claim can use");
    if (!hasPool(device.parameters)) return records_.add(device);
    PoolSettings pool;
    if (Status status = readPool(device.parameters, pool); status.code != EGPU_OK) return status;
    const auto cancelled = [&call] { return call.cancelled(); };
    if (Status status = book_.begin(device.key, pool); status.code != EGPU_OK) return status;
    auto lease = client_.acquire(pool, device.key, {device.device, device.claim, amountsOf(device)}, cancelled);
    if (lease.isUnusable) {
      const Status released = client_.release(pool, device.key, cancelled);
      lease.status.message += released.code == EGPU_OK ? "; the lease has been released" : "; " + released.message;
    }
    if (lease.status.code != EGPU_OK && lease.status.code != EGPU_NO_CHANGE) return lease.status;
    call.source({{}, {}, lease.endpoint});
    return lease.status;
  }

  /// Asks all pools if it does not know the key's. The pool that has the lease is enough; others can be down.
  Status deprovision(Call& call) override {
    const auto key = call.key();
    if (book_.isReleased(key)) return ok();
    const auto pools = book_.poolsOf(key);
    std::vector<Status> results(pools.size());
    askEach(pools,
            [&](std::size_t i) { results[i] = client_.release(pools[i], key, [&call] { return call.cancelled(); }); });
    Status failed = ok();
    for (std::size_t i = 0; i < pools.size(); ++i) {
      if (results[i].code == EGPU_OK) return book_.released(key), records_.remove(key);
      if (results[i].code == EGPU_NO_CHANGE) continue;
      if (!book_.hasLapsed(key, pools[i], client_.silence(pools[i]))) {
        failed = results[i];
        continue;
      }
      call.log(EGPU_WARN, "lease " + key + " ends without a request, as no node renews it: " + results[i].message);
    }
    if (failed.code != EGPU_OK) return failed;
    return book_.ended(key), records_.remove(key);
  }

  Status list(Call& call) override {
    const auto pools = book_.pools();
    std::vector<Status> results(pools.size());
    std::vector<std::vector<std::string>> keys(pools.size());
    askEach(pools,
            [&](std::size_t i) { results[i] = client_.list(pools[i], keys[i], [&call] { return call.cancelled(); }); });
    std::set<std::string> all;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const bool isComplete = results[i].code == EGPU_OK;
      if (!isComplete) call.log(EGPU_WARN, results[i].message);  // the other pools' keys are still useful
      if (!book_.listed(pools[i], keys[i], isComplete, client_.silence(pools[i])))
        call.log(EGPU_INFO, "pool " + pools[i].url + " has no lease and no class any more: it gets no requests");
      all.insert(keys[i].begin(), keys[i].end());
    }
    for (const auto& key : all) call.listed(key);
    return records_.list(call);
  }

  Status stage(Call& call, const Device& device) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    if (!hasPool(device.parameters)) return noChange();
    PoolSettings pool;
    if (Status status = readPool(device.parameters, pool); status.code != EGPU_OK) return status;
    // The lease may have ended between the claim's binding and the start of its pod.
    auto lease = client_.acquire(pool, device.key, {device.device, device.claim, amountsOf(device)},
                                 [&call] { return call.cancelled(); });
    if (lease.status.code != EGPU_OK && lease.status.code != EGPU_NO_CHANGE) return lease.status;
    if (lease.endpoint != device.source.endpoint)
      return unavailable("the lease ended before the pod started, and the pool now gives " + lease.endpoint +
                         " instead of " + device.source.endpoint + "; delete the claim");
    return renewal_.add(device.key, pool);
  }

  Status mount(Call& call, const Device& device, const Container&) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    if (device.source.endpoint.empty()) return unavailable("the device has no endpoint yet");
    std::vector<std::pair<std::string, std::string>> mounts;
    if (Status status = readMounts(parameter(device.parameters, "mounts"), mounts); status.code != EGPU_OK)
      return status;
    call.env("ELASTICGPU_DEVICE", device.device);
    call.env("ELASTICGPU_CLAIM", device.claim);
    call.env("ELASTICGPU_ISOLATION", kMode);
    call.env(kEndpointVariable, device.source.endpoint);
    call.env(parameter(device.parameters, "endpointVariable", kEndpointVariable), device.source.endpoint);
    for (const auto& [from, to] : mounts) call.mount(from, to);
    return ok();
  }

  Status unstage(Call& call) override { return renewal_.remove(call.key()); }

  /// Reports the leases that are not renewed. The agent calls it regularly, so a restarted process continues to renew.
  Status health(Call& call) override {
    renewal_.resume();
    for (const auto& [key, why] : renewal_.problems()) call.health(key, false, why);
    return ok();
  }

 private:
  static Status check(const Device& device) {
    if (device.cards.empty()) return ok();
    return invalid("a remote GPU uses no card of the cluster, and this device has " +
                   std::to_string(device.cards.size()));
  }
  static std::map<std::string, std::string> amountsOf(const Device& device) {
    return {device.capacity.begin(), device.capacity.end()};
  }

  Records records_;  ///< devices of administrators
  PoolClient client_;
  Renewal renewal_{client_};
  LeaseBook book_;
};

}  // namespace

EGPU_PROVISIONER(Remote)
