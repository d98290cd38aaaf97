#include "provisioners/remote/pool_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

namespace egpu::remote {
namespace {

using nlohmann::json;
using sdk::Status;
using std::chrono::milliseconds;

constexpr long kConnectTimeoutMs = 3'000, kRequestTimeoutMs = 8'000;  // below the deadline of a quick call, 10 s
constexpr milliseconds kFirstOutageBackoff{1'000}, kMaxOutageBackoff{60'000};
const std::string kAuthorization = "authorization: Bearer ";
constexpr std::size_t kMaxBody = 1U << 20;
constexpr std::size_t kMaxMessage = 500;
constexpr std::int64_t kMinLeaseSeconds = 30, kMaxLeaseSeconds = 86'400;

struct Transfer {
  std::string body;
  const PoolClient::Cancelled* cancelled;
};

extern "C" {
std::size_t receive(char* data, std::size_t size, std::size_t count, void* to) {
  auto& transfer = *static_cast<Transfer*>(to);
  if (transfer.body.size() + size * count > kMaxBody) return 0;
  transfer.body.append(data, size * count);
  return size * count;
}
int progress(void* of, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& cancelled = *static_cast<Transfer*>(of)->cancelled;
  return cancelled && cancelled() ? 1 : 0;
}
}

/// Returns the token without white space at its end. False if the file cannot be read or contains no token.
bool readToken(const std::string& file, std::string& token) {
  std::ifstream in(file);
  token.assign(std::istreambuf_iterator<char>(in), {});
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.pop_back();
  const bool printable = std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  return in.good() && !token.empty() && printable;
}

/// Returns the text without control characters, because a pool's answers appear in conditions.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text.substr(0, kMaxMessage);
}

/// Returns a text of the answer's JSON object; empty if there is none.
std::string textOf(const std::string& body, const char* name) {
  const auto answer = json::parse(body, nullptr, false);
  if (!answer.is_object()) return {};
  const auto text = answer.find(name);
  return text != answer.end() && text->is_string() ? printable(text->get<std::string>()) : std::string();
}

std::string leasePath(const std::string& key) { return "/v1/leases/" + key; }

bool isPlainKey(const std::string& key) {
  return !key.empty() && key.size() <= 128 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Status badKey(const std::string& key) { return sdk::invalid("the key \"" + key + "\" cannot be a part of a URL"); }

/// Returns the status for an answer that is no success.
Status failure(const PoolSettings& pool, long code, const std::string& body, const std::string& error) {
  const std::string message = textOf(body, "message");
  const std::string why =
      "pool " + pool.url + ": " + (message.empty() ? "HTTP status " + std::to_string(code) : message);
  if (code == 0) return sdk::unavailable("pool " + pool.url + " does not answer: " + printable(error));
  if (code == 401 || code == 403)
    return sdk::unavailable(why + "; the pool refuses the token of parameter tokenFile (" + pool.tokenFile + ")");
  if (code == 409) return sdk::exists(why);
  if (code == 400 || code == 422) return sdk::invalid(why);
  if (code == 507)
    return sdk::unavailable("pool " + pool.url + " is full: " + (message.empty() ? "no GPU is free" : message));
  return sdk::unavailable(why);
}

}  // namespace

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

PoolClient::Response PoolClient::send(const PoolSettings& pool, const char* method, const std::string& path,
                                      const std::string& body, const Cancelled& cancelled) {
  {
    const std::lock_guard lock(mutex_);
    const auto outage = outages_.find(pool.url);
    if (outage != outages_.end() && std::chrono::steady_clock::now() < outage->second.until)
      return {0, {}, outage->second.error};
  }
  Response response;
  std::string token;
  if (!pool.tokenFile.empty() && !readToken(pool.tokenFile, token)) {
    response.error = "the token cannot be read from " + pool.tokenFile;
    return response;
  }
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) return {0, {}, "out of memory"};
  curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
  if (!token.empty()) list = curl_slist_append(list, (kAuthorization + token).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);
  Transfer transfer{{}, &cancelled};
  char text[CURL_ERROR_SIZE] = "";
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, (pool.url + path).c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  if (!body.empty()) curl_easy_setopt(c, CURLOPT_COPYPOSTFIELDS, body.c_str());
  if (!pool.caFile.empty()) curl_easy_setopt(c, CURLOPT_CAINFO, pool.caFile.c_str());
  curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(c, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, kRequestTimeoutMs);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, text);
  const auto result = curl_easy_perform(c);
  if (result != CURLE_OK) {
    response.error = *text ? text : curl_easy_strerror(result);
    if (result != CURLE_ABORTED_BY_CALLBACK) note(pool.url, response);
    return response;
  }
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &response.code);
  response.body = std::move(transfer.body);
  note(pool.url, response);
  return response;
}

void PoolClient::note(const std::string& url, const Response& response) {
  const std::lock_guard lock(mutex_);
  if (response.code != 0) {
    outages_.erase(url);
    return;
  }
  auto& outage = outages_[url];
  outage.pause = std::min(std::max(outage.pause * 2, kFirstOutageBackoff), kMaxOutageBackoff);
  outage.until = std::chrono::steady_clock::now() + outage.pause;
  outage.error = response.error;
}

LeaseReply PoolClient::acquire(const PoolSettings& pool, const std::string& key, const LeaseRequest& request,
                               const Cancelled& cancelled) {
  if (!isPlainKey(key)) return {badKey(key), {}};
  json body{{"owner", pool.owner},
            {"device", request.device},
            {"claim", request.claim},
            {"leaseSeconds", pool.leaseSeconds},
            {"amounts", request.amounts}};
  const auto response = send(pool, "PUT", leasePath(key), body.dump(), cancelled);
  if (response.code == 202) return {sdk::inProgress("pool " + pool.url + " prepares a GPU"), {}};
  if (response.code != 200 && response.code != 201)
    return {failure(pool, response.code, response.body, response.error), {}};
  auto endpoint = textOf(response.body, "endpoint");
  if (endpoint.empty()) return {sdk::unavailable("pool " + pool.url + ": the lease has no endpoint"), {}};
  return {response.code == 201 ? sdk::ok() : sdk::noChange(), std::move(endpoint)};
}

Status PoolClient::renew(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled) {
  if (!isPlainKey(key)) return badKey(key);
  const json body{{"owner", pool.owner}, {"leaseSeconds", pool.leaseSeconds}};
  const auto response = send(pool, "POST", leasePath(key) + "/renew", body.dump(), cancelled);
  if (response.code == 200) return sdk::ok();
  if (response.code == 404) return sdk::invalid("pool " + pool.url + " does not know the lease " + key + " any more");
  return failure(pool, response.code, response.body, response.error);
}

Status PoolClient::release(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled) {
  if (!isPlainKey(key)) return sdk::noChange();  // acquire() refuses such a key
  const auto response = send(pool, "DELETE", leasePath(key) + "?owner=" + pool.owner, {}, cancelled);
  if (response.code == 200 || response.code == 204) return sdk::ok();
  if (response.code == 404) return sdk::noChange();
  return failure(pool, response.code, response.body, response.error);
}

Status PoolClient::list(const PoolSettings& pool, std::vector<std::string>& keys, const Cancelled& cancelled) {
  const auto response = send(pool, "GET", "/v1/leases?owner=" + pool.owner, {}, cancelled);
  if (response.code != 200) return failure(pool, response.code, response.body, response.error);
  const auto answer = json::parse(response.body, nullptr, false);
  const auto all = answer.is_object() ? answer.find("keys") : answer.end();
  if (!answer.is_object() || all == answer.end() || !all->is_array())
    return sdk::unavailable("pool " + pool.url + ": the answer has no list of keys");
  for (const auto& key : *all)
    if (key.is_string() && isPlainKey(key.get<std::string>())) keys.push_back(key.get<std::string>());
  return sdk::ok();
}

}  // namespace egpu::remote
