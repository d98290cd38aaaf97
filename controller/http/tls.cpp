#include "controller/http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
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
  char reason[160] = "not found in the file";
  if (const auto code = ERR_get_error(); code != 0) ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  return {Code::invalid, file + ": " + what + ": " + reason};
}

/// Passphrase callback that provides none, so that an encrypted key fails to load instead of prompting.
int noPassphrase(char*, int, int, void*) { return 0; }

Certificate nextCertificate(BIO* bio) { return {PEM_read_bio_X509(bio, nullptr, noPassphrase, nullptr), X509_free}; }

/// Uses the first certificate as the server's and the following ones as its chain towards the CA.
Status useCertificate(SSL_CTX* context, const std::string& file, const std::string& text) {
  const auto bio = bioOf(text);
  const auto own = nextCertificate(bio.get());
  if (!own) return wrong(file, "must hold a certificate in PEM");
  if (SSL_CTX_use_certificate(context, own.get()) != 1) return wrong(file, "the certificate can't be used");
  while (const auto next = nextCertificate(bio.get()))
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return wrong(file, "its chain can't be used");
  ERR_clear_error();  // the error that ended the loop: no further certificate
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

std::string textOf(const ASN1_STRING* string) {
  unsigned char* text = nullptr;
  const int length = ASN1_STRING_to_UTF8(&text, string);
  if (length < 0) {
    ERR_clear_error();
    return {};
  }
  std::string result(reinterpret_cast<const char*>(text), static_cast<std::size_t>(length));
  OPENSSL_free(text);
  return result;
}

/// Returns the common and alternative names of a certificate. A NUL inside a name does not end it.
std::vector<std::string> namesOf(X509* certificate) {
  std::vector<std::string> names;
  const auto* const subject = X509_get_subject_name(certificate);
  for (int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1); at >= 0;
       at = X509_NAME_get_index_by_NID(subject, NID_commonName, at))
    names.push_back(textOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  auto* const others =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(others); ++i) {
    int type = 0;
    const auto* const value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(others, i), &type);
    if (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI)
      names.push_back(textOf(static_cast<const ASN1_STRING*>(value)));
  }
  GENERAL_NAMES_free(others);
  return names;
}

std::string subjectOf(X509* certificate) {
  char text[256] = "";
  X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof text);  // escaped
  return text;
}

}  // namespace

int Tls::verifyClient(X509_STORE_CTX* chain, void* self) {
  if (X509_verify_cert(chain) != 1) return 0;
  const auto& wanted = static_cast<const Tls*>(self)->files_.clientNames;
  auto* const certificate = X509_STORE_CTX_get0_cert(chain);
  const auto names = namesOf(certificate);
  const bool known = std::any_of(names.begin(), names.end(), [&wanted](const std::string& name) {
    return !name.empty() && std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  });
  if (known) return 1;
  base::log::warn("a client was refused: its certificate has none of the permitted names",
                  {{"subject", subjectOf(certificate)}});
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

base::Result<std::unique_ptr<Tls>> Tls::load(const TlsFiles& files) {
  std::unique_ptr<Tls> tls(new Tls(files));
  auto texts = tls->read();
  if (!texts) return texts.status();
  auto context = tls->make(*texts);
  if (!context) return context.status();
  {
    const base::MutexLock lock(tls->mutex_);
    tls->texts_ = std::move(*texts);
    tls->context_ = std::move(*context);
    tls->checkedAt_ = std::chrono::steady_clock::now();
  }
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

base::Result<Tls::Context> Tls::make(const Texts& texts) {
  Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return Status(Code::internal, "no TLS context can be made");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (!files_.clientNames.empty()) SSL_CTX_set_cert_verify_callback(context.get(), &Tls::verifyClient, this);
  if (auto s = useCertificate(context.get(), files_.certificate, texts[0]); !s.ok()) return s;
  if (auto s = useKey(context.get(), files_.key, texts[1]); !s.ok()) return s;
  if (auto s = useClientCa(context.get(), files_.clientCa, texts[2]); !s.ok()) return s;
  return context;
}

TlsSession Tls::session() {
  const base::MutexLock lock(mutex_);
  if (const auto now = std::chrono::steady_clock::now(); now - checkedAt_ >= kSearchInterval) {
    checkedAt_ = now;
    auto texts = read();
    if (texts && *texts != texts_ && *texts != refused_) {
      auto context = make(*texts);
      if (context) {
        context_ = std::move(*context);
        texts_ = std::move(*texts);
        base::log::info("new certificates are in use", {{"certificate", files_.certificate}});
      } else {
        base::log::warn("certificates can't be used, the earlier ones stay in use",
                        {{"why", context.status().message()}});
        refused_ = std::move(*texts);  // expected for a short time: certificate and key are written one after the other
      }
    }
  }
  return {SSL_new(context_.get()), SSL_free};
}

}  // namespace egpu::http
