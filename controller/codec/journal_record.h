// One line of the decision journal as a struct and as JSON. controller/journal/README.md describes each kind of record.
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
  std::string program;     ///< program that wrote the file
  bool continues = false;  ///< no record is missing between the previous file and this one
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
/// Allocation of a card. `by`: uid of the device, or "claim/<uid>" before the device exists.
struct JournalTake {
  std::string card, by;
  scheduler::Amount charged;
  std::string mode{};  ///< isolation mode of the card's shares afterwards; empty = none
};
/// The isolation mode of the shares on a card changed.
struct JournalMode {
  std::string card, mode;
};
/// A device and its claim.
struct JournalDevice {
  std::string device, claim;  ///< uids
};
/// Claim of what takes a card.
struct JournalHolder {
  std::string by;                     ///< as in JournalTake
  std::string claim;                  ///< "namespace/name"; empty: a device without a claim
  std::string uid;                    ///< uid of the claim; empty: not known
  std::string className;              ///< JSON: class; empty: not known
  std::optional<int64_t> usedCore{};  ///< usage, milli-cards of all cards of the claim; absent: not known
};
/// Claims that a pod uses while it has a node and has not ended.
struct JournalPod {
  std::string name;                 ///< "namespace/name"
  std::vector<std::string> claims;  ///< names in its namespace; empty: it has ended
};
/// Demand that the scheduler has learned. Fractions are hexadecimal text, so that they are exact.
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
  std::string node;  ///< empty: the request fits nowhere
  std::vector<JournalGiven> cards;
  std::string className{};  ///< JSON: class
};
struct JournalDecision {
  std::vector<JournalAsk> asks;
  std::vector<std::string> suited, refused;
  bool onlySuited = false;
  bool given = false;  ///< the decision depends on data that the journal lacks: a replay takes it as recorded
};

/// A record. Besides `time`, one member is set.
struct JournalRecord {
  int64_t time = 0;  ///< milliseconds since 1970
  std::optional<JournalBegin> journal{};
  std::optional<JournalDemand> demand{};
  std::optional<JournalNode> node{};
  std::string nodeGone;
  std::optional<JournalCard> card{};
  std::string cardGone;
  std::optional<JournalTake> take{}, giveBack{};
  std::optional<JournalMode> mode{};
  std::optional<JournalDevice> device{};
  std::string claimGone;
  std::optional<JournalHolder> holder{};
  std::optional<JournalPod> pod{};
  bool alive = false;     ///< no record is missing up to this time
  bool complete = false;  ///< end of the snapshot; the following records are changes
  std::optional<scheduler::Request> asked{};
  std::optional<JournalDecision> decision{};
};

/// Encodes a record as one line, without the newline.
std::string encode(const JournalRecord& record);
/// Decodes a line. Fails with Code::malformed and the name of the field.
base::Result<JournalRecord> decodeJournalRecord(std::string_view line);

}  // namespace egpu::codec
