// The scheduler's picture as records of the journal, and back.
#pragma once

#include <functional>

#include "controller/cache/cluster_listener.h"
#include "controller/codec/journal_record.h"
#include "controller/scheduler/cluster.h"

namespace egpu::journal {

codec::JournalRecord recordOf(const cache::Change& change);
codec::JournalRecord recordOf(const cache::Decided& decided);

/// All of it: what was learned, nodes, cards, what is taken of them, and that this was all.
void eachRecord(const scheduler::Cluster& cluster, const std::function<void(const codec::JournalRecord&)>& write);

codec::JournalDemand demandOf(const scheduler::Learned& learned);
scheduler::Learned learnedOf(const codec::JournalDemand& demand);

}  // namespace egpu::journal
