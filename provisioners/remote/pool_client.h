// Client of a pool of remote GPUs, over HTTPS. README.md defines the protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::remote {

/// A pool as the class's parameters define it.
struct PoolSettings {
  std::string url;        ///< "https://pool.example.com:7443", without a slash at the end
  std::string owner;      ///< name of the cluster at the pool
  std::string caFile;     ///< certificates that are trusted; empty = the system's
  std::string tokenFile;  ///< file with the bearer token, read for each request; empty = none
  std::int64_t leaseSeconds = 600;

  bool operator<(const PoolSettings& other) const;
};

/// Reads a class's parameters. The message of an invalid parameter names it, and states valid values.
sdk::Status readPool(const sdk::Parameters& parameters, PoolSettings& pool);

/// A pool's answer to a request for a lease.
struct LeaseReply {
  sdk::Status status;
  std::string endpoint;  ///< address of the GPU; set with OK and NO_CHANGE
};

/// A GPU that a device needs.
struct LeaseRequest {
  std::string device, claim;
  std::map<std::string, std::string> amounts;  ///< quantities by resource, as in the ElasticGPU
};

/// Sends requests to pools. After a failure, a pool gets no request for a while, and calls for it fail at once, so that
/// a pool that is down does not occupy the host's calls. Thread-safe.
class PoolClient {
 public:
  using Cancelled = std::function<bool()>;

  /// Requests the lease of the key, or confirms an existing one.
  LeaseReply acquire(const PoolSettings& pool, const std::string& key, const LeaseRequest& request,
                     const Cancelled& cancelled);
  /// Extends the lease. INVALID: the pool does not know it any more.
  sdk::Status renew(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled);
  /// Ends the lease; NO_CHANGE if there is none.
  sdk::Status release(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled);
  /// Appends the keys of all leases of this owner.
  sdk::Status list(const PoolSettings& pool, std::vector<std::string>& keys, const Cancelled& cancelled);

 private:
  struct Response {
    long code = 0;  ///< HTTP status; 0 = no answer
    std::string body;
    std::string error;  ///< why there is no answer
  };
  struct Outage {
    std::chrono::steady_clock::time_point until;
    std::chrono::milliseconds pause{0};
    std::string error;
  };
  Response send(const PoolSettings& pool, const char* method, const std::string& path, const std::string& body,
                const Cancelled& cancelled);
  void note(const std::string& url, const Response& response);

  std::mutex mutex_;
  std::map<std::string, Outage> outages_;  ///< by url of the pool
};

}  // namespace egpu::remote
