#include "controller/http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "controller/base/files.h"
#include "controller/base/log.h"

namespace egpu::http {
namespace {

using base::Code;
using base::Status;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio bioOf(const std::string& text) { return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free}; }

Status wrong(const std::string& file, const char* what) {
  char reason[160] = "no such thing in it";
  if (const auto code = ERR_get_error(); code != 0) ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  return {Code::invalid, file + ": " + what + ": " + reason};
}

/// A key behind a passphrase is refused instead of asked for.
int noPassphrase(char*, int, int, void*) { return 0; }

Certificate nextCertificate(BIO* bio) { return {PEM_read_bio_X509(bio, nullptr, noPassphrase, nullptr), X509_free}; }

/// The first certificate is the server's, the others lead from it towards its CA.
Status useCertificate(SSL_CTX* context, const std::string& file, const std::string& text) {
  const auto bio = bioOf(text);
  const auto own = nextCertificate(bio.get());
  if (!own) return wrong(file, "must hold a certificate in PEM");
  if (SSL_CTX_use_certificate(context, own.get()) != 1) return wrong(file, "the certificate can't be used");
  while (const auto next = nextCertificate(bio.get()))
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return wrong(file, "its chain can't be used");
  ERR_clear_error();  // that no further one was found
  return Status::okay();
}

Status useKey(SSL_CTX* context, const std::string& file, const std::string& text) {
  const auto bio = bioOf(text);
  const Key key{PEM_read_bio_PrivateKey(bio.get(), nullptr, noPassphrase, nullptr), EVP_PKEY_free};
  if (!key) return wrong(file, "must hold a private key in PEM, without a passphrase");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return wrong(file, "must be the key of the certificate");
  return Status::okay();
}

Status useClientCa(SSL_CTX* context, const std::string& file, const std::string& text) {
  const auto bio = bioOf(text);
  auto* const store = SSL_CTX_get_cert_store(context);
  int count = 0;
  for (; const auto ca = nextCertificate(bio.get()); ++count)
    if (X509_STORE_add_cert(store, ca.get()) != 1 || SSL_CTX_add_client_CA(context, ca.get()) != 1)
      return wrong(file, "a certificate can't be used");
  if (count == 0) return wrong(file, "must hold the certificates of the clients' CA in PEM");
  ERR_clear_error();
  return Status::okay();
}

}  // namespace

base::Result<std::unique_ptr<Tls>> Tls::load(const TlsFiles& files) {
  std::unique_ptr<Tls> tls(new Tls(files));
  auto texts = tls->read();
  if (!texts) return texts.status();
  auto context = tls->make(*texts);
  if (!context) return context.status();
  tls->texts_ = std::move(*texts);
  tls->context_ = std::move(*context);
  tls->looked_ = std::chrono::steady_clock::now();
  return tls;
}

base::Result<Tls::Texts> Tls::read() const {
  Texts texts;
  const std::array<const std::string*, 3> files = {&files_.certificate, &files_.key, &files_.clientCa};
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto text = base::readFile(*files[i]);
    if (!text) return Status(Code::invalid, *files[i] + ": " + text.status().message());
    texts[i] = std::move(*text);
  }
  return texts;
}

base::Result<Tls::Context> Tls::make(const Texts& texts) const {
  Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return Status(Code::internal, "no TLS context can be made");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (auto s = useCertificate(context.get(), files_.certificate, texts[0]); !s.ok()) return s;
  if (auto s = useKey(context.get(), files_.key, texts[1]); !s.ok()) return s;
  if (auto s = useClientCa(context.get(), files_.clientCa, texts[2]); !s.ok()) return s;
  return context;
}

TlsSession Tls::session() {
  const std::lock_guard lock(mutex_);
  if (const auto now = std::chrono::steady_clock::now(); now - looked_ >= kLookEvery) {
    looked_ = now;
    auto texts = read();
    if (texts && *texts != texts_ && *texts != refused_) {
      auto context = make(*texts);
      if (context) {
        context_ = std::move(*context);
        texts_ = std::move(*texts);
        base::log::info("new certificates are in force", {{"certificate", files_.certificate}});
      } else {
        base::log::warn("certificates can't be used, the earlier ones stay", {{"why", context.status().message()}});
        refused_ = std::move(*texts);  // a certificate and its key are written one after the other
      }
    }
  }
  return {SSL_new(context_.get()), SSL_free};
}

}  // namespace egpu::http
