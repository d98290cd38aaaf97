#include "controller/billing/bill_question.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "controller/base/clock.h"
#include "controller/base/timestamp.h"
#include "controller/journal/reading.h"

namespace egpu::billing {

namespace {

using base::Code;
using base::Status;

Status invalid(std::string message) { return {Code::invalid, std::move(message)}; }

std::string textOf(int64_t milliseconds) {
  return base::rfc3339(base::Clock::Wall(std::chrono::milliseconds(milliseconds)));
}

std::string joined(const std::vector<std::string>& all) {
  std::string out;
  for (const auto& each : all) out += (out.empty() ? "" : ", ") + each;
  return out;
}

/// Reads a date or a time.
Status readTime(const std::string& field, const std::string& text, int64_t& milliseconds) {
  auto time = base::parseRfc3339(text);
  if (!time) time = base::parseRfc3339(text + "T00:00:00Z");
  if (!time)
    return invalid(field + ": \"" + text +
                   "\" is not a time; valid are 2026-01-31, which begins at midnight UTC, and 2026-01-31T12:00:00Z");
  milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
  return Status::okay();
}

Status readFields(const std::string& field, const std::string& text, std::vector<std::string>& fields) {
  const auto& valid = BillFields::names();
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    if (std::find(valid.begin(), valid.end(), fields.back()) == valid.end())
      return invalid(field + ": \"" + fields.back() + "\" is unknown; valid are " + joined(valid));
    begin = end + 1;
  }
  return Status::okay();
}

Status readChoice(const std::string& field, const std::string& text, const std::vector<std::string>& valid) {
  if (std::find(valid.begin(), valid.end(), text) != valid.end()) return Status::okay();
  return invalid(field + ": \"" + text + "\" is unknown; valid are " + joined(valid));
}

/// Adds warnings if the journal does not describe the whole window, or not without gaps.
void warnOfMissing(Bill& bill, const BillWindow& window) {
  const bool isLate = window.from != BillWindow().from && bill.from > window.from;
  const bool isShort = window.to != BillWindow().to && bill.to < window.to;
  if (bill.from >= bill.to)
    bill.warnings.emplace_back("the journal describes no part of this time");
  else if (isLate || isShort)
    bill.warnings.push_back("the journal describes only the time from " + textOf(bill.from) + " to " + textOf(bill.to));
  if (bill.gaps > 0)
    bill.warnings.push_back("records are missing at " + std::to_string(bill.gaps) +
                            (bill.gaps == 1 ? " time" : " times") +
                            "; rows with the state unknown have the time that they would account for");
}

/// Returns a model of the times that has no price; empty if there is none.
std::string modelWithoutPrice(const CardTimes& times, const CardPrices& prices) {
  for (const auto& [key, time] : times)
    if (!prices.of(key.model)) return key.model;
  return {};
}

/// Fields of the rows: those of the question. OpenCost needs all that it names.
std::vector<std::string> fieldNames(const BillQuestion& question) {
  if (!question.by.empty()) return question.by;
  if (question.format == "opencost") return BillFields::names();
  return {"namespace", "class", "claim", "pod"};
}

}  // namespace

Status setField(BillQuestion& question, const std::string& name, const std::string& value, const std::string& prefix) {
  const auto field = prefix + name;
  if (name == "from") return readTime(field, value, question.window.from);
  if (name == "to") return readTime(field, value, question.window.to);
  if (name == "by") return readFields(field, value, question.by);
  if (name == "namespace") {
    question.space = value;
  } else if (name == "cluster") {
    question.cluster = value;
  } else if (name == "format") {
    question.format = value;
    return readChoice(field, value, {"json", "csv", "opencost"});
  } else if (name == "headers") {
    question.headers = value == "true";
    return readChoice(field, value, {"true", "false"});
  } else if (name == "price") {
    if (!question.prices.add(value))
      return invalid(field + ": \"" + value + "\" is not a price; valid are a number from 0 on, and MODEL=NUMBER");
  } else {
    return invalid("unknown parameter \"" + field +
                   "\"; known are from, to, by, price, namespace, cluster, format, headers");
  }
  return Status::okay();
}

Status check(const BillQuestion& question, const std::string& prefix) {
  if (question.window.from >= question.window.to) return invalid(prefix + "to: must be after " + prefix + "from");
  if (question.format == "opencost" && question.prices.empty())
    return invalid(prefix + "price: the format opencost needs the price of a card for an hour");
  return Status::okay();
}

base::Result<Bill> readBill(const std::vector<std::string>& folders, const BillQuestion& question,
                            const std::string& prefix, std::stop_token stop) {
  Bill bill;
  CardTimeAccount account(question.window);
  const journal::Reading reading{
      [&account](const codec::JournalRecord& record, bool isJoined) { account.add(record, isJoined); },
      [&bill](const std::string& text) { bill.warnings.push_back(text); }, std::move(stop)};
  if (const auto status = journal::read(folders, reading); !status.ok()) return status;
  const auto total = account.finish();
  bill.from = total.from;
  bill.to = total.to;
  bill.cardMilliseconds = total.cardMilliseconds;
  bill.gaps = total.gaps;
  warnOfMissing(bill, question.window);
  bill.hasCost = !question.prices.empty();
  if (const auto model = bill.hasCost ? modelWithoutPrice(total.times, question.prices) : std::string(); !model.empty())
    return invalid(prefix + "price: there is none for the model \"" + model + "\"; give a price for all models, or \"" +
                   model + "=NUMBER\"");
  const auto names = fieldNames(question);
  const auto fields = BillFields::of(names);
  if (!fields) return invalid(prefix + "by: valid are " + joined(BillFields::names()));
  for (const auto& column : BillFields::names()) {
    const bool isImplied = column == "namespace" && fields->space;
    if (isImplied || std::find(names.begin(), names.end(), column) != names.end()) bill.columns.push_back(column);
  }
  bill.rows = billRows(total.times, *fields, question.prices);
  if (!question.space.empty())
    std::erase_if(bill.rows, [&question](const BillRow& row) { return row.key.space != question.space; });
  return bill;
}

}  // namespace egpu::billing
