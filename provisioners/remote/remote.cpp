// remote.provisioner.elasticgpu.io: GPUs of a pool that containers use over the network. Beside the controller, the
// plugin gets a lease per device from the pool. On the node, it gives containers the address of the GPU, and renews the
// lease while the device is staged.
#include <curl/curl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/remote/pool_client.h"

namespace {

using namespace egpu::sdk;
using egpu::remote::LeaseRequest;
using egpu::remote::PoolClient;
using egpu::remote::PoolSettings;
using egpu::remote::readPool;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kMaxReleased = 10'000;
constexpr const char* kEndpointVariable = "ELASTICGPU_REMOTE_ENDPOINT";

std::string stateDir() {
  const char* given = std::getenv("ELASTICGPU_STATE_DIR");
  return std::string(given && *given ? given : "/var/lib/elasticgpu") + "/remote";
}

std::string poolsFile() { return stateDir() + "-pools.json"; }

nlohmann::json toJson(const PoolSettings& pool) {
  return {{"pool", pool.url},
          {"owner", pool.owner},
          {"caFile", pool.caFile},
          {"tokenFile", pool.tokenFile},
          {"leaseSeconds", std::to_string(pool.leaseSeconds)}};
}
/// Reads toJson(). INVALID: it is no such object.
Status fromJson(const nlohmann::json& json, PoolSettings& pool) {
  Parameters parameters;
  if (json.is_object())
    for (const auto& [name, value] : json.items())
      if (value.is_string()) parameters[name] = value.get<std::string>();
  return readPool(parameters, pool);
}

/// Replaces the file as a whole.
Status writeFile(const std::string& path, const nlohmann::json& json) {
  {
    std::ofstream out(path + ".new", std::ios::trunc);
    out << json.dump() << "\n";
    if (!out.flush()) return unavailable("cannot write " + path + ": " + std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(path + ".new", path, error);
  return error ? unavailable("cannot write " + path + ": " + error.message()) : ok();
}

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

bool isVariable(const std::string& name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// Renews the leases of this node's staged devices, on a thread of its own. Each staged device is a file in the state
/// folder, so a restarted process continues. Thread-safe.
class Renewal {
 public:
  explicit Renewal(PoolClient& client) : client_(client) {}
  ~Renewal() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  /// Begins with the device. OK: the file is new; NO_CHANGE: it exists.
  Status add(const std::string& key, const PoolSettings& pool) {
    std::error_code error;
    std::filesystem::create_directories(stateDir(), error);
    const auto path = stateDir() + "/" + key;
    const bool known = std::filesystem::exists(path, error);
    if (Status status = writeFile(path, toJson(pool)); status.code != EGPU_OK) return status;
    resume();
    return known ? noChange() : ok();
  }
  Status remove(const std::string& key) {
    std::error_code error;
    const bool removed = std::filesystem::remove(stateDir() + "/" + key, error);
    if (error) return unavailable("cannot remove " + stateDir() + "/" + key + ": " + error.message());
    return removed ? ok() : noChange();
  }
  /// Starts the thread, if devices are staged.
  void resume() {
    const std::lock_guard lock(mutex_);
    std::error_code error;
    if (thread_.joinable() || stop_ || std::filesystem::is_empty(stateDir(), error) || error) return;
    thread_ = std::thread([this] { run(); });
  }

 private:
  struct Due {
    steady_clock::time_point at;
    std::string problem;  ///< message of the last renewal if it failed
  };

  void run() {
    std::map<std::string, Due> due;
    for (std::unique_lock lock(mutex_); !stop_; wake_.wait_for(lock, seconds(1))) {
      lock.unlock();
      std::map<std::string, Due> next;
      std::error_code error;
      for (const auto& file : std::filesystem::directory_iterator(stateDir(), error)) {
        const auto key = file.path().filename().string();
        if (key.find('.') != std::string::npos) continue;
        auto& entry = next[key];
        if (const auto known = due.find(key); known != due.end()) entry = known->second;
        if (steady_clock::now() >= entry.at) renew(file.path(), key, entry);
      }
      due = std::move(next);
      lock.lock();
    }
  }
  /// Renews at a third of the lease, so that two renewals can fail.
  void renew(const std::filesystem::path& path, const std::string& key, Due& due) {
    std::ifstream in(path);
    const auto lease = nlohmann::json::parse(in, nullptr, false);
    PoolSettings pool;
    Status status = fromJson(lease, pool);
    if (status.code == EGPU_OK) status = client_.renew(pool, key, [this] { return stopping(); });
    due.at = steady_clock::now() + (status.code == EGPU_OK ? seconds(pool.leaseSeconds) / 3 : seconds(5));
    if (status.message == due.problem) return;
    due.problem = status.message;
    const auto text =
        "lease " + key + (status.code == EGPU_OK ? " is renewed again" : " is not renewed: " + status.message);
    detail::host->log(status.code == EGPU_OK ? EGPU_INFO : EGPU_WARN, text.c_str());
  }
  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  PoolClient& client_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;   ///< guarded by mutex_
  std::thread thread_;  ///< guarded by mutex_
};

class Remote final : public Provisioner {
 public:
  Remote() {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    std::ifstream in(poolsFile());
    const auto all = nlohmann::json::parse(in, nullptr, false);
    PoolSettings pool;
    if (all.is_array())
      for (const auto& each : all)
        if (fromJson(each, pool).code == EGPU_OK) pools_.insert(pool);
  }

  Description describe() override {
    // Advisory: the pool limits its clients.
    return {"remote.provisioner.elasticgpu.io", "0.1.0", "remote", "Advisory"};
  }

  /// Also learns the pool: the host validates every class at its start, and deprovision and list have no parameters.
  Status validate(const Parameters& parameters) override {
    PoolSettings pool;
    if (Status status = readPool(parameters, pool); status.code != EGPU_OK) return status;
    if (const auto name = parameter(parameters, "endpointVariable", kEndpointVariable); !isVariable(name))
      return invalid("endpointVariable is \"" + name + "\", which is no name of an environment variable");
    std::vector<std::pair<std::string, std::string>> mounts;
    if (Status status = readMounts(parameter(parameters, "mounts"), mounts); status.code != EGPU_OK) return status;
    learn(pool, {});
    return ok();
  }

  Status provision(Call& call, const Device& device) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    call.isolation({"remote", "None", "None", "Soft"});
    if (device.parameters.empty()) return records_.add(device);  // an administrator's device
    PoolSettings pool;
    if (Status status = readPool(device.parameters, pool); status.code != EGPU_OK) return status;
    auto lease = client_.acquire(pool, device.key, {device.device, device.claim, amountsOf(device)},
                                 [&call] { return call.cancelled(); });
    if (lease.status.code != EGPU_OK && lease.status.code != EGPU_NO_CHANGE) return lease.status;
    learn(pool, device.key);
    call.source({{}, {}, lease.endpoint});
    return lease.status;
  }

  /// Asks all pools if it does not know the key's. The pool that has the lease is enough; others can be down.
  Status deprovision(Call& call) override {
    const auto key = call.key();
    if (isReleased(key)) return ok();
    Status failed = ok();
    for (const auto& pool : poolsOf(key)) {
      Status status = client_.release(pool, key, [&call] { return call.cancelled(); });
      if (status.code == EGPU_OK) return forget(key);
      if (status.code != EGPU_NO_CHANGE) failed = status;
    }
    return failed.code == EGPU_OK ? forget(key) : failed;
  }

  Status list(Call& call) override {
    std::vector<std::string> keys;
    for (const auto& pool : poolsOf({}))
      if (Status status = client_.list(pool, keys, [&call] { return call.cancelled(); }); status.code != EGPU_OK)
        call.log(EGPU_WARN, status.message);  // the other pools' keys are still useful
    for (const auto& key : std::set<std::string>(keys.begin(), keys.end())) call.listed(key);
    return records_.list(call);
  }

  Status stage(Call& call, const Device& device) override {
    if (Status status = check(device); status.code != EGPU_OK) return status;
    if (device.parameters.empty()) return noChange();
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
    call.env(kEndpointVariable, device.source.endpoint);
    call.env(parameter(device.parameters, "endpointVariable", kEndpointVariable), device.source.endpoint);
    for (const auto& [from, to] : mounts) call.mount(from, to);
    return ok();
  }

  Status unstage(Call& call) override { return renewal_.remove(call.key()); }

  /// Replies nothing. The agent calls it regularly, so a restarted process continues to renew.
  Status health(Call&) override { return renewal_.resume(), ok(); }

 private:
  static Status check(const Device& device) {
    if (device.cards.empty()) return ok();
    return invalid("a remote GPU uses no card of the cluster, and this device has " +
                   std::to_string(device.cards.size()));
  }
  static std::map<std::string, std::string> amountsOf(const Device& device) {
    return {device.capacity.begin(), device.capacity.end()};
  }
  void learn(const PoolSettings& pool, const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (pools_.insert(pool).second) {
      auto all = nlohmann::json::array();
      for (const auto& each : pools_) all.push_back(toJson(each));
      // The next process of the plugin, which may be asked to deprovision before any class is validated, reads it.
      if (const Status status = writeFile(poolsFile(), all); status.code != EGPU_OK)
        detail::host->log(EGPU_WARN, status.message.c_str());
    }
    if (key.empty()) return;
    leases_.insert_or_assign(key, pool);
    released_.erase(key);
  }
  bool isReleased(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return released_.count(key) != 0;
  }
  Status forget(const std::string& key) {
    records_.remove(key);
    const std::lock_guard lock(mutex_);
    leases_.erase(key);
    if (released_.size() >= kMaxReleased) released_.clear();
    released_.insert(key);
    return ok();
  }
  /// Returns the pool of the key's lease or, if it is unknown, all pools.
  std::vector<PoolSettings> poolsOf(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (const auto known = leases_.find(key); known != leases_.end()) return {known->second};
    return {pools_.begin(), pools_.end()};
  }

  Records records_;  ///< devices of administrators
  PoolClient client_;
  Renewal renewal_{client_};
  std::mutex mutex_;
  std::set<PoolSettings> pools_;
  std::map<std::string, PoolSettings> leases_;  ///< by key
  std::set<std::string> released_;              ///< keys whose leases have ended
};

}  // namespace

EGPU_PROVISIONER(Remote)
