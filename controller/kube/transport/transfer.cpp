#include "controller/kube/transport/transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "controller/base/text.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;

namespace {

/// Called on a connected socket before each send. It distinguishes "never sent" from "maybe applied", and prevents
/// libcurl from silently resending a write.
int onPrerequest(void* data, char*, char*, int, int) {
  auto& t = *static_cast<Transfer*>(data);
  base::MutexLock lock(t.mutex);
  if (t.sends > 0 && !t.repeatable) return CURL_PREREQFUNC_ABORT;
  ++t.sends;
  return CURL_PREREQFUNC_OK;
}

std::size_t onRead(char* buffer, std::size_t size, std::size_t n, void* data) {
  auto& t = *static_cast<Transfer*>(data);
  const std::size_t take = std::min(size * n, t.body.size() - t.bodySent);
  t.body.copy(buffer, take, t.bodySent);
  t.bodySent += take;
  return take;
}

std::size_t onHeader(char* data, std::size_t size, std::size_t n, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  std::string_view line(data, size * n);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  base::MutexLock lock(t.mutex);
  if (line.rfind("HTTP/", 0) == 0) {  // a new head: the previous one was a 1xx
    t.response.headers.clear();
    t.headDone = false;
    const auto space = line.find(' ');
    t.response.status = space == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (line.empty()) {
    t.headDone = t.response.status >= 200;
    t.changed.notify_all();
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    t.response.headers.emplace_back(base::lowered(line.substr(0, colon)),
                                    std::string(base::trimmed(line.substr(colon + 1))));
  }
  return size * n;
}

std::size_t onBody(char* data, std::size_t size, std::size_t n, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * n;
  base::MutexLock lock(t.mutex);
  if (t.abandoned) return 0;
  if (t.streaming && t.response.status == 200) {
    if (t.chunks.size() >= t.streamBuffer) {
      t.receivePaused = true;
      return CURL_WRITEFUNC_PAUSE;
    }
    t.chunks.append(data, bytes);
    t.changed.notify_all();
    return bytes;
  }
  if (t.response.body.size() + bytes > t.maxBody) {
    t.tooBig = true;
    return 0;
  }
  t.response.body.append(data, bytes);
  return bytes;
}

/// Detects a vanished peer after 45 s when idle (the second probe), after 30 s with unacknowledged data.
int onSocket(void*, curl_socket_t socket, curlsocktype) {
  const int probes = 3;
  const unsigned unacknowledged = 30'000;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
  return CURL_SOCKOPT_OK;
}

bool neverSent(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      return true;
    default:
      return false;
  }
}

}  // namespace

void append(HeaderList& list, const std::string& line) {
  if (curl_slist* grown = curl_slist_append(list.get(), line.c_str())) {
    (void)list.release();
    list.reset(grown);
  }
}

void Transfer::listen() {
  CURL* e = easy.get();
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, onSocket);
  curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, onPrerequest);
  curl_easy_setopt(e, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, onHeader);
  curl_easy_setopt(e, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, onBody);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, this);
}

void Transfer::setMethod(Method method) {
  CURL* e = easy.get();
  if (method == Method::get && body.empty()) {
    curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    return;
  }
  if (method == Method::del && body.empty()) {
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE");
    return;
  }
  curl_easy_setopt(e, CURLOPT_POST, 1L);
  curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(e, CURLOPT_READFUNCTION, onRead);
  curl_easy_setopt(e, CURLOPT_READDATA, this);
  curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, std::string(toString(method)).c_str());
}

Result<HttpResponse> Transfer::conclude(const std::string& server) {
  if (result == CURLE_OK) return std::move(response);
  if (tooBig) return Status(Code::malformed, "the answer exceeds " + std::to_string(maxBody) + " bytes");
  const std::string why = server + ": " + (error[0] != '\0' ? error : curl_easy_strerror(result));
  if (sends == 0 || neverSent(result)) return Status(Code::unavailable, why);
  if (result == CURLE_OPERATION_TIMEDOUT) return Status(Code::deadline, why);
  return Status(Code::unknownOutcome, why);
}

}  // namespace egpu::kube
