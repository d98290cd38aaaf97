// A pool as the parameters of a class define it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "api/plugin/provisioner.hpp"

namespace egpu::remote {

struct PoolSettings {
  std::string url;        ///< "https://pool.example.com:7443", without a slash at the end
  std::string owner;      ///< name of the cluster at the pool
  std::string caFile;     ///< certificates that are trusted; empty = the system's
  std::string tokenFile;  ///< file with the bearer token, read for each request; empty = none
  std::int64_t leaseSeconds = 600;

  bool operator<(const PoolSettings& other) const;
  std::chrono::seconds lease() const { return std::chrono::seconds(leaseSeconds); }
};

/// Reads a class's parameters. The message of an invalid parameter names it, and states valid values.
sdk::Status readPool(const sdk::Parameters& parameters, PoolSettings& pool);

/// Returns the settings as JSON, for the state folder. They contain no token.
std::string toJson(const PoolSettings& pool);
/// Reads toJson(). INVALID: the text is no such JSON.
sdk::Status fromJson(const std::string& text, PoolSettings& pool);

/// Returns the text without control characters, and cut between two characters if it is long, because a pool's answers
/// appear in conditions.
std::string printable(std::string text);

/// True if the text can be a part of a URL and the name of a file: 1 to 128 letters, digits, '-' and '_'.
bool isPlainKey(const std::string& key);

}  // namespace egpu::remote
