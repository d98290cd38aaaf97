#include "controller/kube/transport/curl_transport.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "controller/kube/config/credentials.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;

namespace {

void initialiseOnce() {
  // libcurl asks for this before any thread uses it; the process never gives it back.
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
}

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

void append(std::unique_ptr<curl_slist, ListDeleter>& list, const std::string& line) {
  if (curl_slist* grown = curl_slist_append(list.get(), line.c_str())) {
    (void)list.release();
    list.reset(grown);
  }
}

/// A header's value can't smuggle in another header.
std::string oneLine(std::string_view text) {
  std::string out(text);
  out.erase(std::remove_if(out.begin(), out.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }),
            out.end());
  return out;
}

/// One exchange. Shared by the caller and the I/O thread, so that a stopped caller can leave at once, whatever libcurl
/// is doing.
struct Transfer {
  // Constant once handed to the I/O thread; the easy handle and what curl reads belong to that thread from then on.
  std::unique_ptr<CURL, EasyDeleter> easy;
  std::unique_ptr<curl_slist, ListDeleter> headers, connectTo;
  std::string url, body, connectTarget;
  std::size_t bodySent = 0;
  bool streaming = false;
  bool repeatable = false;  ///< GET: libcurl may send it again on a fresh connection
  std::size_t maxBody = 0, streamBuffer = 0;
  char error[CURL_ERROR_SIZE] = {};

  std::mutex mutex;
  std::condition_variable_any changed;
  // Protected by mutex:
  int sends = 0;          ///< how often the request began to go out
  HttpResponse response;  ///< head, and body unless streamed
  bool headDone = false;  ///< of the final answer, not a 1xx
  std::string chunks;     ///< streamed, not yet taken
  bool paused = false;
  bool tooBig = false;
  bool abandoned = false;  ///< the caller has left: nobody reads any more
  bool finished = false;
  CURLcode result = CURLE_OK;
};
using TransferPtr = std::shared_ptr<Transfer>;

/// Called with the connection up, before each sending: tells "never sent" from "maybe applied", and forbids libcurl's
/// silent second sending of a write.
int onPrerequest(void* data, char*, char*, int, int) {
  auto& t = *static_cast<Transfer*>(data);
  std::lock_guard lock(t.mutex);
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
  std::lock_guard lock(t.mutex);
  if (line.rfind("HTTP/", 0) == 0) {  // a new head: what came before was a 1xx
    t.response.headers.clear();
    t.headDone = false;
    const auto space = line.find(' ');
    t.response.status = space == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (line.empty()) {
    t.headDone = t.response.status >= 200;
    t.changed.notify_all();
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    t.response.headers.emplace_back(std::move(name), std::string(value));
  }
  return size * n;
}

std::size_t onBody(char* data, std::size_t size, std::size_t n, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * n;
  std::lock_guard lock(t.mutex);
  if (t.abandoned) return 0;
  if (t.streaming && t.response.status == 200) {
    if (t.chunks.size() >= t.streamBuffer) {
      t.paused = true;
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

/// A peer that vanished is noticed after 30 + 3 · 15 s when idle, 60 s when it owes acknowledgements.
int onSocket(void*, curl_socket_t socket, curlsocktype) {
  const int probes = 3;
  const unsigned unacknowledged = 60'000;
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

class CurlTransport final : public Transport {
 public:
  CurlTransport(Endpoint endpoint, base::Clock& clock, CurlOptions options)
      : endpoint_(std::move(endpoint)),
        options_(options),
        https_(endpoint_.server.rfind("https://", 0) == 0),
        token_(endpoint_, clock),
        multi_(curl_multi_init()) {
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 64L);  // idle ones kept; those in use are not limited
    locate();
    io_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  }
  ~CurlTransport() override {
    io_.request_stop();
    curl_multi_wakeup(multi_);
    io_.join();
    curl_multi_cleanup(multi_);
  }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  Result<HttpResponse> perform(const HttpRequest& request, std::stop_token stop) override {
    return withFreshToken(request, [&](const std::string& token) { return performOnce(request, token, stop); });
  }
  Result<HttpResponse> stream(const HttpRequest& request, const std::function<bool(std::string_view)>& data,
                              std::stop_token stop) override {
    return withFreshToken(request, [&](const std::string& token) { return streamOnce(request, token, data, stop); });
  }

 private:
  /// A 401 proves that nothing was applied: once more if the token file holds another token by now.
  template <class F>
  Result<HttpResponse> withFreshToken(const HttpRequest&, F&& once) {
    const std::string token = token_.current();
    auto answer = once(token);
    if (answer && answer->status == 401 && token_.refused(token)) return once(token_.current());
    return answer;
  }

  Result<HttpResponse> performOnce(const HttpRequest& request, const std::string& token, const std::stop_token& stop) {
    const auto until = std::chrono::steady_clock::now() + request.timeout;
    auto made = make(request, token, false);
    if (!made) return made.status();
    const TransferPtr t = std::move(*made);
    submit(t);
    std::unique_lock lock(t->mutex);
    t->changed.wait_until(lock, stop, until, [&] { return t->finished; });
    if (!t->finished) return leave(t, lock, stop.stop_requested());
    return conclude(*t);
  }

  Result<HttpResponse> streamOnce(const HttpRequest& request, const std::string& token,
                                  const std::function<bool(std::string_view)>& data, const std::stop_token& stop) {
    auto made = make(request, token, true);
    if (!made) return made.status();
    const TransferPtr t = std::move(*made);
    submit(t);
    const auto headLimit = request.headTimeout.count() > 0 ? request.headTimeout : request.timeout;
    std::unique_lock lock(t->mutex);
    auto until = std::chrono::steady_clock::now() + headLimit;
    t->changed.wait_until(lock, stop, until, [&] { return t->finished || t->headDone; });
    if (!t->finished && !t->headDone) return leave(t, lock, stop.stop_requested());
    for (;;) {
      until = std::chrono::steady_clock::now() + request.timeout;  // idle time starts anew with every chunk
      t->changed.wait_until(lock, stop, until, [&] { return t->finished || !t->chunks.empty(); });
      if (stop.stop_requested()) {
        if (!t->finished) return leave(t, lock, true);
        return Status(Code::cancelled, "stopped");
      }
      if (!t->chunks.empty()) {
        const std::string chunk = std::move(t->chunks);
        t->chunks.clear();
        const bool resume = std::exchange(t->paused, false);
        lock.unlock();
        if (resume) command({Command::Kind::resume, t});
        const bool more = data(chunk);
        lock.lock();
        if (!more) {
          HttpResponse ended;
          ended.status = t->response.status;
          ended.headers = t->response.headers;
          if (!t->finished) (void)leave(t, lock, true);
          return ended;
        }
        continue;
      }
      if (t->finished) return conclude(*t);
      return leave(t, lock, false);
    }
  }

  /// Gives the transfer up. lock: held on entry.
  Status leave(const TransferPtr& t, std::unique_lock<std::mutex>& lock, bool stopped) {
    t->abandoned = true;
    const bool sent = t->sends > 0;
    lock.unlock();
    command({Command::Kind::abandon, t});
    lock.lock();
    if (stopped) return Status(Code::cancelled, "stopped");
    // Never connected in all that time: nothing can have been applied.
    if (!sent) return Status(Code::unavailable, "no connection to " + endpoint_.server + " within the time allowed");
    return Status(Code::deadline, "no answer from " + endpoint_.server + " within the time allowed");
  }

  /// Needs t.mutex.
  Result<HttpResponse> conclude(Transfer& t) const {
    if (t.result == CURLE_OK) return std::move(t.response);
    if (t.tooBig) return Status(Code::malformed, "the answer exceeds " + std::to_string(t.maxBody) + " bytes");
    const std::string why = endpoint_.server + ": " + (t.error[0] != '\0' ? t.error : curl_easy_strerror(t.result));
    if (t.sends == 0 || neverSent(t.result)) return Status(Code::unavailable, why);
    if (t.result == CURLE_OPERATION_TIMEDOUT) return Status(Code::deadline, why);
    return Status(Code::unknownOutcome, why);
  }

  /// Splits the server's URL once; with tls-server-name the URL names that host and the connection goes to the real
  /// one, because libcurl takes both SNI and the name to verify from the URL.
  void locate() {
    base_ = endpoint_.server;
    while (!base_.empty() && base_.back() == '/') base_.pop_back();
    if (!https_ || endpoint_.tlsServerName.empty()) return;
    const std::size_t start = std::strlen("https://");
    const std::size_t slash = base_.find('/', start);
    const std::string authority = base_.substr(start, slash == std::string::npos ? std::string::npos : slash - start);
    const std::string rest = slash == std::string::npos ? "" : base_.substr(slash);
    const std::size_t bracket = authority.rfind(']');
    const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
    const std::string port = colon == std::string::npos ? "443" : authority.substr(colon + 1);
    const std::string host = authority.substr(0, colon);
    base_ = "https://" + endpoint_.tlsServerName + ":" + port + rest;
    connectTo_ = endpoint_.tlsServerName + ":" + port + ":" + host + ":" + port;
    hostHeader_ = authority;
  }

  Result<TransferPtr> make(const HttpRequest& request, const std::string& token, bool streaming) const {
    auto t = std::make_shared<Transfer>();
    t->easy.reset(curl_easy_init());
    CURL* e = t->easy.get();
    if (e == nullptr) return Status(Code::internal, "libcurl gives no handle");
    t->url = base_ + request.target;
    t->body = request.body;
    t->streaming = streaming;
    t->repeatable = request.method == Method::get;
    t->maxBody = options_.maxBody;
    t->streamBuffer = std::max<std::size_t>(1, options_.streamBuffer);

    append(t->headers, "Expect:");  // no 100-continue round trip
    for (const auto& [name, value] : request.headers) append(t->headers, oneLine(name) + ": " + oneLine(value));
    if (!hostHeader_.empty()) append(t->headers, "Host: " + hostHeader_);
    if (!token.empty()) append(t->headers, "Authorization: Bearer " + oneLine(token));
    addImpersonation(*t);

    curl_easy_setopt(e, CURLOPT_URL, t->url.c_str());
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");  // not even from the environment: see CurlOptions
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);  // a stuck name look-up must not hold up the I/O thread
    curl_easy_setopt(e, CURLOPT_VERBOSE, options_.verbose ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->error);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 30L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 15L);
    curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, onSocket);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connectTimeout.count()));
    // Over plain HTTP there is no negotiation to wait for.
    const bool h2 = https_ && options_.http2;
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, static_cast<long>(h2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(e, CURLOPT_PIPEWAIT, h2 ? 1L : 0L);
    setMethod(*t, request);
    setTls(e);
    if (!endpoint_.username.empty()) {
      curl_easy_setopt(e, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
      curl_easy_setopt(e, CURLOPT_USERNAME, endpoint_.username.c_str());
      curl_easy_setopt(e, CURLOPT_PASSWORD, endpoint_.password.c_str());
    }
    if (!connectTo_.empty()) {
      append(t->connectTo, connectTo_);
      curl_easy_setopt(e, CURLOPT_CONNECT_TO, t->connectTo.get());
    }
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers.get());
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, onPrerequest);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, t.get());
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, onHeader);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t.get());
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, onBody);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t.get());
    return t;
  }

  static void setMethod(Transfer& t, const HttpRequest& request) {
    CURL* e = t.easy.get();
    if (request.method == Method::get && t.body.empty()) {
      curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
      return;
    }
    if (request.method == Method::del && t.body.empty()) {
      curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE");
      return;
    }
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(t.body.size()));
    curl_easy_setopt(e, CURLOPT_READFUNCTION, onRead);
    curl_easy_setopt(e, CURLOPT_READDATA, &t);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, std::string(toString(request.method)).c_str());
  }

  void setTls(CURL* e) const {
    if (!https_) return;
    const auto blob = [e](CURLoption option, const std::string& text) {
      curl_blob data{const_cast<char*>(text.data()), text.size(),
                     CURL_BLOB_NOCOPY};  // NOLINT: curl doesn't write to it
      curl_easy_setopt(e, option, &data);
    };
    curl_easy_setopt(e, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, endpoint_.insecureSkipTlsVerify ? 0L : 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, endpoint_.insecureSkipTlsVerify ? 0L : 2L);
    if (!endpoint_.caData.empty()) {
      blob(CURLOPT_CAINFO_BLOB, endpoint_.caData);
      curl_easy_setopt(e, CURLOPT_CAPATH, nullptr);  // this authority and no other
    } else if (!endpoint_.caFile.empty()) {
      curl_easy_setopt(e, CURLOPT_CAINFO, endpoint_.caFile.c_str());
      curl_easy_setopt(e, CURLOPT_CAPATH, nullptr);
    }
    if (!endpoint_.clientCertificateData.empty())
      blob(CURLOPT_SSLCERT_BLOB, endpoint_.clientCertificateData);
    else if (!endpoint_.clientCertificateFile.empty())
      curl_easy_setopt(e, CURLOPT_SSLCERT, endpoint_.clientCertificateFile.c_str());
    if (!endpoint_.clientKeyData.empty())
      blob(CURLOPT_SSLKEY_BLOB, endpoint_.clientKeyData);
    else if (!endpoint_.clientKeyFile.empty())
      curl_easy_setopt(e, CURLOPT_SSLKEY, endpoint_.clientKeyFile.c_str());
  }

  void addImpersonation(Transfer& t) const {
    if (endpoint_.impersonateUser.empty()) return;
    append(t.headers, "Impersonate-User: " + oneLine(endpoint_.impersonateUser));
    if (!endpoint_.impersonateUid.empty()) append(t.headers, "Impersonate-Uid: " + oneLine(endpoint_.impersonateUid));
    for (const auto& group : endpoint_.impersonateGroups) append(t.headers, "Impersonate-Group: " + oneLine(group));
    for (const auto& [name, value] : endpoint_.impersonateExtra)
      append(t.headers, "Impersonate-Extra-" + oneLine(name) + ": " + oneLine(value));
  }

  struct Command {
    enum class Kind { add, resume, abandon };
    Kind kind;
    TransferPtr transfer;
  };
  void command(Command c) {
    {
      std::lock_guard lock(mutex_);
      commands_.push_back(std::move(c));
    }
    curl_multi_wakeup(multi_);
  }
  void submit(const TransferPtr& t) { command({Command::Kind::add, t}); }

  void run(std::stop_token stop) {
    std::map<CURL*, TransferPtr> running;
    const auto finish = [&](CURL* easy, CURLcode code) {
      const auto it = running.find(easy);
      if (it == running.end()) return;
      const TransferPtr t = it->second;
      running.erase(it);
      curl_multi_remove_handle(multi_, easy);
      std::lock_guard lock(t->mutex);
      t->result = code;
      t->finished = true;
      t->changed.notify_all();
    };
    while (!stop.stop_requested()) {
      std::deque<Command> commands;
      {
        std::lock_guard lock(mutex_);
        commands.swap(commands_);
      }
      for (const auto& c : commands) {
        CURL* easy = c.transfer->easy.get();
        switch (c.kind) {
          case Command::Kind::add:
            running.emplace(easy, c.transfer);
            if (curl_multi_add_handle(multi_, easy) != CURLM_OK) finish(easy, CURLE_FAILED_INIT);
            break;
          case Command::Kind::resume:
            if (running.contains(easy)) curl_easy_pause(easy, CURLPAUSE_CONT);
            break;
          case Command::Kind::abandon:
            finish(easy, CURLE_ABORTED_BY_CALLBACK);
            break;
        }
      }
      int active = 0;
      curl_multi_perform(multi_, &active);
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &left))
        if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
      curl_multi_poll(multi_, nullptr, 0, 60'000, nullptr);  // curl's own timers shorten this
    }
    while (!running.empty()) finish(running.begin()->first, CURLE_ABORTED_BY_CALLBACK);
  }

  const Endpoint endpoint_;
  const CurlOptions options_;
  const bool https_;
  TokenSource token_;
  CURLM* const multi_;                         ///< of the I/O thread; others may only wake it
  std::string base_, connectTo_, hostHeader_;  ///< constant after construction
  // Protected by mutex_:
  std::mutex mutex_;
  std::deque<Command> commands_;

  std::jthread io_;
};

}  // namespace

Result<std::unique_ptr<Transport>> curlTransport(const Endpoint& endpoint, base::Clock& clock, CurlOptions options) {
  initialiseOnce();
  const bool http = endpoint.server.rfind("http://", 0) == 0, https = endpoint.server.rfind("https://", 0) == 0;
  if ((!http && !https) || endpoint.server.size() <= (https ? 8U : 7U))
    return Status(Code::invalid, "server: not an http(s) URL: \"" + endpoint.server + "\"");
  return std::unique_ptr<Transport>(std::make_unique<CurlTransport>(endpoint, clock, options));
}

}  // namespace egpu::kube
