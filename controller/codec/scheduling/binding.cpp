#include "controller/codec/scheduling/binding.h"

#include "controller/codec/json/text.h"

namespace egpu::codec::patch {

std::string binding(const core::Pod& pod, std::string_view node) {
  JsonText j;
  j.beginObject().key("apiVersion").value("v1").key("kind").value("Binding").key("metadata").beginObject();
  j.key("name").value(pod.metadata.name).key("namespace").value(pod.metadata.namespace_);
  j.key("uid").value(pod.metadata.uid).endObject();
  j.key("target").beginObject().key("apiVersion").value("v1").key("kind").value("Node").key("name").value(node);
  return j.endObject().endObject().take();
}

}  // namespace egpu::codec::patch
