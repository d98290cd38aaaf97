#include "controller/kube/config/credentials.h"

#include <fstream>
#include <sstream>

#include "controller/base/log.h"

namespace egpu::kube {

namespace {
constexpr std::chrono::seconds kReadAgain{60};
}  // namespace

TokenSource::TokenSource(const Endpoint& endpoint, base::Clock& clock)
    : file_(endpoint.tokenFile), clock_(clock), token_(endpoint.token) {
  std::lock_guard lock(mutex_);
  if (!file_.empty()) read();
}

std::string TokenSource::current() {
  std::lock_guard lock(mutex_);
  if (!file_.empty() && clock_.now() - readAt_ >= kReadAgain) read();
  return token_;
}

bool TokenSource::refused(const std::string& token) {
  std::lock_guard lock(mutex_);
  if (file_.empty()) return false;
  if (token_ == token) read();
  return token_ != token;
}

void TokenSource::read() {
  readAt_ = clock_.now();
  std::ifstream in(file_, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) {
    base::log::warn("the token file can't be read; using the last token", {{"file", file_}});
    return;
  }
  std::string token = std::move(text).str();
  const auto end = token.find_last_not_of(" \t\r\n");
  token.erase(end == std::string::npos ? 0 : end + 1);
  if (!token.empty()) token_ = std::move(token);
}

}  // namespace egpu::kube
