// Checks that a private key belongs to a certificate.
#pragma once

#include <string>

namespace egpu::kube {

/// True if the key belongs to the certificate. PEM texts; of a chain only the first certificate is checked. False if
/// either can't be read; an encrypted key can't.
bool keyFits(const std::string& certificate, const std::string& key);

}  // namespace egpu::kube
