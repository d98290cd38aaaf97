// Bills of card time over HTTP, from the decision journals: /bill. Parameters: billing::setField.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/mutex.h"
#include "controller/base/status.h"
#include "controller/http/http.h"

namespace egpu::server {

/// Thread-safe. Reads the journals for each answer, one answer at a time; further requests get 503.
class Bills {
 public:
  /// journal: the folder of this replica's journal; empty = none. all: a folder with the journal folders of all
  /// replicas; empty = `journal` alone.
  Bills(std::string journal, std::string all) : journal_(std::move(journal)), all_(std::move(all)) {}

  /// whole: the bill may contain all namespaces, and the time of all cards. Otherwise the question must name a
  /// namespace, and only its rows are returned.
  http::Response answer(const http::Request& request, bool whole, std::stop_token stop);

 private:
  base::Result<std::vector<std::string>> folders() const;
  const std::string journal_, all_;
  base::Mutex answering_;
};

}  // namespace egpu::server
