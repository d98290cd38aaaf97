// Certificates that are generated at run time.
#pragma once

#include <string>

namespace egpu::kube {

/// PEM texts.
struct Certificate {
  std::string certificate, key;
};
/// A certificate authority that signs certificates for one test run.
class Authority {
 public:
  Authority();
  const std::string& pem() const { return self_.certificate; }
  /// names: "DNS:x" or "IP:x"; empty for a client certificate.
  Certificate issue(const std::string& commonName, const std::string& names) const;

 private:
  Certificate self_;
};

}  // namespace egpu::kube
