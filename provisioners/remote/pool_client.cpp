#include "provisioners/remote/pool_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace egpu::remote {
namespace {

using nlohmann::json;
using sdk::Status;

constexpr long kConnectTimeoutMs = 3'000, kRequestTimeoutMs = 8'000;  // below the deadline of a quick call, 10 s
const std::string kAuthorization = "authorization: Bearer ";
constexpr std::size_t kMaxBody = 1U << 20;
constexpr int kMaxPort = 65'535;

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

/// Limits the request to HTTPS, to the time of a call, and to `transfer`.
void limit(CURL* c, Transfer& transfer) {
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https");
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
}

/// Reads the token without white space at its end. Returns why that is not possible; empty on success.
std::string readToken(const std::string& file, std::string& token) {
  errno = 0;
  std::ifstream in(file);
  token.assign(std::istreambuf_iterator<char>(in), {});
  if (!in.good()) return std::strerror(errno != 0 ? errno : EIO);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.pop_back();
  if (token.empty()) return "the file is empty";
  const bool isText = std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  return isText ? "" : "the file is not one word of printable ASCII characters";
}

/// Returns a text of the answer's JSON object, as the pool sent it; empty if there is none.
std::string rawTextOf(const std::string& body, const char* name) {
  const auto answer = json::parse(body, nullptr, false);
  if (!answer.is_object()) return {};
  const auto text = answer.find(name);
  return text != answer.end() && text->is_string() ? text->get<std::string>() : std::string();
}

std::string leasePath(const std::string& key) { return "/v1/leases/" + key; }

Status badKey(const std::string& key) { return sdk::invalid("the key \"" + key + "\" cannot be a part of a URL"); }

/// True for HOST:PORT, with a name, an IPv4 address, or an IPv6 address in brackets.
bool isEndpoint(const std::string& text) {
  constexpr std::size_t kMaxHost = 253, kMaxPortDigits = 5;
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon > kMaxHost) return false;
  const auto port = text.substr(colon + 1);
  const auto isDigit = [](unsigned char c) { return c >= '0' && c <= '9'; };
  if (port.empty() || port.size() > kMaxPortDigits || !std::all_of(port.begin(), port.end(), isDigit)) return false;
  if (std::stoi(port) < 1 || std::stoi(port) > kMaxPort) return false;
  auto host = text.substr(0, colon);
  const bool isIpv6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (isIpv6) host = host.substr(1, host.size() - 2);
  return std::all_of(host.begin(), host.end(), [&](unsigned char c) {
    const bool isHex = isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (isIpv6) return isHex || c == ':' || c == '.';
    return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
  });
}

/// Returns the status for an answer that is no success.
Status failure(const PoolSettings& pool, long code, const std::string& answer) {
  const std::string message = printable(rawTextOf(answer, "message"));
  const std::string why =
      "pool " + pool.url + ": " + (message.empty() ? "HTTP status " + std::to_string(code) : message);
  if (code == 401 || code == 403)
    return sdk::unavailable(why + "; the pool refuses the token of parameter tokenFile (" + pool.tokenFile + ")");
  if (code == 409) return sdk::exists(why);
  if (code == 400 || code == 422) return sdk::invalid(why);
  if (code == 507)
    return sdk::reschedule("pool " + pool.url + " is full: " + (message.empty() ? "no GPU is free" : message));
  return sdk::unavailable(why);
}

}  // namespace

Status PoolClient::send(const PoolSettings& pool, Exchange& exchange, const Cancelled& cancelled) {
  const auto ourFault = [&](const std::string& why) {
    exchange.isOurFault = true;
    return sdk::unavailable(why);
  };
  std::string token;
  if (!pool.tokenFile.empty())
    if (const auto why = readToken(pool.tokenFile, token); !why.empty())
      return ourFault("the token of parameter tokenFile cannot be read from " + pool.tokenFile + ": " + why);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) return ourFault("out of memory");
  curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
  if (!token.empty()) list = curl_slist_append(list, (kAuthorization + token).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);
  Transfer transfer{{}, &cancelled};
  char text[CURL_ERROR_SIZE] = "";
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, (pool.url + exchange.path).c_str());
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, exchange.method);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  if (!exchange.body.empty()) curl_easy_setopt(c, CURLOPT_COPYPOSTFIELDS, exchange.body.c_str());
  if (!pool.caFile.empty()) curl_easy_setopt(c, CURLOPT_CAINFO, pool.caFile.c_str());
  limit(c, transfer);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, text);
  const auto result = curl_easy_perform(c);
  if (result == CURLE_OK) {
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &exchange.code);
    exchange.answer = std::move(transfer.body);
    return sdk::ok();
  }
  exchange.error = printable(*text ? text : curl_easy_strerror(result));
  if (result == CURLE_SSL_CACERT_BADFILE)
    return ourFault("the certificates of parameter caFile cannot be read from " + pool.caFile + ": " + exchange.error);
  exchange.isOurFault = result == CURLE_ABORTED_BY_CALLBACK;
  return sdk::unavailable("pool " + pool.url + " does not answer: " + exchange.error);
}

Status PoolClient::sendGated(const PoolSettings& pool, Exchange& exchange, const Cancelled& cancelled) {
  PoolGate::TimePoint begin;
  if (Status status = gate_.enter(pool.url, begin); status.code != EGPU_OK) return status;
  Status status = send(pool, exchange, cancelled);
  const auto unanswered = exchange.isOurFault ? PoolGate::Answer::unsent : PoolGate::Answer::unanswered;
  gate_.leave(pool.url, begin, status.code == EGPU_OK ? PoolGate::Answer::answered : unanswered, exchange.error);
  return status;
}

LeaseReply PoolClient::acquire(const PoolSettings& pool, const std::string& key, const LeaseRequest& request,
                               const Cancelled& cancelled) {
  if (!isPlainKey(key)) return {badKey(key), {}};
  const json body{{"owner", pool.owner},
                  {"device", request.device},
                  {"claim", request.claim},
                  {"leaseSeconds", pool.leaseSeconds},
                  {"amounts", request.amounts}};
  Exchange put{"PUT", leasePath(key), body.dump()};
  if (Status status = sendGated(pool, put, cancelled); status.code != EGPU_OK) return {status, {}};
  if (put.code == 202) return {sdk::inProgress("pool " + pool.url + " prepares a GPU"), {}};
  if (put.code != 200 && put.code != 201) return {failure(pool, put.code, put.answer), {}};
  auto endpoint = rawTextOf(put.answer, "endpoint");
  if (!isEndpoint(endpoint))
    return {sdk::unavailable("pool " + pool.url + ": the endpoint \"" + printable(endpoint) +
                             "\" of the lease is not HOST:PORT, such as 10.0.0.9:7000"),
            {},
            true};
  return {put.code == 201 ? sdk::ok() : sdk::noChange(), std::move(endpoint)};
}

Status PoolClient::renew(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled) {
  if (!isPlainKey(key)) return badKey(key);
  const json body{{"owner", pool.owner}, {"leaseSeconds", pool.leaseSeconds}};
  Exchange post{"POST", leasePath(key) + "/renew", body.dump()};
  if (Status status = send(pool, post, cancelled); status.code != EGPU_OK) return status;
  if (post.code == 200) return sdk::ok();
  if (post.code == 404) return sdk::reschedule("pool " + pool.url + " does not know the lease " + key + " any more");
  return failure(pool, post.code, post.answer);
}

Status PoolClient::release(const PoolSettings& pool, const std::string& key, const Cancelled& cancelled) {
  if (!isPlainKey(key)) return sdk::noChange();  // acquire() refuses such a key
  Exchange request{"DELETE", leasePath(key) + "?owner=" + pool.owner, {}};
  if (Status status = sendGated(pool, request, cancelled); status.code != EGPU_OK) return status;
  if (request.code == 200 || request.code == 204) return sdk::ok();
  if (request.code == 404) return sdk::noChange();
  return failure(pool, request.code, request.answer);
}

Status PoolClient::list(const PoolSettings& pool, std::vector<std::string>& keys, const Cancelled& cancelled) {
  Exchange get{"GET", "/v1/leases?owner=" + pool.owner, {}};
  if (Status status = sendGated(pool, get, cancelled); status.code != EGPU_OK) return status;
  if (get.code != 200) return failure(pool, get.code, get.answer);
  const auto answer = json::parse(get.answer, nullptr, false);
  const auto all = answer.is_object() ? answer.find("keys") : answer.end();
  if (!answer.is_object() || all == answer.end() || !all->is_array())
    return sdk::unavailable("pool " + pool.url + ": the answer has no list of keys");
  for (const auto& key : *all)
    if (key.is_string() && isPlainKey(key.get<std::string>())) keys.push_back(key.get<std::string>());
  return sdk::ok();
}

}  // namespace egpu::remote
