// JSON fields of a card and its ledger (api/v1alpha/card.h), declared as in fields_v1alpha.h.
#pragma once

#include "api/v1alpha/card.h"
#include "controller/codec/fields_core.h"

namespace egpu::codec::internal {

void fields(auto& v, Is<v1alpha::CardLink> auto& o) {
  v("peer", o.peer);
  v("type", o.type);
  v.always("count", o.count);
}

void fields(auto& v, Is<v1alpha::CardTopology> auto& o) {
  v.always("numa", o.numa);
  v("pcie", o.pcie);
  v("links", o.links);
}

void fields(auto& v, Is<v1alpha::MigProfile> auto& o) {
  v("profile", o.name);
  v.always("memory", o.memory);
  v.always("compute", o.compute);
  v.always("size", o.size);
  v("starts", o.starts);
  v("media", o.media);
}

void fields(auto& v, Is<v1alpha::Card> auto& o) {
  v("uuid", o.uuid);
  v("nodeName", o.nodeName);
  v.always("index", o.index);
  v("model", o.model);
  v.always("smCount", o.smCount);
  v.thousandths("tflops", o.milliTflops);
  v.always("core", o.core);
  v.always("memory", o.memory);
  v.always("topology", o.topology);
  v("mig", o.mig);
  v("attributes", o.attributes);
}

void fields(auto& v, Is<v1alpha::LedgerEntry> auto& o) {
  v("device", o.device);
  v("claim", o.claim);
  v.always("core", o.core);
  v.always("memory", o.memory);
  v("resize", o.resize);
  v("slots", o.slots);
}

}  // namespace egpu::codec::internal
