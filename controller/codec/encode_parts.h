// Writers that the encoders and the patch bodies share.
#pragma once

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/codec/json_text.h"

namespace egpu::codec::internal {

void write(JsonText& j, const core::ResourceClaimAllocation& allocation);
/// replaces: for a merge patch that shall leave nothing of what was there before, unset fields are null instead of left
/// out.
void write(JsonText& j, const v1alpha::Card& card, bool replaces = false);
void write(JsonText& j, const v1alpha::LedgerEntry& entry);
void write(JsonText& j, const v1alpha::ClaimRef& ref);
void write(JsonText& j, const v1alpha::AllocatedSummary& summary);
/// One field, named after the source's kind; nothing for none.
void putSource(JsonText& j, const v1alpha::Source& source);

}  // namespace egpu::codec::internal
