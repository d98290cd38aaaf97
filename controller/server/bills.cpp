#include "controller/server/bills.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "controller/billing/bill_question.h"
#include "controller/billing/bill_text.h"
#include "controller/codec/json/text.h"
#include "controller/journal/files.h"

namespace egpu::server {

namespace {

using base::Code;

/// Returns a Kubernetes Status.
http::Response refuseBill(int status, std::string_view reason, const std::string& message) {
  codec::JsonText j;
  j.beginObject().key("kind").value("Status").key("apiVersion").value("v1").key("status").value("Failure");
  j.key("message").value(message).key("reason").value(reason).key("code").value(status).endObject();
  http::Response response;
  response.status = status;
  response.body = j.take();
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

http::Response refuseBill(const base::Status& why) {
  if (why.code() == Code::invalid) return refuseBill(400, "BadRequest", why.message());
  if (why.code() == Code::notFound) return refuseBill(404, "NotFound", why.message());
  return refuseBill(503, "ServiceUnavailable", why.message());
}

base::Result<billing::BillQuestion> questionOf(const http::Request& request) {
  billing::BillQuestion question;
  for (const auto& [name, value] : http::parseQuery(request.query))
    if (auto wrong = setField(question, name, value); !wrong.ok()) return wrong;
  if (auto wrong = check(question); !wrong.ok()) return wrong;
  return question;
}

}  // namespace

http::Response Bills::answer(const http::Request& request, bool whole, std::stop_token stop) {
  const auto question = questionOf(request);
  if (!question) return refuseBill(question.status());
  if (!whole && question->space.empty())
    return refuseBill(403, "Forbidden", "namespace: is needed without rights in the cluster");
  const auto found = folders();
  if (!found) return refuseBill(found.status());
  if (!answering_.try_lock()) return refuseBill(503, "ServiceUnavailable", "another bill is computed now: try again");
  const base::MutexLock lock(answering_, std::adopt_lock);
  auto bill = readBill(*found, *question, {}, std::move(stop));
  if (!bill) return refuseBill(bill.status());
  if (!whole) bill->cardMilliseconds.reset();
  http::Response response;
  if (question->format == "csv") {
    response.contentType = "text/csv";
    response.body = billing::csvText(*bill, question->headers);
  } else {
    response.body =
        question->format == "opencost" ? billing::openCostText(*bill, question->cluster) : billing::jsonText(*bill);
  }
  return response;
}

/// Returns the folders that have journals.
base::Result<std::vector<std::string>> Bills::folders() const {
  if (all_.empty() && journal_.empty())
    return base::Status(Code::notFound,
                        "no decision journal is kept, from which bills are computed: set --journal, or the value "
                        "controller.journal.enabled of the chart");
  if (all_.empty()) return std::vector<std::string>{journal_};
  std::vector<std::string> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(all_, failed), end; !failed && at != end; at.increment(failed)) {
    const auto files = journal::journalFiles(at->path());
    if (files && !files->empty()) found.push_back(at->path());
  }
  if (failed) return base::Status(Code::unavailable, "--bill-journals: " + all_ + ": " + failed.message());
  if (found.empty()) return base::Status(Code::notFound, "--bill-journals: " + all_ + " has no folder with a journal");
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace egpu::server
