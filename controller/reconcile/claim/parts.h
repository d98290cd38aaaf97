// Parts that reconcile claims for several callers: the steps of claims, gangs and pods.
#pragma once

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/resolve.h"
#include "controller/reconcile/gang/gang_members.h"
#include "controller/reconcile/intent/intent_rollback.h"
#include "controller/reconcile/intent/intent_writer.h"
#include "controller/reconcile/placement/unschedulable_report.h"
#include "controller/reconcile/priority/preemptor.h"

namespace egpu::reconcile {

/// Each part uses only the context and earlier parts. The context must outlive it.
struct ClaimParts {
  explicit ClaimParts(const ClaimContext& context)
      : resolver(context),
        gangs(context),
        preemptor(context, gangs),
        report(context, preemptor),
        rollback(context),
        intents(context) {}
  ClaimParts(const ClaimParts&) = delete;
  ClaimParts& operator=(const ClaimParts&) = delete;

  ClaimResolver resolver;
  GangMembership gangs;
  Preemptor preemptor;
  UnschedulableReport report;
  IntentRollback rollback;
  IntentWriter intents;
};

}  // namespace egpu::reconcile
