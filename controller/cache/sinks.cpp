#include "controller/cache/sinks.h"

#include <utility>

namespace egpu::cache {

template <class T>
void StoreSink<T>::apply(codec::WatchEvent<T>&& event) {
  switch (event.type) {
    case codec::EventType::added:
    case codec::EventType::modified:
      store_.informed(event.object);
      break;
    case codec::EventType::deleted:
      store_.informedGone(event.object);
      break;
    case codec::EventType::bookmark:
      store_.informedUpTo(event.object.metadata.resourceVersion);
      break;
    case codec::EventType::error:
      break;
  }
}

template class StoreSink<Gpu>;
template class StoreSink<Claim>;
template class StoreSink<Class>;
template class StoreSink<Quota>;
template class StoreSink<core::Pod>;
template class StoreSink<core::Node>;
template class StoreSink<core::ResourceClaim>;
template class StoreSink<core::Namespace>;
template class StoreSink<core::PriorityClass>;
template class StoreSink<ClaimTemplate>;
template class StoreSink<core::ResourceClaimTemplate>;
template class StoreSink<core::DeviceTaintRule>;
template class StoreSink<core::PodGroup>;

void GpuSink::beginList() {
  stores_.cards.listBegins();
  stores_.devices.listBegins();
}

void GpuSink::endList(const std::string& resourceVersion) {
  stores_.cards.listEnds(resourceVersion);
  stores_.devices.listEnds(resourceVersion);
}

void GpuSink::apply(codec::WatchEvent<Gpu>&& event) {
  if (event.type == codec::EventType::bookmark) {
    stores_.cards.informedUpTo(event.object.metadata.resourceVersion);
    stores_.devices.informedUpTo(event.object.metadata.resourceVersion);
    return;
  }
  StoreSink<Gpu>(stores_.storeOf(event.object)).apply(std::move(event));
}

void PodSink::beginList() {
  usage_.listBegins();
  inner_.beginList();
}

void PodSink::listed(const core::Pod& pod) {
  usage_.listed(pod);
  if (isStored(pod) || pods_.get(core::keyOf(pod.metadata))) inner_.listed(pod);
}

void PodSink::unlisted(const core::Pod& pod) {
  usage_.gone(core::keyOf(pod.metadata), pod.metadata.uid);
  inner_.unlisted(pod);
}

void PodSink::endList(const std::string& resourceVersion) {
  usage_.listEnds();
  inner_.endList(resourceVersion);
}

void PodSink::apply(codec::WatchEvent<core::Pod>&& event) {
  const bool object = event.type == codec::EventType::added || event.type == codec::EventType::modified;
  if (object) usage_.seen(event.object);
  if (event.type == codec::EventType::deleted)
    usage_.gone(core::keyOf(event.object.metadata), event.object.metadata.uid);
  // A pod may lose the annotation for which it is stored: the store must see that change.
  if (!object || isStored(event.object) || pods_.get(core::keyOf(event.object.metadata)))
    inner_.apply(std::move(event));
}

}  // namespace egpu::cache
