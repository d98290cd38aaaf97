// elastic-gpu-controller journal: shows a decision journal, and replays its decisions.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/base/clock.h"
#include "controller/base/printable.h"
#include "controller/cmd/fail.h"
#include "controller/cmd/operations_client.h"
#include "controller/cmd/options.h"
#include "controller/codec/json/text.h"
#include "controller/journal/reading.h"
#include "controller/journal/replay.h"
#include "controller/whatif/render/text_table.h"

namespace egpu::cmd {

namespace {

using codec::JournalRecord;
using codec::JsonText;
using journal::ReplaySummary;

std::string timeText(int64_t milliseconds) {
  return base::rfc3339(base::Clock::Wall(std::chrono::milliseconds(milliseconds)));
}

/// 1234 → "1.2 s"
std::string durationText(int64_t milliseconds) {
  char text[32];
  if (milliseconds < 1000)
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(milliseconds));
  else
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(milliseconds) / 1000);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string askedText(const scheduler::Request& r) {
  std::string text = std::to_string(r.cards) + (r.cards == 1 ? " card" : " cards");
  if (r.wholeCards) return text + ", whole";
  if (r.milliTflopsPerCard > 0) text += ", " + std::to_string(r.milliTflopsPerCard) + " milli-TFLOPS";
  if (r.perCard.core > 0) text += ", " + std::to_string(r.perCard.core) + " milli-cards";
  if (r.perCard.memory > 0) text += ", " + std::to_string(r.perCard.memory >> 20) + " MiB";
  return text;
}

std::string decisionText(const JournalRecord& record, const codec::JournalAsk& ask) {
  std::string text = timeText(record.time) + "  " + ask.claim + "  " + askedText(ask.request) + "  ";
  if (ask.node.empty()) {
    text += "fits nowhere";
    if (const auto refused = record.decision->refused.size(); refused > 0)
      text += " (" + std::to_string(refused) + " nodes did not suit)";
    return text;
  }
  text += ask.node + ":";
  for (const auto& given : ask.cards) text += " " + given.card;
  return text;
}

bool isMeant(const JournalOptions& options, const codec::JournalDecision& decision) {
  if (options.claim.empty()) return true;
  for (const auto& ask : decision.asks)
    if (ask.claim == options.claim) return true;
  return false;
}

void show(const JournalOptions& options, const JournalRecord& record) {
  const bool decides = record.decision && isMeant(options, *record.decision);
  if (!decides && !options.all) return;
  if (!decides || options.output == "json") {
    std::printf("%s\n", codec::encode(record).c_str());
    return;
  }
  for (const auto& ask : record.decision->asks)
    if (options.claim.empty() || ask.claim == options.claim)
      std::printf("%s\n", whatif::forTerminal(decisionText(record, ask), false).c_str());
}

void write(JsonText& j, std::string_view name, const ReplaySummary::Share& share) {
  j.key(name).beginObject();
  j.key("mean").value(share.mean).key("max").value(share.max).key("last").value(share.last).endObject();
}

void write(JsonText& j, const ReplaySummary& o) {
  j.beginObject();
  for (const auto& [name, number] :
       std::vector<std::pair<std::string_view, int64_t>>{{"from", o.from},
                                                         {"to", o.to},
                                                         {"stretches", o.stretches},
                                                         {"decisions", o.decisions},
                                                         {"given", o.given},
                                                         {"different", o.different},
                                                         {"claims", o.claims},
                                                         {"placed", o.placed},
                                                         {"waited", o.waited},
                                                         {"waiting", o.waiting},
                                                         {"left", o.left},
                                                         {"meanWaitMs", o.meanWait},
                                                         {"p99WaitMs", o.p99Wait},
                                                         {"longestWaitMs", o.longestWait},
                                                         {"longestWaitingMs", o.longestWaiting},
                                                         {"guessed", o.guessed}})
    j.key(name).value(number);
  write(j, "core", o.core);
  write(j, "memory", o.memory);
  if (o.firstFailure) {
    j.key("firstFailure").beginObject().key("at").value(o.firstFailure->at).key("claim").value(o.firstFailure->claim);
    j.key("core").value(o.firstFailure->core).key("nth").value(o.firstFailure->nth).endObject();
  }
  if (!o.firstDifferent.empty()) j.key("firstDifferent").value(o.firstDifferent);
  j.endObject();
}

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows rows(const ReplaySummary& o) {
  Rows out = {{"claims with requests", std::to_string(o.claims)},
              {"placed", std::to_string(o.placed)},
              {"  of them after a wait", std::to_string(o.waited)},
              {"  wait, mean", durationText(o.meanWait)},
              {"  wait, p99", durationText(o.p99Wait)},
              {"  wait, longest", durationText(o.longestWait)},
              {"waiting at the end", std::to_string(o.waiting)},
              {"  longest so far", durationText(o.longestWaiting)},
              {"deleted while they waited", std::to_string(o.left)}};
  for (const auto& [name, share] : {std::pair("core", o.core), std::pair("memory", o.memory)}) {
    out.emplace_back(std::string(name) + " allocated, mean", percent(share.mean));
    out.emplace_back("  at most", percent(share.max));
    out.emplace_back("  at the end", percent(share.last));
  }
  const auto failure = o.firstFailure.value_or(ReplaySummary::FailedPlacement{});
  out.emplace_back("first that did not fit", failure.at == 0 ? "none" : failure.claim);
  out.emplace_back("  when", failure.at == 0 ? "" : timeText(failure.at));
  out.emplace_back("  request number", failure.at == 0 ? "" : std::to_string(failure.nth));
  out.emplace_back("  core allocated then", failure.at == 0 ? "" : percent(failure.core));
  return out;
}

void printNotes(const ReplaySummary& o) {
  const auto note = [](int64_t count, const char* what) {
    if (count > 0) std::printf("%lld %s\n", static_cast<long long>(count), what);
  };
  note(o.stretches - 1, "gaps in the journal; after each, the replay continues with the recorded cluster");
  note(o.given, "decisions can't be repeated and are taken as recorded");
  note(o.guessed, "claims went to nodes without a recorded check; these nodes are assumed to be suitable");
  if (!o.firstDifferent.empty())
    std::printf("first difference: %s\n", whatif::forTerminal(o.firstDifferent, false).c_str());
}

void printTable(const ReplaySummary& recorded, const std::optional<ReplaySummary>& other, const std::string& policy) {
  using Cell = whatif::TextTable::Cell;
  std::printf("from %s to %s\n", timeText(recorded.from).c_str(), timeText(recorded.to).c_str());
  std::vector<Cell> header = {Cell{""}, Cell{"AS RECORDED"}};
  if (other) header.push_back(Cell{"UNDER " + policy});
  whatif::TextTable table(header);
  const auto left = rows(recorded), right = rows(other.value_or(ReplaySummary{}));
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::vector<Cell> row = {Cell{left[i].first}, Cell{left[i].second}};
    if (other) row.push_back(Cell{right[i].second});
    table.add(std::move(row));
  }
  std::printf("%s\n", table.render(0, {}).c_str());
  printNotes(other.value_or(recorded));
  if (!other)
    std::printf("%lld of %lld decisions came out as recorded\n",
                static_cast<long long>(recorded.decisions - recorded.different),
                static_cast<long long>(recorded.decisions));
}

int replay(const JournalOptions& options, journal::Reading reading) {
  std::optional<scheduler::Policies> policies;
  if (!options.policy.empty() && !scheduler::findPolicies(options.policy, policies.emplace())) {
    std::string known;
    for (const auto& name : scheduler::policyNames()) known += (known.empty() ? "" : ", ") + name;
    printError("--policy: unknown policy \"" + options.policy + "\"; known are " + known +
               ", and NODEPOLICY/CARDPOLICY");
    return 2;
  }
  journal::Replay recorded({}), other(policies);
  reading.each = [&](const JournalRecord& record, bool joined) {
    recorded.add(record, joined);
    if (policies) other.add(record, joined);
  };
  if (auto s = journal::read(options.folder, reading); !s.ok()) return fail("", s);
  const auto as = recorded.summary();
  const auto under = policies ? std::optional(other.summary()) : std::nullopt;
  if (options.output == "json") {
    JsonText j;
    j.beginObject().key("recorded");
    write(j, as);
    if (under) {
      j.key("policy").value(options.policy).key("replayed");
      write(j, *under);
    }
    j.endObject();
    std::printf("%s\n", j.take().c_str());
  } else {
    printTable(as, under, options.policy);
  }
  return under || as.different == 0 ? 0 : 1;
}

}  // namespace

int journalCommand(const JournalOptions& options) {
  journal::Reading reading;
  reading.leftOut = [](const std::string& what) {
    std::fprintf(stderr, "warning: %s\n", base::printable(what).c_str());
  };
  if (options.replay) return replay(options, std::move(reading));
  reading.each = [&options](const JournalRecord& record, bool) { show(options, record); };
  const auto status = journal::read(options.folder, reading);
  return status.ok() ? 0 : fail("", status);
}

}  // namespace egpu::cmd
