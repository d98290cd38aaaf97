// Mutual TLS for a listener: its certificate and key, and the CA that must have issued the clients' certificates. The
// files are read again when they change. Internal to http/, except for TlsFiles in http.h.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/http/http.h"

namespace egpu::http {

/// TLS session of one connection. The socket must be non-blocking. Used by one thread.
using TlsSession = std::unique_ptr<SSL, decltype(&SSL_free)>;

/// Creates TLS sessions. TLS 1.2 or later, without renegotiation and resumption, so that every connection authenticates
/// its client. Thread-safe.
class Tls {
 public:
  Tls(const Tls&) = delete;  // its contexts hold a pointer to it for verifyClient()
  Tls& operator=(const Tls&) = delete;

  /// Fails with Code::invalid; the message names the file and its fault.
  static base::Result<std::unique_ptr<Tls>> load(const TlsFiles& files);

  /// Returns a session for a new connection. Reads the files again at most once per second. If changed files can't be
  /// used, logs a warning and keeps the certificates of the earlier files. Null only if memory is exhausted.
  TlsSession session();

 private:
  using Context = std::shared_ptr<SSL_CTX>;
  using Texts = std::array<std::string, 3>;
  static constexpr std::chrono::milliseconds kSearchInterval{1'000};

  explicit Tls(TlsFiles files) : files_(std::move(files)) {}
  /// Verifies the client's certificate chain, then its names. `self` is a Tls. Callback for
  /// SSL_CTX_set_cert_verify_callback().
  static int verifyClient(X509_STORE_CTX* chain, void* self);
  base::Result<Texts> read() const;
  base::Result<Context> make(const Texts& texts);

  const TlsFiles files_;
  base::Mutex mutex_;
  Texts texts_ EGPU_GUARDED_BY(mutex_);      ///< the files' content that context_ was built from
  Texts refused_ EGPU_GUARDED_BY(mutex_);    ///< content that could not be used and has been logged
  Context context_ EGPU_GUARDED_BY(mutex_);  ///< never null once loaded
  std::chrono::steady_clock::time_point checkedAt_ EGPU_GUARDED_BY(mutex_){};
};

}  // namespace egpu::http
