// One line of the decision journal: what it says, and its JSON. controller/journal/README.md describes each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1alpha/types.h"
#include "controller/base/status.h"
#include "controller/scheduler/request.h"

namespace egpu::codec {

struct JournalBegin {
  int64_t version = 0;
  std::string program;     ///< that wrote it
  bool continues = false;  ///< nothing is missing between the file before and this one
};
struct JournalNode {
  std::string name;
  bool schedulable = false;
  int64_t cpuMilli = 0, memory = 0;
};
struct JournalCard {
  std::string name;
  bool healthy = false;
  v1alpha::Card card;
};
/// `by`: a device's uid, or "claim/<uid>". Amounts are charged ones.
struct JournalTake {
  std::string card, by;
  scheduler::Amount charged;
};
/// Uids.
struct JournalDevice {
  std::string device, claim;
};
/// Fractions as text, every bit of them.
struct JournalDemand {
  struct Class {
    scheduler::Request request;
    std::string weight;
  };
  std::vector<Class> classes;
  int64_t seen = 0;
  std::string unit;
  bool priced = false;
  std::vector<v1alpha::Card> types;
};
struct JournalGiven {
  std::string card;
  scheduler::Amount charged;
};
struct JournalAsk {
  std::string claim, uid;
  scheduler::Request request;
  std::string node;  ///< empty: it fits nowhere
  std::vector<JournalGiven> cards;
};
struct JournalDecision {
  std::vector<JournalAsk> asks;
  std::vector<std::string> suited, refused;
  bool onlySuited = false;
  bool given = false;  ///< can't be worked out again from what the journal has
};

/// One of its members is set.
struct JournalRecord {
  int64_t time = 0;  ///< milliseconds since 1970
  std::optional<JournalBegin> journal{};
  std::optional<JournalDemand> demand{};
  std::optional<JournalNode> node{};
  std::string nodeGone;
  std::optional<JournalCard> card{};
  std::string cardGone;
  std::optional<JournalTake> take{}, giveBack{};
  std::optional<JournalDevice> device{};
  std::string claimGone;
  bool complete = false;  ///< the picture stands; what follows are changes
  std::optional<scheduler::Request> asked{};
  std::optional<JournalDecision> decision{};
};

/// One line, without the newline.
std::string encode(const JournalRecord& record);
/// Code::malformed names the field.
base::Result<JournalRecord> decodeJournalRecord(std::string_view line);

}  // namespace egpu::codec
