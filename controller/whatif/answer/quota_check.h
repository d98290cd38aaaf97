// Evaluates the quotas of a namespace for the claim of a what-if question.
#pragma once

#include <string>

#include "controller/scheduler/quota/on_a_copy.h"
#include "controller/whatif/question/subject.h"

namespace egpu::whatif {

/// Returns the claim as quotas count it. space: namespace of a claim without a name. A claim that has its device is
/// counted as one more claim like it.
scheduler::QuotaClaim quotaClaimOf(const Subject& subject, const std::string& space);

/// "QuotaExceeded: quota team allows …; held by default/a 40Gi: without default/a it would be within its quotas"
std::string quotaText(const scheduler::QuotaBook& book, const scheduler::QuotaExcess& excess);

/// Returns the request with the limits that the quotas leave to the claim. If a quota stops the claim, subject.quota
/// names the quota and the missing amount, and the returned request fits no card.
scheduler::Request withinQuotas(scheduler::Cluster& cluster, const scheduler::QuotaBook& book,
                                const scheduler::QuotaClaim& claim, scheduler::Request request,
                                const scheduler::NodePredicate& suits, const scheduler::Pause& pause, Subject& subject);

}  // namespace egpu::whatif
