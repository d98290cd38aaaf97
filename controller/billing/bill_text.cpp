#include "controller/billing/bill_text.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/timestamp.h"
#include "controller/codec/json/text.h"

namespace egpu::billing {

namespace {

using codec::JsonText;

constexpr double kMinutes = 60'000, kHours = 3'600'000;  // milliseconds

base::Clock::Wall wallOf(int64_t milliseconds) { return base::Clock::Wall(std::chrono::milliseconds(milliseconds)); }
std::string exactTime(int64_t milliseconds) { return base::rfc3339Micro(wallOf(milliseconds)); }
std::string timeText(int64_t milliseconds) { return base::rfc3339(wallOf(milliseconds)); }

/// Quotes a cell as RFC 4180 does.
std::string csvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csvLine(const std::vector<std::string>& cells) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + csvCell(cells[i]);
  return out + "\n";
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

void putUnlessEmpty(JsonText& j, std::string_view name, const std::string& value) {
  if (!value.empty()) j.key(name).value(value);
}

void writeProperties(JsonText& j, const BillRow& row, const std::string& cluster) {
  j.key("properties").beginObject();
  putUnlessEmpty(j, "cluster", cluster);
  putUnlessEmpty(j, "node", row.key.node);
  putUnlessEmpty(j, "namespace", row.key.space);
  putUnlessEmpty(j, "pod", row.key.pod);
  j.key("labels").beginObject().key("egpu_state").value(nameOf(row.key.kind));
  putUnlessEmpty(j, "egpu_claim", row.key.claim);
  putUnlessEmpty(j, "egpu_class", row.key.className);
  putUnlessEmpty(j, "egpu_model", row.key.model);
  j.endObject().endObject();
}

}  // namespace

std::string fixedText(double number, int digits) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

std::string usedText(const BillRow& row) {
  return row.usedMilliseconds ? secondsText(*row.usedMilliseconds) : std::string();
}

std::string jsonText(const Bill& bill) {
  JsonText j;
  j.beginObject().key("from").value(exactTime(bill.from)).key("to").value(exactTime(bill.to));
  if (bill.cardMilliseconds) j.key("cardMilliseconds").value(*bill.cardMilliseconds);
  j.key("gaps").value(bill.gaps);
  if (!bill.warnings.empty()) {
    j.key("warnings").beginArray();
    for (const auto& each : bill.warnings) j.value(each);
    j.endArray();
  }
  j.key("columns").beginArray();
  for (const auto& each : bill.columns) j.value(each);
  j.endArray().key("rows").beginArray();
  for (const auto& row : bill.rows) {
    j.beginObject().key("state").value(nameOf(row.key.kind));
    for (const auto& column : bill.columns) putUnlessEmpty(j, column, row.key.*CardTimeKey::fieldOf(column));
    j.key("cardMilliseconds").value(row.cardMilliseconds);
    if (row.usedMilliseconds) j.key("usedMilliseconds").value(*row.usedMilliseconds);
    if (bill.hasCost) j.key("cost").value(row.cost);
    j.key("first").value(exactTime(row.begin)).key("last").value(exactTime(row.end)).endObject();
  }
  return j.endArray().endObject().take();
}

std::string csvText(const Bill& bill, bool headers) {
  std::string out;
  std::vector<std::string> header = {"from", "to", "state"};
  header.insert(header.end(), bill.columns.begin(), bill.columns.end());
  header.insert(header.end(), {"card_seconds", "used_seconds"});
  if (bill.hasCost) header.emplace_back("cost");
  if (headers) out += csvLine(header);
  for (const auto& row : bill.rows) {
    std::vector<std::string> cells = {exactTime(bill.from), exactTime(bill.to), std::string(nameOf(row.key.kind))};
    for (const auto& column : bill.columns) cells.push_back(row.key.*CardTimeKey::fieldOf(column));
    cells.push_back(secondsText(row.cardMilliseconds));
    cells.push_back(usedText(row));
    if (bill.hasCost) cells.push_back(fixedText(row.cost, 6));
    out += csvLine(cells);
  }
  return out;
}

std::string openCostText(const Bill& bill, const std::string& cluster) {
  JsonText j;
  j.beginObject().key("code").value(200).key("data").beginArray().beginObject();
  for (const auto& row : bill.rows) {
    const auto name = allocationName(row, cluster);
    const auto time = static_cast<double>(row.end - row.begin);
    j.key(name).beginObject().key("name").value(name);
    writeProperties(j, row, cluster);
    j.key("window").beginObject().key("start").value(timeText(bill.from)).key("end").value(timeText(bill.to));
    j.endObject().key("start").value(timeText(row.begin)).key("end").value(timeText(row.end));
    j.key("minutes").value(time / kMinutes);
    j.key("gpuCount").value(static_cast<double>(row.cardMilliseconds) / std::max(time, 1.0));
    j.key("gpuHours").value(static_cast<double>(row.cardMilliseconds) / kHours);
    j.key("gpuCost").value(row.cost).key("totalCost").value(row.cost).endObject();
  }
  return j.endObject().endArray().endObject().take();
}

}  // namespace egpu::billing
