// What the quotas of its namespace say of a claim that is asked about.
#pragma once

#include <string>

#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/server/what_if_subject.h"

namespace egpu::server {

/// The claim as quotas count it. space: its namespace if it has no name. One that has its device is asked about as if there
/// were another like it.
scheduler::QuotaClaim quotaClaimOf(const WhatIfSubject& subject, const std::string& space);

/// "QuotaExceeded: quota team allows …; held by default/a 40Gi: without default/a it would be within its quotas"
std::string quotaText(const scheduler::QuotaBook& book, const scheduler::QuotaExcess& excess);

/// The request, held to what the quotas leave to that claim. If they stop it, subject.quota says which one, and how much is
/// missing, and no card is left to it.
scheduler::Request withinQuotas(scheduler::Cluster& cluster, const scheduler::QuotaBook& book,
                                const scheduler::QuotaClaim& claim, scheduler::Request request,
                                const scheduler::NodePredicate& suits, const scheduler::Pause& pause,
                                WhatIfSubject& subject);

}  // namespace egpu::server
