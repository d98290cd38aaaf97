#include "tests/crash/workload.h"

#include <algorithm>
#include <map>
#include <string>

namespace egpu::crash {

void furnish(World& world) {
  world.plugin.provides("qGPU");  // this kind has the most writes
  world.plugin.replySource({"q0", {"/dev/q0"}, ""});
  world.remote.replySource({{}, {}, "10.0.0.1:7000"});
  world.registry.add(world.remote);
  world.addNamespace("default");
  world.addNode("n1");
  world.addNode("n2");
  for (int i = 0; i < 2; ++i) {
    world.addCard("n1", i);
    world.addCard("n2", i);
  }
  world.addClass("share");
  world.addClass("keep", "Retain");
  world.addClass("late", "Delete", "WaitForFirstConsumer");
  world.addClass("pool", "Delete", "Immediate", {}, World::kRemotePlugin);
  world.addClass("late-pool", "Delete", "WaitForFirstConsumer", {}, World::kRemotePlugin);
}

std::string overCommitSince(World& world, const std::string& from) {
  std::map<std::string, cache::Gpu> before;  // by card
  http::Request request;
  request.method = "GET";
  request.path = kube::Client::path(core::kindOf<cache::Gpu>, {});
  request.query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=" + from;
  std::stop_source stop;
  auto response = world.server->handle(request, stop.get_token());
  if (!response.stream) return "no history";
  for (bool more = true; more;) {
    std::string chunk;
    response.stream->next(chunk, stop.get_token());
    more = false;
    std::size_t at = 0;
    while (at < chunk.size()) {
      const auto end = chunk.find('\n', at);
      auto event = codec::decodeWatchEvent<cache::Gpu>(std::string_view(chunk).substr(at, end - at));
      at = end + 1;
      if (!event.ok() || event->type == codec::EventType::error) return "history lost";
      if (event->type == codec::EventType::bookmark) continue;
      more = true;
      if (!event->object.isCard()) continue;
      int64_t core = 0, memory = 0;
      for (const auto& [uid, entry] : event->object.spec.allocations) {
        core += entry.core;
        memory += entry.memory;
      }
      // A card that shrank may exceed its capacity, but its ledger must not grow.
      const auto& was = before[event->object.metadata.name].spec.allocations;
      const bool grew = std::any_of(event->object.spec.allocations.begin(), event->object.spec.allocations.end(),
                                    [&](const auto& entry) {
                                      const auto known = was.find(entry.first);
                                      return known == was.end() || known->second.core < entry.second.core ||
                                             known->second.memory < entry.second.memory;
                                    });
      if (grew && (core > event->object.spec.card->core || memory > event->object.spec.card->memory))
        return event->object.metadata.name + " at " + event->object.metadata.resourceVersion;
      before[event->object.metadata.name] = event->object;
    }
  }
  return {};
}

}  // namespace egpu::crash
