// Does a private key belong to a certificate?
#pragma once

#include <string>

namespace egpu::kube {

/// PEM texts; of a chain the first certificate counts. False if either can't be read (an encrypted key can't).
bool keyFits(const std::string& certificate, const std::string& key);

}  // namespace egpu::kube
