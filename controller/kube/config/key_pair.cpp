#include "controller/kube/config/key_pair.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace egpu::kube {

namespace {

struct Free {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};

/// Prevents OpenSSL from asking at the terminal.
int noPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

bool keyFits(const std::string& certificate, const std::string& key) {
  const std::unique_ptr<BIO, Free> c(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const std::unique_ptr<BIO, Free> k(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())));
  if (!c || !k) return false;
  const std::unique_ptr<X509, Free> x509(PEM_read_bio_X509(c.get(), nullptr, noPassphrase, nullptr));
  const std::unique_ptr<EVP_PKEY, Free> pkey(PEM_read_bio_PrivateKey(k.get(), nullptr, noPassphrase, nullptr));
  const bool fits = x509 && pkey && X509_check_private_key(x509.get(), pkey.get()) == 1;
  ERR_clear_error();
  return fits;
}

}  // namespace egpu::kube
