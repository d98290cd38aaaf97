// Writers that the encoders and the patch bodies share.
#pragma once

#include "api/core/objects.h"
#include "api/v1alpha/types.h"
#include "controller/codec/json_text.h"

namespace egpu::codec::internal {

void write(JsonText& j, const core::ResourceClaimAllocation& allocation);
void write(JsonText& j, const v1alpha::Card& card);
void write(JsonText& j, const v1alpha::LedgerEntry& entry);
void write(JsonText& j, const v1alpha::ClaimRef& ref);
void write(JsonText& j, const v1alpha::AllocatedSummary& summary);
/// One field, named after the source's kind; nothing for none.
void putSource(JsonText& j, const v1alpha::Source& source);

}  // namespace egpu::codec::internal
