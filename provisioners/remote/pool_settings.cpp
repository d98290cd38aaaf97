#include "provisioners/remote/pool_settings.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace egpu::remote {
namespace {

using sdk::Status;

constexpr std::size_t kMaxMessage = 500;
constexpr std::size_t kMaxKey = 128;
constexpr std::int64_t kMinLeaseSeconds = 30, kMaxLeaseSeconds = 86'400;

}  // namespace

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  if (text.size() <= kMaxMessage) return text;
  std::size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // within a character of UTF-8
  return text.substr(0, end);
}

bool isPlainKey(const std::string& key) {
  return !key.empty() && key.size() <= kMaxKey && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool PoolSettings::operator<(const PoolSettings& other) const {
  return std::tie(url, owner, caFile, tokenFile, leaseSeconds) <
         std::tie(other.url, other.owner, other.caFile, other.tokenFile, other.leaseSeconds);
}

Status readPool(const sdk::Parameters& parameters, PoolSettings& pool) {
  if (Status status = sdk::refuseUnknown(
          parameters, {"pool", "owner", "caFile", "tokenFile", "leaseSeconds", "endpointVariable", "mounts"});
      status.code != EGPU_OK)
    return status;
  pool.url = sdk::parameter(parameters, "pool");
  while (!pool.url.empty() && pool.url.back() == '/') pool.url.pop_back();
  const bool plain = std::all_of(pool.url.begin(), pool.url.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (pool.url.rfind("https://", 0) != 0 || pool.url.size() < 9 || !plain ||
      pool.url.find_first_of("?#@") != std::string::npos)
    return sdk::invalid("pool is \"" + printable(pool.url) +
                        "\"; it must be an https URL without user, query and fragment, such as "
                        "https://pool.example.com:7443");
  pool.owner = sdk::parameter(parameters, "owner");
  if (!isPlainKey(pool.owner))
    return sdk::invalid("owner is \"" + printable(pool.owner) +
                        "\"; it must be a name of letters, digits and '-' that no other cluster uses at this pool");
  pool.caFile = sdk::parameter(parameters, "caFile");
  pool.tokenFile = sdk::parameter(parameters, "tokenFile");
  for (const auto& [name, value] : {std::pair("caFile", &pool.caFile), std::pair("tokenFile", &pool.tokenFile)})
    if (!value->empty() && value->front() != '/')
      return sdk::invalid(std::string(name) + " is \"" + printable(*value) + "\"; it must be an absolute path");
  const std::string seconds = sdk::parameter(parameters, "leaseSeconds", "600");
  const auto [end, error] = std::from_chars(seconds.data(), seconds.data() + seconds.size(), pool.leaseSeconds);
  if (error != std::errc() || end != seconds.data() + seconds.size() || pool.leaseSeconds < kMinLeaseSeconds ||
      pool.leaseSeconds > kMaxLeaseSeconds)
    return sdk::invalid("leaseSeconds is \"" + printable(seconds) + "\"; it must be a whole number from 30 to 86400");
  return sdk::ok();
}

std::string toJson(const PoolSettings& pool) {
  const nlohmann::json json{{"pool", pool.url},
                            {"owner", pool.owner},
                            {"caFile", pool.caFile},
                            {"tokenFile", pool.tokenFile},
                            {"leaseSeconds", std::to_string(pool.leaseSeconds)}};
  return json.dump() + "\n";
}

Status fromJson(const std::string& text, PoolSettings& pool) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  sdk::Parameters parameters;
  if (json.is_object())
    for (const auto& [name, value] : json.items())
      if (value.is_string()) parameters[name] = value.get<std::string>();
  return readPool(parameters, pool);
}

}  // namespace egpu::remote
