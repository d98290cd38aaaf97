#include "controller/kube/config/credentials.h"

#include <algorithm>
#include <utility>

#include "controller/base/files.h"
#include "controller/base/log.h"
#include "controller/base/text.h"
#include "controller/kube/config/key_pair.h"

namespace egpu::kube {

using base::Code;
using base::Result;
using base::Status;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr seconds kRereadInterval{60};
constexpr seconds kBetweenRuns{1};  ///< minimum interval of a plugin whose credentials have already expired on arrival
constexpr seconds kBetweenRefusals{10};
constexpr milliseconds kMaxPause{30'000};

/// Returns the file's content; nullopt if it can't be read or is empty, with the reason in `why`.
std::optional<std::string> contentOf(const std::string& path, std::string& why) {
  auto text = base::readFile(path);
  if (text && !text->empty()) return std::move(*text);
  why += (why.empty() ? "" : "; ") + path + " can't be read or is empty";
  return std::nullopt;
}

}  // namespace

CredentialSource::CredentialSource(Endpoint endpoint, base::Clock& clock, ExecLimits limits)
    : endpoint_(std::move(endpoint)),
      clock_(clock),
      limits_(limits),
      token_(endpoint_.token),
      authorities_(endpoint_.caData),
      certificate_(endpoint_.clientCertificateData),
      key_(endpoint_.clientKeyData) {}

Result<CredentialsPtr> CredentialSource::current(Deadline until, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  if (auto read = readFiles(); !read.ok()) return read;
  if (endpoint_.exec && pluginDue())
    if (auto asked = askPlugin(until, stop); !asked.ok()) return asked;
  if (!published_) {
    Credentials next{token_, authorities_, certificate_, key_};
    if (given_ && next.token.empty()) next.token = given_->token;
    if (given_ && next.certificate.empty()) {
      next.certificate = given_->clientCertificateData;
      next.key = given_->clientKeyData;
    }
    published_ = std::make_shared<const Credentials>(std::move(next));
  }
  return published_;
}

CredentialsPtr CredentialSource::refused(const CredentialsPtr& used, Deadline until, std::stop_token stop) {
  {
    base::MutexLock lock(mutex_);
    readAgain_ = true;
    const auto now = clock_.now();
    const bool mayAsk = !refusedAt_ || now - *refusedAt_ >= kBetweenRefusals;
    if (endpoint_.exec && published_ == used && !pluginRuns_ && mayAsk) {
      refusedAt_ = now;
      givenRefused_ = true;
    }
  }
  auto now = current(until, std::move(stop));
  return now && **now != *used ? *now : nullptr;
}

void CredentialSource::suspect() {
  base::MutexLock lock(mutex_);
  readAgain_ = true;
}

void CredentialSource::take(std::string& into, std::string text) {
  if (into == text) return;
  into = std::move(text);
  published_ = nullptr;
}

Status CredentialSource::readFiles() {
  if (!readAgain_ && clock_.now() - readAt_ < kRereadInterval) return {};
  readAt_ = clock_.now();
  std::string why;
  bool usable = readToken(why);
  usable = readAuthorities(why) && usable;
  usable = readPair(why) && usable;
  readAgain_ = !usable;
  if (!why.empty() && why != warned_) base::log::warn("credentials not renewed from their files", {{"why", why}});
  warned_ = why;
  return usable ? Status{} : Status(Code::unavailable, why);
}

bool CredentialSource::readToken(std::string& why) {
  if (endpoint_.tokenFile.empty()) return true;
  if (auto text = contentOf(endpoint_.tokenFile, why)) {
    std::string token(base::trimmed(*text));
    if (!token.empty())
      take(token_, std::move(token));
    else
      why += (why.empty() ? "" : "; ") + endpoint_.tokenFile + " is empty";
  }
  return !token_.empty();
}

bool CredentialSource::readAuthorities(std::string& why) {
  if (endpoint_.caFile.empty() || !endpoint_.caData.empty()) return true;
  if (auto text = contentOf(endpoint_.caFile, why)) take(authorities_, std::move(*text));
  return !authorities_.empty();
}

bool CredentialSource::readPair(std::string& why) {
  const bool fromCertificateFile = endpoint_.clientCertificateData.empty() && !endpoint_.clientCertificateFile.empty();
  const bool fromKeyFile = endpoint_.clientKeyData.empty() && !endpoint_.clientKeyFile.empty();
  if (!fromCertificateFile && !fromKeyFile) return true;
  auto certificate =
      fromCertificateFile ? contentOf(endpoint_.clientCertificateFile, why) : std::optional(certificate_);
  auto key = fromKeyFile ? contentOf(endpoint_.clientKeyFile, why) : std::optional(key_);
  if (certificate && key) {
    if (keyFits(*certificate, *key)) {
      take(certificate_, std::move(*certificate));
      take(key_, std::move(*key));
    } else {
      why += (why.empty() ? "" : "; ") + (fromKeyFile ? endpoint_.clientKeyFile : "client-key-data") +
             " is not the key of " +
             (fromCertificateFile ? endpoint_.clientCertificateFile : "client-certificate-data");
    }
  }
  return !certificate_.empty() && !key_.empty();
}

bool CredentialSource::pluginDue() const {
  if (!given_ || givenRefused_) return true;
  const auto now = std::chrono::floor<base::Timestamp::duration>(clock_.wall());
  return givenUntil_ && now >= *givenUntil_ && clock_.now() - pluginRan_ >= kBetweenRuns;
}

Status CredentialSource::askPlugin(Deadline until, const std::stop_token& stop) {
  if (!pluginRuns_) {
    if (!pluginFailed_.ok() && clock_.now() - pluginRan_ < pluginPause_) return pluginFailed_;
    pluginRuns_ = true;
    plugin_ = std::jthread([this](std::stop_token end) {
      pluginEnded(runExecPlugin(*endpoint_.exec, endpoint_, limits_, std::move(end)));
    });
  }
  changed_.wait_until(mutex_, stop, until, [this]() EGPU_REQUIRES(mutex_) { return !pluginRuns_; });
  if (!pluginRuns_) return pluginFailed_;
  if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
  return Status(Code::unavailable, "credential plugin " + endpoint_.exec->command + " has not answered yet");
}

void CredentialSource::pluginEnded(Result<codec::ExecCredential> answer) {
  base::MutexLock lock(mutex_);
  pluginRuns_ = false;
  pluginRan_ = clock_.now();
  if (answer) {
    std::optional<base::Timestamp> until;
    if (!answer->expirationTimestamp.empty()) until = base::parseRfc3339(answer->expirationTimestamp);
    if (!answer->expirationTimestamp.empty() && !until)
      answer = Status(Code::unavailable, "credential plugin " + endpoint_.exec->command +
                                             ": status.expirationTimestamp is not an RFC 3339 time");
    givenUntil_ = until;
  }
  pluginFailed_ = answer.status();
  if (answer) {
    given_ = std::move(*answer);
    givenRefused_ = false;
    published_ = nullptr;
    pluginPause_ = milliseconds(0);
  } else {
    pluginPause_ = std::clamp<milliseconds>(pluginPause_ * 2, kBetweenRuns, kMaxPause);
    if (answer.status().code() != Code::cancelled)
      base::log::error("no credentials", {{"why", answer.status().message()}});
  }
  changed_.notify_all();
}

}  // namespace egpu::kube
