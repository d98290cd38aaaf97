// Texts of bills for programs.
#pragma once

#include <string>

#include "controller/billing/bill.h"

namespace egpu::billing {

/// JSON object, with all data of the bill. Times have the precision of a millisecond.
std::string jsonText(const Bill& bill);
/// CSV (RFC 4180), one line per row.
std::string csvText(const Bill& bill, bool headers);
/// JSON, as a response of OpenCost's /allocation.
std::string openCostText(const Bill& bill, const std::string& cluster);

/// "12.50": with this number of digits after the point.
std::string fixedText(double number, int digits);
/// Card-seconds of the usage; empty if it was never known.
std::string usedText(const BillRow& row);

}  // namespace egpu::billing
