// Mutual TLS for a listener: its certificate, and the CA that clients' certificates must come from, read again when
// their files change. Internal to http/ but for TlsFiles (http.h).
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "controller/base/status.h"
#include "controller/http/http.h"

namespace egpu::http {

/// What one connection speaks; the socket must not block. Used by one thread.
using TlsSession = std::unique_ptr<SSL, decltype(&SSL_free)>;

/// TLS 1.2 or later, no renegotiation, no resumption: every connection proves its client anew. Thread-safe.
class Tls {
 public:
  Tls(const Tls&) = delete;  // its contexts ask it who may come
  Tls& operator=(const Tls&) = delete;

  /// Code::invalid names the file and what is wrong with it.
  static base::Result<std::unique_ptr<Tls>> load(const TlsFiles& files);

  /// For a new connection, with the files as they are now (looked at once a second at most). Files that can't be used
  /// leave what was read before in force, which is logged. Null only without memory.
  TlsSession session();

 private:
  using Context = std::shared_ptr<SSL_CTX>;
  using Texts = std::array<std::string, 3>;
  static constexpr std::chrono::milliseconds kLookEvery{1'000};

  explicit Tls(TlsFiles files) : files_(std::move(files)) {}
  /// The chain, then the names. `self` is a Tls; what SSL_CTX_set_cert_verify_callback() asks for.
  static int verifyClient(X509_STORE_CTX* chain, void* self);
  base::Result<Texts> read() const;
  base::Result<Context> make(const Texts& texts);

  const TlsFiles files_;
  std::mutex mutex_;
  // Guarded by mutex_:
  Texts texts_;      ///< that context_ is made of
  Texts refused_;    ///< that could not be used, already logged
  Context context_;  ///< never null once loaded
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace egpu::http
