// Parts that reconcile claims for several callers: the steps of claims, gangs and pods.
#pragma once

#include "controller/reconcile/claim/context.h"
#include "controller/reconcile/claim/resolve.h"

namespace egpu::reconcile {

/// The context must outlive it.
struct ClaimParts {
  explicit ClaimParts(const ClaimContext& context) : resolver(context) {}
  ClaimParts(const ClaimParts&) = delete;
  ClaimParts& operator=(const ClaimParts&) = delete;

  ClaimResolver resolver;
};

}  // namespace egpu::reconcile
