#include "tests/kube/transport/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace egpu::kube {

namespace {

template <class Write>
std::string pemOf(Write&& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  write(bio);
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(n));
  BIO_free(bio);
  return out;
}

void extend(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  if (X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str())) {
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
  }
}

Certificate sign(const std::string& commonName, const std::string& names, const Certificate* authority) {
  static std::atomic<long> serial{1};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(commonName.c_str()), -1, -1, 0);
  X509* issuer = cert;
  EVP_PKEY* issuerKey = key;
  if (authority != nullptr) {
    BIO* c = BIO_new_mem_buf(authority->certificate.data(), static_cast<int>(authority->certificate.size()));
    BIO* k = BIO_new_mem_buf(authority->key.data(), static_cast<int>(authority->key.size()));
    issuer = PEM_read_bio_X509(c, nullptr, nullptr, nullptr);
    issuerKey = PEM_read_bio_PrivateKey(k, nullptr, nullptr, nullptr);
    BIO_free(c);
    BIO_free(k);
  } else {
    extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
  }
  X509_set_issuer_name(cert, X509_get_subject_name(issuer));
  if (!names.empty()) extend(cert, issuer, NID_subject_alt_name, names);
  X509_sign(cert, issuerKey, EVP_sha256());
  Certificate out;
  out.certificate = pemOf([&](BIO* bio) { PEM_write_bio_X509(bio, cert); });
  out.key = pemOf([&](BIO* bio) { PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
  if (authority != nullptr) {
    X509_free(issuer);
    EVP_PKEY_free(issuerKey);
  }
  X509_free(cert);
  EVP_PKEY_free(key);
  return out;
}

}  // namespace

Authority::Authority() : self_(sign("test authority", {}, nullptr)) {}
Certificate Authority::issue(const std::string& commonName, const std::string& names) const {
  return sign(commonName, names, &self_);
}

}  // namespace egpu::kube
