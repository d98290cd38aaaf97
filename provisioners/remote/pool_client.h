// Client of a pool of remote GPUs, over HTTPS. README.md defines the protocol.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"
#include "provisioners/remote/pool_gate.h"
#include "provisioners/remote/pool_settings.h"

namespace egpu::remote {

/// A pool's answer to a request for a lease.
struct LeaseReply {
  sdk::Status status;
  std::string endpoint;     ///< address of the GPU, HOST:PORT; set with OK and NO_CHANGE
  bool isUnusable = false;  ///< there is a lease, but its endpoint is no HOST:PORT: release it
};

/// A GPU that a device needs.
struct LeaseRequest {
  std::string device, claim;
  std::map<std::string, std::string> amounts;  ///< quantities by resource, as in the ElasticGPU
};

/// Sends requests to pools, as far as their gate permits. Thread-safe.
class PoolClient {
 public:
  using Cancelled = std::function<bool()>;

  /// Requests the lease of the key, or confirms an existing one.
  LeaseReply acquire(const PoolSettings& pool, const std::string& key, const LeaseRequest& request,
                     const Cancelled& cancelled);
  /// Extends the lease, regardless of the gate: the caller limits its requests. RESCHEDULE: the pool does not know it
  /// any more.
  sdk::Status renew(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled);
  /// Ends the lease; NO_CHANGE if there is none.
  sdk::Status release(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled);
  /// Appends the keys of all leases of this owner.
  sdk::Status list(const PoolSettings& pool, std::vector<std::string>& keys, const Cancelled& cancelled);
  /// Returns the time since which the pool has answered no request, zero if it answered the last one.
  std::chrono::milliseconds silence(const PoolSettings& pool) { return gate_.silence(pool.url); }

 private:
  /// A request, and its answer.
  struct Exchange {
    const char* method;
    std::string path, body;
    long code = 0;  ///< HTTP status; 0 = no answer
    std::string answer{};
    std::string error{};      ///< why there is no answer
    bool isOurFault = false;  ///< the request could not be sent for a reason that is not the pool's
  };
  /// Sends the request. OK: there is an answer with any HTTP status.
  sdk::Status send(const PoolSettings& pool, Exchange& exchange, const Cancelled& cancelled);
  /// Sends the request if the gate permits it.
  sdk::Status sendGated(const PoolSettings& pool, Exchange& exchange, const Cancelled& cancelled);

  PoolGate gate_;
};

}  // namespace egpu::remote
