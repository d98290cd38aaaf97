#include "controller/kube/transport/curl_transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "controller/base/mutex.h"
#include "controller/kube/config/credentials.h"
#include "controller/kube/config/url.h"
#include "controller/kube/transport/transfer.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;

namespace {

void initialiseOnce() {
  // libcurl requires this call before any thread uses it; it is never undone.
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
}

/// Removes line breaks, so that a header's value can't inject another header.
std::string oneLine(std::string_view text) {
  std::string out(text);
  out.erase(std::remove_if(out.begin(), out.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }),
            out.end());
  return out;
}

/// Escapes a part of a header's name as client-go does: '%' and characters that are invalid in a name become %XX.
std::string headerKey(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  static constexpr std::string_view kMarks = "!#$&'*+-.^_`|~";
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kMarks.find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += {'%', hex[u >> 4], hex[u & 15]};
  }
  return out;
}

/// Returns the header lines for impersonation.
std::vector<std::string> impersonation(const Endpoint& endpoint) {
  std::vector<std::string> lines;
  if (endpoint.impersonateUser.empty()) return lines;
  lines.push_back("Impersonate-User: " + oneLine(endpoint.impersonateUser));
  if (!endpoint.impersonateUid.empty()) lines.push_back("Impersonate-Uid: " + oneLine(endpoint.impersonateUid));
  for (const auto& group : endpoint.impersonateGroups) lines.push_back("Impersonate-Group: " + oneLine(group));
  for (const auto& [name, value] : endpoint.impersonateExtra)
    lines.push_back("Impersonate-Extra-" + headerKey(name) + ": " + oneLine(value));
  return lines;
}

class CurlTransport final : public Transport {
 public:
  CurlTransport(Endpoint endpoint, const Url& server, base::Clock& clock, CurlOptions options)
      : endpoint_(std::move(endpoint)),
        options_(options),
        https_(server.scheme == "https"),
        impersonation_(impersonation(endpoint_)),
        credentials_(endpoint_, clock, options.plugin),
        multi_(curl_multi_init()) {
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 64L);  // limits idle connections; those in use are not limited
    locate(server);
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
    const auto until = Steady::now() + request.timeout;
    return withCredentials(
        until, stop, [&](const CredentialsPtr& credentials) { return performOnce(request, credentials, until, stop); });
  }
  Result<HttpResponse> stream(const HttpRequest& request, const std::function<bool(std::string_view)>& data,
                              std::stop_token stop) override {
    const auto head = request.headTimeout.count() > 0 ? request.headTimeout : request.timeout;
    return withCredentials(Steady::now() + head, stop, [&](const CredentialsPtr& credentials) {
      return streamOnce(request, credentials, head, data, stop);
    });
  }

 private:
  using Steady = std::chrono::steady_clock;

  /// Runs the request, and after a 401 once more if the credentials have changed. The 401 proves that nothing was
  /// applied.
  template <class F>
  Result<HttpResponse> withCredentials(Steady::time_point until, const std::stop_token& stop, F&& once) {
    auto credentials = credentials_.current(until, stop);
    if (!credentials) return credentials.status();
    auto answer = once(*credentials);
    if (answer && answer->status == 401)
      if (auto others = credentials_.refused(*credentials, until, stop)) return once(others);
    if (!answer && answer.status().code() != Code::cancelled) credentials_.suspect();
    return answer;
  }

  Result<HttpResponse> performOnce(const HttpRequest& request, const CredentialsPtr& credentials,
                                   Steady::time_point until, const std::stop_token& stop) {
    auto made = make(request, credentials, false);
    if (!made) return made.status();
    const TransferPtr t = std::move(*made);
    submit(t);
    base::MutexLock lock(t->mutex);
    t->changed.wait_until(lock, stop, until, [&]() EGPU_REQUIRES(t->mutex) { return t->finished; });
    if (!t->finished) return leave(t, stop.stop_requested());
    return t->conclude(endpoint_.server);
  }

  Result<HttpResponse> streamOnce(const HttpRequest& request, const CredentialsPtr& credentials, milliseconds head,
                                  const std::function<bool(std::string_view)>& data, const std::stop_token& stop) {
    auto made = make(request, credentials, true);
    if (!made) return made.status();
    const TransferPtr t = std::move(*made);
    submit(t);
    base::MutexLock lock(t->mutex);
    auto until = Steady::now() + head;
    t->changed.wait_until(lock, stop, until, [&]() EGPU_REQUIRES(t->mutex) { return t->finished || t->headDone; });
    if (!t->finished && !t->headDone) return leave(t, stop.stop_requested());
    for (;;) {
      until = Steady::now() + request.timeout;  // restarts with every chunk
      t->changed.wait_until(lock, stop, until,
                            [&]() EGPU_REQUIRES(t->mutex) { return t->finished || !t->chunks.empty(); });
      if (stop.stop_requested()) {
        if (!t->finished) return leave(t, true);
        return Status(Code::cancelled, "stopped");
      }
      if (!t->chunks.empty()) {
        const std::string chunk = std::move(t->chunks);
        t->chunks.clear();
        const bool resume = std::exchange(t->receivePaused, false);
        lock.unlock();
        if (resume) command({Command::Kind::resume, t});
        const bool more = data(chunk);
        lock.lock();
        if (!more) {
          HttpResponse ended;
          ended.status = t->response.status;
          ended.headers = t->response.headers;
          if (!t->finished) (void)leave(t, true);
          return ended;
        }
        continue;
      }
      if (t->finished) return t->conclude(endpoint_.server);
      return leave(t, false);
    }
  }

  /// Abandons the transfer.
  Status leave(const TransferPtr& t, bool stopped) EGPU_REQUIRES(t->mutex) {
    t->abandoned = true;
    const bool sent = t->sends > 0;
    {
      const base::MutexUnlock unlocked(t->mutex);
      command({Command::Kind::abandon, t});
    }
    if (stopped) return Status(Code::cancelled, "stopped");
    // It never connected, so nothing can have been applied.
    if (!sent) return Status(Code::unavailable, "no connection to " + endpoint_.server + " within the time allowed");
    return Status(Code::deadline, "no answer from " + endpoint_.server + " within the time allowed");
  }

  /// With tls-server-name, the URL contains that name and the connection goes to the real host, because libcurl takes
  /// both SNI and the name to verify from the URL.
  void locate(const Url& server) {
    std::string path = server.path;
    while (!path.empty() && path.back() == '/') path.pop_back();
    base_ = server.scheme + "://" + server.authority + path;
    if (!https_ || endpoint_.tlsServerName.empty()) return;
    const bool v6 = server.host.find(':') != std::string::npos;
    base_ = "https://" + endpoint_.tlsServerName + ":" + server.port + path;
    connectTo_ = endpoint_.tlsServerName + ":" + server.port + ":" + (v6 ? "[" + server.host + "]" : server.host) +
                 ":" + server.port;
    hostHeader_ = server.authority;
  }

  Result<TransferPtr> make(const HttpRequest& request, const CredentialsPtr& credentials, bool streaming) const {
    auto t = std::make_shared<Transfer>();
    t->easy.reset(curl_easy_init());
    CURL* e = t->easy.get();
    if (e == nullptr) return Status(Code::internal, "libcurl gives no handle");
    t->url = base_ + request.target;
    t->body = request.body;
    t->credentials = credentials;
    t->streaming = streaming;
    t->repeatable = request.method == Method::get;
    t->maxBody = options_.maxBody;
    t->streamBuffer = std::max<std::size_t>(1, options_.streamBuffer);

    setConnection(e);
    curl_easy_setopt(e, CURLOPT_URL, t->url.c_str());
    curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, request.freshConnection ? 1L : 0L);
    t->listen();
    t->setMethod(request.method);
    setProxy(e);
    setTls(e, *credentials);
    if (!endpoint_.username.empty()) {
      curl_easy_setopt(e, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
      curl_easy_setopt(e, CURLOPT_USERNAME, endpoint_.username.c_str());
      curl_easy_setopt(e, CURLOPT_PASSWORD, endpoint_.password.c_str());
    }
    if (!connectTo_.empty()) {
      append(t->connectTo, connectTo_);
      curl_easy_setopt(e, CURLOPT_CONNECT_TO, t->connectTo.get());
    }
    setHeaders(*t, request, *credentials);
    return t;
  }

  void setConnection(CURL* e) const {
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);  // a stuck name lookup must not block the I/O thread
    curl_easy_setopt(e, CURLOPT_VERBOSE, options_.verbose ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 30L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 15L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connectTimeout.count()));
    // Plain HTTP needs no negotiation.
    const bool h2 = https_ && options_.http2;
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, static_cast<long>(h2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(e, CURLOPT_PIPEWAIT, h2 ? 1L : 0L);
  }

  void setHeaders(Transfer& t, const HttpRequest& request, const Credentials& credentials) const {
    append(t.headers, "Expect:");  // no 100-continue round trip
    for (const auto& [name, value] : request.headers) append(t.headers, oneLine(name) + ": " + oneLine(value));
    if (!hostHeader_.empty()) append(t.headers, "Host: " + hostHeader_);
    if (!credentials.token.empty()) append(t.headers, "Authorization: Bearer " + oneLine(credentials.token));
    for (const auto& line : impersonation_) append(t.headers, line);
    curl_easy_setopt(t.easy.get(), CURLOPT_HTTPHEADER, t.headers.get());
  }

  /// Uses only the endpoint's proxy, because libcurl reads the environment differently from Kubernetes.
  void setProxy(CURL* e) const {
    curl_easy_setopt(e, CURLOPT_PROXY, endpoint_.proxyUrl.c_str());
    curl_easy_setopt(e, CURLOPT_NOPROXY, "");
    if (endpoint_.proxyUrl.empty()) return;
    curl_easy_setopt(e, CURLOPT_SOCKS5_AUTH, static_cast<long>(CURLAUTH_BASIC));  // not Kerberos
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // the proxy's answer is not the server's
    curl_easy_setopt(e, CURLOPT_HEADEROPT,
                     static_cast<long>(CURLHEADER_SEPARATE));  // and our headers are not for the proxy
  }

  /// libcurl reuses a connection only for identical texts, so new certificates and authorities lead to new connections.
  void setTls(CURL* e, const Credentials& credentials) const {
    if (!https_) return;
    const auto blob = [e](CURLoption option, const std::string& text) {
      curl_blob data{const_cast<char*>(text.data()), text.size(),
                     CURL_BLOB_NOCOPY};  // NOLINT: curl doesn't write to it
      curl_easy_setopt(e, option, &data);
    };
    curl_easy_setopt(e, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, endpoint_.insecureSkipTlsVerify ? 0L : 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, endpoint_.insecureSkipTlsVerify ? 0L : 2L);
    if (!credentials.authorities.empty()) {
      blob(CURLOPT_CAINFO_BLOB, credentials.authorities);
      curl_easy_setopt(e, CURLOPT_CAPATH, nullptr);  // only these authorities
    }
    if (credentials.certificate.empty()) return;
    blob(CURLOPT_SSLCERT_BLOB, credentials.certificate);
    blob(CURLOPT_SSLKEY_BLOB, credentials.key);
  }

  struct Command {
    enum class Kind { add, resume, abandon };
    Kind kind;
    TransferPtr transfer;
  };
  void command(Command c) {
    bool first = false;
    {
      base::MutexLock lock(mutex_);
      first = commands_.empty();
      commands_.push_back(std::move(c));
    }
    // otherwise the earlier command has woken it; all commands are taken together
    if (first) curl_multi_wakeup(multi_);
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
      base::MutexLock lock(t->mutex);
      t->result = code;
      t->finished = true;
      t->changed.notify_all();
    };
    while (!stop.stop_requested()) {
      std::deque<Command> commands;
      {
        base::MutexLock lock(mutex_);
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
  const std::vector<std::string> impersonation_;
  CredentialSource credentials_;
  CURLM* const multi_;                         ///< used by the I/O thread only; other threads may wake it
  std::string base_, connectTo_, hostHeader_;  ///< constant after construction
  base::Mutex mutex_;
  std::deque<Command> commands_ EGPU_GUARDED_BY(mutex_);

  std::jthread io_;
};

}  // namespace

Result<std::unique_ptr<Transport>> curlTransport(const Endpoint& endpoint, base::Clock& clock, CurlOptions options) {
  initialiseOnce();
  const auto server = parseUrl(endpoint.server);
  if (!server || (server->scheme != "http" && server->scheme != "https"))
    return Status(Code::invalid, "server: not an http(s) URL: \"" + endpoint.server + "\"");
  return std::unique_ptr<Transport>(std::make_unique<CurlTransport>(endpoint, *server, clock, options));
}

}  // namespace egpu::kube
