// Questions for bills: the flags of `kubectl egpu bill`, and the parameters of /bill.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "controller/base/status.h"
#include "controller/billing/bill.h"
#include "controller/billing/card_time_account.h"

namespace egpu::billing {

struct BillQuestion {
  BillWindow window;
  std::vector<std::string> by;  ///< fields of the rows; empty = those that the format needs
  CardPrices prices;
  std::string space;            ///< only rows of this namespace; empty = all rows
  std::string cluster;          ///< property of OpenCost's allocations; empty = none
  std::string format = "json";  ///< json | csv | opencost
  bool headers = true;          ///< csv has a line of headers
};

/// Sets a field by its name: from, to, by (fields separated by commas), price (repeatable), namespace, cluster, format,
/// headers. Code::invalid names the field after `prefix`, and the valid values.
base::Status setField(BillQuestion& question, const std::string& name, const std::string& value,
                      const std::string& prefix = {});
/// Checks fields that depend on each other.
base::Status check(const BillQuestion& question, const std::string& prefix = {});

/// Computes a bill from the journals in the folders: one of each replica. Code::notFound: a folder has no journal.
/// Code::invalid: the price of a model is missing.
base::Result<Bill> readBill(const std::vector<std::string>& folders, const BillQuestion& question,
                            const std::string& prefix = {}, std::stop_token stop = {});

}  // namespace egpu::billing
