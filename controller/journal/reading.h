// Reads the files of a journal, one after the other, even while another process writes them.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/codec/journal_record.h"

namespace egpu::journal {

struct Reading {
  /// Called for each record, in order. joined: no record is missing between the previous file and the file of this
  /// record, so that the snapshot at the beginning of the file is already known.
  std::function<void(const codec::JournalRecord&, bool joined)> each;
  /// Called with a message for people that names the file and the part of it that is skipped.
  std::function<void(const std::string&)> leftOut;
  /// Ends the reading with Code::cancelled.
  std::stop_token stop{};
};

/// Reads all files of the folders, in the order of their first records: replicas of a controller have a folder each.
/// Skips a file whose snapshot is incomplete, all records of a file after one that can't be read, and a last line that
/// is incomplete. Fails with Code::notFound if a folder can't be read or has no journal.
base::Status read(const std::vector<std::string>& folders, const Reading& reading);
inline base::Status read(const std::string& folder, const Reading& reading) {
  return read(std::vector<std::string>{folder}, reading);
}

}  // namespace egpu::journal
