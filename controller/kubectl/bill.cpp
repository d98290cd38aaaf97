#include "controller/billing/bill.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/printable.h"
#include "controller/base/timestamp.h"
#include "controller/billing/card_time_account.h"
#include "controller/journal/reading.h"
#include "controller/kubectl/output.h"
#include "controller/kubectl/verbs.h"

namespace egpu::kubectl {

namespace {

using billing::BillRow;
using billing::CardTimeKind;

constexpr double kMinutes = 60'000, kHours = 3'600'000;  // milliseconds

/// A field of the rows: its name as in --by, and its value.
struct BillColumn {
  std::string name;
  std::string billing::CardTimeKey::*value;
};

const std::vector<BillColumn>& allColumns() {
  using Key = billing::CardTimeKey;
  static const std::vector<BillColumn> kColumns = {{"namespace", &Key::space}, {"class", &Key::className},
                                                   {"claim", &Key::claim},     {"pod", &Key::pod},
                                                   {"node", &Key::node},       {"model", &Key::model}};
  return kColumns;
}

/// Everything that is printed.
struct PrintedBill {
  billing::CardTimeTotal total;
  std::vector<BillColumn> columns;
  std::vector<BillRow> rows;
  bool hasCost = false;
};

base::Clock::Wall wallOf(int64_t milliseconds) { return base::Clock::Wall(std::chrono::milliseconds(milliseconds)); }

/// Reads a date or a time of the flag. False after an error was printed.
bool readTime(const std::string& flag, const std::string& text, int64_t& milliseconds) {
  if (text.empty()) return true;
  auto time = base::parseRfc3339(text);
  if (!time) time = base::parseRfc3339(text + "T00:00:00Z");
  if (time) {
    milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
    return true;
  }
  fail(flag + ": \"" + text +
       "\" is not a time; valid are 2026-01-31, which begins at midnight UTC, and "
       "2026-01-31T12:00:00Z");
  return false;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string fixed(double number, int digits) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

std::string usedText(const BillRow& row) {
  return row.usedMilliseconds ? billing::secondsText(*row.usedMilliseconds) : std::string();
}

std::string tableOf(const PrintedBill& bill, const BillOptions& options) {
  KubectlTable table;
  table.column("STATE");
  for (const auto& column : bill.columns) table.column(upper(column.name));
  table.column("CARD-SECONDS");
  table.column("USED");
  if (bill.hasCost) table.column("COST");
  for (const char* header : {"CARD-HOURS", "FIRST", "LAST"}) table.column(header, KubectlTable::Show::wide);
  int64_t sum = 0;
  for (const auto& row : bill.rows) {
    std::vector<std::string> cells = {std::string(nameOf(row.key.kind))};
    for (const auto& column : bill.columns) cells.push_back(base::printable(row.key.*column.value));
    cells.push_back(billing::secondsText(row.cardMilliseconds));
    cells.push_back(usedText(row));
    if (bill.hasCost) cells.push_back(fixed(row.cost, 2));
    cells.push_back(fixed(static_cast<double>(row.cardMilliseconds) / kHours, 3));
    cells.push_back(base::rfc3339(wallOf(row.begin)));
    cells.push_back(base::rfc3339(wallOf(row.end)));
    table.row(std::move(cells));
    sum += row.cardMilliseconds;
  }
  auto text = table.text(options.output);
  if (options.output.noHeaders) return text;
  text += "\n" + billing::secondsText(sum) + " card-seconds";
  if (!options.namespace_.empty()) text += " of " + billing::secondsText(bill.total.cardMilliseconds);
  return text + ", from " + base::rfc3339(wallOf(bill.total.from)) + " to " + base::rfc3339(wallOf(bill.total.to)) +
         "\n";
}

Json valueOf(const PrintedBill& bill) {
  Json rows = Json::array();
  for (const auto& row : bill.rows) {
    Json out = {{"state", nameOf(row.key.kind)}};
    for (const auto& column : bill.columns)
      if (!(row.key.*column.value).empty()) out[column.name] = row.key.*column.value;
    out["cardMilliseconds"] = row.cardMilliseconds;
    if (row.usedMilliseconds) out["usedMilliseconds"] = *row.usedMilliseconds;
    if (bill.hasCost) out["cost"] = row.cost;
    rows.push_back(std::move(out));
  }
  return {{"from", base::rfc3339Micro(wallOf(bill.total.from))},
          {"to", base::rfc3339Micro(wallOf(bill.total.to))},
          {"cardMilliseconds", bill.total.cardMilliseconds},
          {"gaps", bill.total.gaps},
          {"rows", std::move(rows)}};
}

/// Quotes a cell as RFC 4180 does.
std::string csvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csvOf(const PrintedBill& bill, bool noHeaders) {
  std::string out;
  const auto line = [&out](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + csvCell(cells[i]);
    out += "\n";
  };
  std::vector<std::string> header = {"from", "to", "state"};
  for (const auto& column : bill.columns) header.push_back(column.name);
  header.insert(header.end(), {"card_seconds", "used_seconds"});
  if (bill.hasCost) header.emplace_back("cost");
  if (!noHeaders) line(header);
  const auto from = base::rfc3339Micro(wallOf(bill.total.from)), to = base::rfc3339Micro(wallOf(bill.total.to));
  for (const auto& row : bill.rows) {
    std::vector<std::string> cells = {from, to, std::string(nameOf(row.key.kind))};
    for (const auto& column : bill.columns) cells.push_back(row.key.*column.value);
    cells.push_back(billing::secondsText(row.cardMilliseconds));
    cells.push_back(usedText(row));
    if (bill.hasCost) cells.push_back(fixed(row.cost, 6));
    line(cells);
  }
  return out;
}

/// Name of an allocation, unique in its set: its properties, as OpenCost joins them.
std::string allocationName(const BillRow& row, const std::string& cluster) {
  std::string name;
  const auto add = [&name](const std::string& part) {
    if (!part.empty()) name += (name.empty() ? "" : "/") + part;
  };
  for (const auto& part : {cluster, row.key.node, row.key.space, row.key.pod, row.key.claim}) add(part);
  if (row.key.kind != CardTimeKind::claim) add("__" + std::string(nameOf(row.key.kind)) + "__");
  if (!row.key.model.empty()) add(row.key.model);
  if (!row.key.className.empty()) add(row.key.className);
  return name;
}

/// A response of OpenCost's /allocation.
Json openCostOf(const PrintedBill& bill, const std::string& cluster) {
  const auto timeOf = [](int64_t milliseconds) { return base::rfc3339(wallOf(milliseconds)); };
  Json set = Json::object();
  for (const auto& row : bill.rows) {
    Json properties = Json::object();
    const auto put = [](Json& to, const char* name, const std::string& value) {
      if (!value.empty()) to[name] = value;
    };
    put(properties, "cluster", cluster);
    put(properties, "node", row.key.node);
    put(properties, "namespace", row.key.space);
    put(properties, "pod", row.key.pod);
    Json labels = {{"egpu_state", nameOf(row.key.kind)}};
    put(labels, "egpu_claim", row.key.claim);
    put(labels, "egpu_class", row.key.className);
    put(labels, "egpu_model", row.key.model);
    properties["labels"] = std::move(labels);
    const auto name = allocationName(row, cluster);
    const auto time = static_cast<double>(row.end - row.begin);
    set[name] = {{"name", name},
                 {"properties", std::move(properties)},
                 {"window", {{"start", timeOf(bill.total.from)}, {"end", timeOf(bill.total.to)}}},
                 {"start", timeOf(row.begin)},
                 {"end", timeOf(row.end)},
                 {"minutes", time / kMinutes},
                 {"gpuCount", static_cast<double>(row.cardMilliseconds) / std::max(time, 1.0)},
                 {"gpuHours", static_cast<double>(row.cardMilliseconds) / kHours},
                 {"gpuCost", row.cost},
                 {"totalCost", row.cost}};
  }
  return {{"code", 200}, {"data", Json::array({std::move(set)})}};
}

void print(const PrintedBill& bill, const BillOptions& options) {
  const auto& output = options.output.output;
  if (output == "csv")
    printText(csvOf(bill, options.output.noHeaders));
  else if (output == "opencost")
    printValue(openCostOf(bill, options.cluster), options.output);
  else if (isStructured(options.output))
    printValue(valueOf(bill), options.output);
  else
    printText(tableOf(bill, options));
}

void warn(const std::string& text) { std::fprintf(stderr, "warning: %s\n", base::printable(text).c_str()); }

/// Warns if the journal does not describe the whole window, or not without gaps.
void warnOfMissing(const billing::CardTimeTotal& total, const billing::BillWindow& window) {
  const bool isLate = window.from != billing::BillWindow().from && total.from > window.from;
  const bool isShort = window.to != billing::BillWindow().to && total.to < window.to;
  if (total.from >= total.to)
    warn("the journal describes no part of this time");
  else if (isLate || isShort)
    warn("the journal describes only the time from " + base::rfc3339(wallOf(total.from)) + " to " +
         base::rfc3339(wallOf(total.to)));
  if (total.gaps > 0)
    warn("records are missing at " + std::to_string(total.gaps) + (total.gaps == 1 ? " time" : " times") +
         "; rows with the state unknown have the time that they would account for");
}

/// False after an error was printed.
bool readFlags(const BillOptions& options, billing::BillWindow& window, billing::CardPrices& prices) {
  if (!readTime("--from", options.from, window.from) || !readTime("--to", options.to, window.to)) return false;
  if (window.from >= window.to) {
    fail("--to: must be after --from");
    return false;
  }
  for (const auto& price : options.prices)
    if (!prices.add(price)) {
      fail("--price: \"" + price + "\" is not a price; valid are a number from 0 on, and MODEL=NUMBER");
      return false;
    }
  if (options.output.output == "opencost" && prices.empty()) {
    fail("--price: -o opencost needs the price of a card for an hour");
    return false;
  }
  return true;
}

/// Returns a model of the times that has no price; empty if there is none.
std::string modelWithoutPrice(const billing::CardTimes& times, const billing::CardPrices& prices) {
  for (const auto& [key, time] : times)
    if (!prices.of(key.model)) return key.model;
  return {};
}

/// Fields of the rows: those of --by. OpenCost needs all that it names.
std::vector<std::string> fieldNames(const BillOptions& options) {
  if (!options.by.empty()) return options.by;
  if (options.output.output == "opencost") return billing::BillFields::names();
  return {"namespace", "class", "claim", "pod"};
}

}  // namespace

int billVerb(const BillOptions& options) {
  billing::BillWindow window;
  PrintedBill bill;
  billing::CardPrices prices;
  if (!readFlags(options, window, prices)) return kUsage;
  const auto names = fieldNames(options);
  const auto fields = billing::BillFields::of(names);
  if (!fields) return fail("--by: valid are " + joined(billing::BillFields::names()), kUsage);
  billing::CardTimeAccount account(window);
  const journal::Reading reading{
      [&account](const codec::JournalRecord& record, bool isJoined) { account.add(record, isJoined); }, warn};
  if (const auto status = journal::read(options.folders, reading); !status.ok()) return fail("", status);
  bill.total = account.finish();
  warnOfMissing(bill.total, window);
  bill.hasCost = !prices.empty();
  if (const auto model = bill.hasCost ? modelWithoutPrice(bill.total.times, prices) : std::string(); !model.empty())
    return fail("--price: there is none for the model \"" + model + "\"; give a price for all models, or \"" + model +
                    "=NUMBER\"",
                kUsage);
  for (const auto& column : allColumns()) {
    const bool isImplied = column.name == "namespace" && fields->space;
    if (isImplied || std::find(names.begin(), names.end(), column.name) != names.end()) bill.columns.push_back(column);
  }
  bill.rows = billRows(bill.total.times, *fields, prices);
  if (!options.namespace_.empty())
    std::erase_if(bill.rows, [&options](const BillRow& row) { return row.key.space != options.namespace_; });
  if (bill.rows.empty() && options.output.output.empty()) {
    std::fprintf(stderr, "No card time found.\n");
    return kDone;
  }
  print(bill, options);
  return kDone;
}

}  // namespace egpu::kubectl
