#include "controller/journal/reading.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "controller/journal/files.h"

namespace egpu::journal {

namespace {

using base::Code;
using base::Status;
using codec::JournalRecord;

class JournalFile {
 public:
  JournalFile(const std::string& path, const Reading& reading)
      : name_(std::filesystem::path(path).filename()), in_(path), reading_(reading) {}

  /// Reports the records of this file. follows: the previous file was read to its end. Returns true if this file was.
  bool read(bool follows) {
    if (!picture()) return false;
    const bool joined = follows && picture_.front().journal->continues;
    for (const auto& record : picture_) reading_.each(record, joined);
    picture_.clear();
    JournalRecord record;
    while (!reading_.stop.stop_requested() && next(record)) reading_.each(record, joined);
    return whole_;
  }

 private:
  /// Reads the snapshot at the beginning of the file. Returns false if it is missing or incomplete.
  bool picture() {
    JournalRecord record;
    while (!reading_.stop.stop_requested() && next(record)) {
      const bool complete = record.complete;
      if (picture_.empty() && (!record.journal || record.journal->version != 1)) {
        leaveOut("all of it: its first record is not of a journal of version 1");
        return false;
      }
      picture_.push_back(std::move(record));
      if (complete) return true;
    }
    if (whole_ && !reading_.stop.stop_requested()) leaveOut("all of it: it ends before the whole cluster is described");
    return false;
  }

  /// Reads the next record. Returns false at the end of the file, and at a line that can't be read, which also clears
  /// `whole_`.
  bool next(JournalRecord& record) {
    std::string line;
    if (!whole_ || !std::getline(in_, line)) return false;
    ++number_;
    if (in_.eof()) {
      leaveOut("its last record, which is incomplete");
      return false;
    }
    auto read = codec::decodeJournalRecord(line);
    if (!read) {
      leaveOut("line " + std::to_string(number_) + " and what follows: " + read.status().message());
      return false;
    }
    record = std::move(*read);
    return true;
  }

  void leaveOut(const std::string& what) {
    whole_ = false;
    reading_.leftOut(name_ + ": left out " + what);
  }

  std::string name_;
  std::ifstream in_;
  const Reading& reading_;
  std::vector<JournalRecord> picture_;
  int64_t number_ = 0;
  bool whole_ = true;
};

struct FileInOrder {
  int64_t begin = 0;  ///< time of its first record
  std::size_t folder = 0;
  int64_t number = 0;
  std::string path;
};

/// Returns 0 if it can't be read.
int64_t timeOfFirstRecord(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return 0;
  const auto record = codec::decodeJournalRecord(line);
  return record ? record->time : 0;
}

}  // namespace

Status read(const std::vector<std::string>& folders, const Reading& reading) {
  std::vector<FileInOrder> all;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const auto files = journalFiles(folders[i]);
    if (!files) return files.status();
    if (files->empty()) return {Code::notFound, folders[i] + ": there is no journal-*.jsonl"};
    int64_t begin = 0;
    for (const auto& [number, path] : *files) {
      if (folders.size() > 1) begin = std::max(begin, timeOfFirstRecord(path));  // the order in a folder stays
      all.push_back({begin, i, number, path});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  bool follows = false;
  const FileInOrder* last = nullptr;
  for (const auto& each : all) {
    if (reading.stop.stop_requested()) return {Code::cancelled, "a stop was requested"};
    JournalFile file(each.path, reading);
    follows = file.read(follows && last->folder == each.folder && each.number == last->number + 1);
    last = &each;
  }
  if (reading.stop.stop_requested()) return {Code::cancelled, "a stop was requested"};
  return Status::okay();
}

}  // namespace egpu::journal
