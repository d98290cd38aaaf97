// Reads the files of a journal, one after the other, while they are written too.
#pragma once

#include <functional>
#include <string>

#include "controller/base/status.h"
#include "controller/codec/journal_record.h"

namespace egpu::journal {

struct Reading {
  /// A record, in order. joined: of a file's first record, that nothing is missing since the record before, so that the
  /// picture which follows is known already.
  std::function<void(const codec::JournalRecord&, bool joined)> each;
  /// For people: what is left out, and where.
  std::function<void(const std::string&)> leftOut;
};

/// Of a file that ends in the middle of its picture nothing is told, and of one with a record that can't be read
/// nothing after it. A last line that is not whole is left out. Code::notFound: there is no such folder, or no journal in it.
base::Status read(const std::string& folder, const Reading& reading);

}  // namespace egpu::journal
