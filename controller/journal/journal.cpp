#include "controller/journal/journal.h"

#include <algorithm>
#include <utility>

#include "controller/base/log.h"
#include "controller/codec/journal_record.h"
#include "controller/journal/records.h"

namespace egpu::journal {

namespace {

using base::Status;

constexpr std::chrono::milliseconds kGather{100};          ///< interval of writes, shorter at a high rate of records
constexpr std::size_t kMuch = Journal::kBuffered / 4 * 3;  ///< write early when so much of the buffer is left, or less
constexpr std::size_t kNamesAsOne = 16;                    ///< number of node names that use the memory of one record
constexpr std::size_t kAtOnce = std::size_t{1} << 16;      ///< bytes per write

}  // namespace

base::Result<std::unique_ptr<Journal>> Journal::open(const std::string& folder, int64_t bytes,
                                                     const std::string& program, const base::Clock& clock,
                                                     base::Metrics& metrics) {
  auto files = Files::open(folder, bytes, program);
  if (!files) return files.status();
  return std::unique_ptr<Journal>(new Journal(std::move(*files), clock, metrics));
}

Journal::Journal(Files files, const base::Clock& clock, base::Metrics& metrics)
    : clock_(clock),
      metrics_(metrics),
      files_(std::move(files)),
      writer_([this](const std::stop_token& stop) { run(stop); }) {}

Journal::~Journal() {
  writer_.request_stop();
  writer_.join();
}

int64_t Journal::wall() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch()).count();
}

void Journal::all(const scheduler::Cluster& cluster, allocator::ClaimUsers users) {
  auto copy = std::make_shared<const scheduler::Cluster>(cluster);
  const base::MutexLock lock(mutex_);
  // A snapshot is accepted even if the buffer is full: it is a single entry, and no other one follows until it is
  // written.
  unwritten_.push_back({wall(), Whole{std::move(copy), std::move(users), recording_}});
  recording_ = began_ = handed_ = true;
  wants_.store(false, std::memory_order_relaxed);
}

void Journal::put(What what) {
  const auto* decided = std::get_if<allocator::Decided>(&what);
  const std::size_t names = decided == nullptr ? 0 : decided->nodes.suited.size() + decided->nodes.refused.size();
  const base::MutexLock lock(mutex_);
  if (!recording_ || free_ == 0) {
    recording_ = false;
    if (began_) ++lost_;
    return;
  }
  const bool wasMuch = free_ <= kMuch;
  free_ -= std::min(free_, 1 + names / kNamesAsOne);
  unwritten_.push_back({wall(), std::move(what)});
  if (!wasMuch && free_ <= kMuch) filled_.notify_one();
}

void Journal::flush() {
  base::MutexLock lock(mutex_);
  hurry_ = true;
  filled_.notify_one();
  written_.wait(lock, [this]() EGPU_REQUIRES(mutex_) { return !hurry_ && !writing_ && unwritten_.empty(); });
}

std::deque<Journal::TimedChange> Journal::next(const std::stop_token& stop) {
  base::MutexLock lock(mutex_);
  filled_.wait_for(lock, stop, kGather, [this]() EGPU_REQUIRES(mutex_) { return hurry_ || free_ <= kMuch; });
  hurry_ = handed_ = false;
  free_ = kBuffered;
  writing_ = true;
  const auto now = clock_.now();
  if (unwritten_.empty() && recording_ && intact_ && now >= aliveAt_) unwritten_.push_back({wall(), Alive{}});
  if (!unwritten_.empty()) aliveAt_ = now + kAliveInterval;
  return std::exchange(unwritten_, {});
}

void Journal::run(const std::stop_token& stop) {
  for (bool last = false; !last;) {
    last = stop.stop_requested();
    const auto entries = next(stop);
    ask(entries.size(), write(entries));
  }
}

std::size_t Journal::write(const std::deque<TimedChange>& entries) {
  std::string lines;
  std::size_t held = 0, lost = 0;  // number of records in `lines`, and of those that were not written
  const auto append = [&] {
    const auto status = held > 0 ? files_.append(lines) : Status::okay();
    if (!status.ok()) {
      failed(status);
      lost += held;
    }
    lines.clear();
    held = 0;
  };
  for (const auto& entry : entries) {
    if (const auto* whole = std::get_if<Whole>(&entry.what)) {
      append();
      if (const auto status = begin(*whole, entry.time); !status.ok()) failed(status);
      continue;
    }
    if (!intact_) {
      ++lost;
      continue;
    }
    lines.append(codec::encode(recordOf(entry))).push_back('\n');
    ++held;
    if (lines.size() >= kAtOnce) append();
  }
  append();
  return lost;
}

codec::JournalRecord Journal::recordOf(const TimedChange& entry) {
  codec::JournalRecord record;
  if (const auto* change = std::get_if<allocator::Change>(&entry.what))
    record = journal::recordOf(*change);
  else if (const auto* decided = std::get_if<allocator::Decided>(&entry.what))
    record = journal::recordOf(*decided);
  else
    record.alive = true;
  record.time = entry.time;
  return record;
}

Status Journal::begin(const Whole& whole, int64_t time) {
  const bool continues = whole.continues && intact_;
  intact_ = false;
  auto status = files_.begin(continues, time);
  std::string lines;
  eachRecord(*whole.cluster, whole.users, [&](codec::JournalRecord record) {
    if (!status.ok()) return;
    record.time = time;
    lines.append(codec::encode(record)).push_back('\n');
    if (lines.size() < kAtOnce) return;
    status = files_.append(lines);
    lines.clear();
  });
  if (status.ok()) status = files_.append(lines);
  if (status.ok()) status = files_.endSnapshot();
  useless_ = status.code() == base::Code::tooLarge;
  if (!status.ok()) return status;
  intact_ = true;
  if (std::exchange(failing_, false)) base::log::info("writes to the decision journal work again");
  return status;
}

void Journal::failed(const Status& why) {
  intact_ = false;
  // The file is full because no decision requested a snapshot for long. The next snapshot includes the lost changes.
  if (why.code() == base::Code::tooLarge && !useless_) return;
  again_ = clock_.now() + kRetryBackoff;
  if (std::exchange(failing_, true)) return;
  base::log::error(useless_ ? "the decision journal is off: --journal-size is too small for this cluster"
                            : "the decision journal can't be written, decisions are not recorded until it can",
                   {{"error", why.message()}});
}

void Journal::ask(std::size_t taken, std::size_t unwritten) {
  uint64_t lost = unwritten;
  {
    const base::MutexLock lock(mutex_);
    if (!handed_) {
      recording_ = recording_ && intact_;
      const bool may = !useless_ && (!failing_ || clock_.now() >= again_);
      if (may && (!recording_ || files_.full())) wants_.store(true, std::memory_order_relaxed);
    }
    lost += std::exchange(lost_, 0);
  }
  if (taken > unwritten) metrics_.add("elasticgpu_journal_records_total", static_cast<double>(taken - unwritten), {});
  if (lost > 0) metrics_.add("elasticgpu_journal_lost_total", static_cast<double>(lost), {});
  const base::MutexLock lock(mutex_);
  writing_ = false;
  written_.notify_all();
}

}  // namespace egpu::journal
