// Converts the scheduler's cluster state and its changes to journal records, and back.
#pragma once

#include <functional>

#include "controller/allocator/cluster_observer.h"
#include "controller/codec/journal_record.h"
#include "controller/scheduler/cluster.h"

namespace egpu::journal {

codec::JournalRecord recordOf(const allocator::Change& change);
codec::JournalRecord recordOf(const allocator::Decided& decided);

/// Passes the records of a complete snapshot to `write`: the learned demand, users of claims, nodes, cards with their
/// allocations, and finally `complete`.
void eachRecord(const scheduler::Cluster& cluster, const allocator::ClaimUsers& users,
                const std::function<void(const codec::JournalRecord&)>& write);

codec::JournalDemand demandOf(const scheduler::Learned& learned);
scheduler::Learned learnedOf(const codec::JournalDemand& demand);

}  // namespace egpu::journal
