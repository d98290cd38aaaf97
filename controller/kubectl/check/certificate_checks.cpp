#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "controller/base/timestamp.h"
#include "controller/kubectl/check/finding.h"

namespace egpu::kubectl {

namespace {

using Level = Finding::Level;

constexpr int64_t kDay = 86400;
constexpr int64_t kSoon = 14 * kDay;
constexpr int64_t kUnapproved = 600;  // seconds; a healthy cluster approves a kubelet's request at once

struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct CertificateDeleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
};

/// Seconds until the first certificate of a PEM text expires, negative if it has expired; false: it can't be read.
bool secondsLeft(const std::string& pem, int64_t now, int64_t& left) {
  const std::unique_ptr<BIO, BioDeleter> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<X509, CertificateDeleter> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return false;
  const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> from(ASN1_TIME_set(nullptr, static_cast<time_t>(now)),
                                                                   &ASN1_TIME_free);
  int days = 0, seconds = 0;
  if (!from || ASN1_TIME_diff(&days, &seconds, from.get(), X509_get0_notAfter(certificate.get())) != 1) return false;
  left = days * kDay + seconds;
  return true;
}

bool isKubeletSigner(const std::string& signer) {
  return signer == "kubernetes.io/kubelet-serving" || signer == "kubernetes.io/kube-apiserver-client-kubelet";
}

}  // namespace

Findings checkCertificates(const Inventory& inventory) {
  Findings found;
  const auto now = inventory.serverTime > 0 ? inventory.serverTime : inventory.localTime;
  for (const auto& [field, pem] : inventory.certificates) {
    int64_t left = 0;
    if (pem.empty()) continue;
    const auto object = "kubeconfig/" + field;
    const char* fix = "kubeadm certs renew admin.conf  # or get a new kubeconfig from your administrator";
    if (!secondsLeft(pem, now, left))
      found.push_back({Level::error, "certificate", object, "it can't be read", fix});
    else if (left < 0)
      found.push_back(
          {Level::error, "certificate", object, "it expired " + std::to_string(-left / kDay) + " days ago", fix});
    else if (left < kSoon)
      found.push_back(
          {Level::warning, "certificate", object, "it expires in " + std::to_string(left / kDay) + " days", fix});
  }
  for (const auto& request : inventory.of("CertificateSigningRequest")) {
    const auto name = textAt(request, {"metadata", "name"}), signer = textAt(request, {"spec", "signerName"});
    const auto made = base::unixSeconds(textAt(request, {"metadata", "creationTimestamp"}));
    if (!isKubeletSigner(signer) || !at(request, {"status", "conditions"}).empty() || now - made < kUnapproved)
      continue;
    found.push_back(
        {Level::warning, "certificate", "CertificateSigningRequest/" + name,
         "the request of " + textAt(request, {"spec", "username"}) + " is not approved: its certificate will expire",
         "kubectl certificate approve " + name});
  }
  return found;
}

}  // namespace egpu::kubectl
