#include "controller/billing/bill.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/printable.h"
#include "controller/base/timestamp.h"
#include "controller/billing/bill_question.h"
#include "controller/billing/bill_text.h"
#include "controller/kube/query.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace egpu::kubectl {

namespace {

using base::Code;
using base::Status;
using billing::Bill;
using billing::BillRow;

constexpr double kHours = 3'600'000;   // milliseconds
constexpr const char* kPrefix = "--";  // prefix of flags in messages

base::Clock::Wall wallOf(int64_t milliseconds) { return base::Clock::Wall(std::chrono::milliseconds(milliseconds)); }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string tableOf(const Bill& bill, const BillOptions& options) {
  KubectlTable table;
  table.column("STATE");
  for (const auto& column : bill.columns) table.column(upper(column));
  table.column("CARD-SECONDS");
  table.column("USED");
  if (bill.hasCost) table.column("COST");
  for (const char* header : {"CARD-HOURS", "FIRST", "LAST"}) table.column(header, KubectlTable::Show::wide);
  int64_t sum = 0;
  for (const auto& row : bill.rows) {
    std::vector<std::string> cells = {std::string(nameOf(row.key.kind))};
    for (const auto& column : bill.columns)
      cells.push_back(base::printable(row.key.*billing::CardTimeKey::fieldOf(column)));
    cells.push_back(billing::secondsText(row.cardMilliseconds));
    cells.push_back(billing::usedText(row));
    if (bill.hasCost) cells.push_back(billing::fixedText(row.cost, 2));
    cells.push_back(billing::fixedText(static_cast<double>(row.cardMilliseconds) / kHours, 3));
    cells.push_back(base::rfc3339(wallOf(row.begin)));
    cells.push_back(base::rfc3339(wallOf(row.end)));
    table.row(std::move(cells));
    sum += row.cardMilliseconds;
  }
  auto text = table.text(options.output);
  if (options.output.noHeaders) return text;
  text += "\n" + billing::secondsText(sum) + " card-seconds";
  if (!options.namespace_.empty() && bill.cardMilliseconds)
    text += " of " + billing::secondsText(*bill.cardMilliseconds);
  return text + ", from " + base::rfc3339(wallOf(bill.from)) + " to " + base::rfc3339(wallOf(bill.to)) + "\n";
}

void print(const Bill& bill, const BillOptions& options) {
  const auto& output = options.output.output;
  if (output == "csv")
    printText(billing::csvText(bill, !options.output.noHeaders));
  else if (output == "opencost")
    printValue(Json::parse(billing::openCostText(bill, options.cluster)), options.output);
  else if (isStructured(options.output))
    printValue(Json::parse(billing::jsonText(bill)), options.output);
  else
    printText(tableOf(bill, options));
}

/// Fields of the question, by their names without "--", in the order of the flags.
std::vector<std::pair<std::string, std::string>> fieldsOf(const BillOptions& options) {
  std::vector<std::pair<std::string, std::string>> fields;
  const auto add = [&fields](const char* name, const std::string& value) {
    if (!value.empty()) fields.emplace_back(name, value);
  };
  add("from", options.from);
  add("to", options.to);
  for (const auto& each : options.by) fields.emplace_back("by", each);
  for (const auto& each : options.prices) fields.emplace_back("price", each);
  add("namespace", options.namespace_);
  add("cluster", options.cluster);
  if (options.output.output == "opencost") add("format", "opencost");
  return fields;
}

int64_t millisecondsOf(const std::string& text) {
  const auto time = base::parseRfc3339(text);
  return time ? std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count() : 0;
}

std::vector<std::string> textsOf(const Json& list) {
  std::vector<std::string> texts;
  for (const auto& each : list)
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

BillRow rowOf(const Json& value, const std::vector<std::string>& columns) {
  BillRow row;
  row.key.kind = billing::kindOf(textAt(value, {"state"})).value_or(billing::CardTimeKind::unknown);
  for (const auto& column : columns) row.key.*billing::CardTimeKey::fieldOf(column) = textAt(value, {column});
  row.cardMilliseconds = numberAt(value, {"cardMilliseconds"});
  if (!at(value, {"usedMilliseconds"}).is_null()) row.usedMilliseconds = numberAt(value, {"usedMilliseconds"});
  if (const auto& cost = at(value, {"cost"}); cost.is_number()) row.cost = cost.get<double>();
  row.begin = millisecondsOf(textAt(value, {"first"}));
  row.end = millisecondsOf(textAt(value, {"last"}));
  return row;
}

/// Reads billing::jsonText. Columns that this version does not know are left out.
Bill billOf(const Json& value) {
  Bill bill;
  bill.from = millisecondsOf(textAt(value, {"from"}));
  bill.to = millisecondsOf(textAt(value, {"to"}));
  if (!at(value, {"cardMilliseconds"}).is_null()) bill.cardMilliseconds = numberAt(value, {"cardMilliseconds"});
  bill.gaps = numberAt(value, {"gaps"});
  bill.warnings = textsOf(at(value, {"warnings"}));
  bill.columns = textsOf(at(value, {"columns"}));
  const auto& known = billing::BillFields::names();
  std::erase_if(bill.columns,
                [&known](const auto& each) { return std::find(known.begin(), known.end(), each) == known.end(); });
  for (const auto& row : at(value, {"rows"})) {
    bill.rows.push_back(rowOf(row, bill.columns));
    bill.hasCost = bill.hasCost || at(row, {"cost"}).is_number();
  }
  return bill;
}

std::string joinedByComma(const std::vector<std::string>& all) {
  std::string out;
  for (const auto& each : all) out += (out.empty() ? "" : ",") + each;
  return out;
}

/// Asks the controller, with the token of the kubeconfig.
base::Result<Bill> askController(const BillOptions& options) {
  auto client = options.client;
  client.server = options.controller;
  const auto connection = Connection::open(client);
  if (!connection) return connection.status();
  // The form of OpenCost is made here, from rows with all fields.
  const bool wantsAll = options.output.output == "opencost" && options.by.empty();
  std::string path = "/bill";
  for (const auto& [name, value] : fieldsOf(options))
    if (name != "format") kube::addQuery(path, name, value);
  if (wantsAll) kube::addQuery(path, "by", joinedByComma(billing::BillFields::names()));
  const auto answer = (*connection)->get(path);
  if (!answer) return answer.status();
  return billOf(*answer);
}

}  // namespace

int billVerb(const BillOptions& options) {
  if (options.folders.empty() == options.controller.empty())
    return fail("FOLDER or --controller: exactly one of them is needed", kUsage);
  billing::BillQuestion question;
  Status wrong;
  for (const auto& [name, value] : fieldsOf(options))
    if (wrong.ok()) wrong = setField(question, name, value, kPrefix);
  if (wrong.ok()) wrong = check(question, kPrefix);
  if (!wrong.ok()) return fail(wrong.message(), kUsage);
  const auto bill = options.controller.empty() ? readBill(options.folders, question, kPrefix) : askController(options);
  if (!bill) return fail(bill.status().message(), bill.status().code() == Code::invalid ? kUsage : kFailed);
  for (const auto& each : bill->warnings) std::fprintf(stderr, "warning: %s\n", base::printable(each).c_str());
  if (bill->rows.empty() && options.output.output.empty()) {
    std::fprintf(stderr, "No card time found.\n");
    return kDone;
  }
  print(*bill, options);
  return kDone;
}

}  // namespace egpu::kubectl
