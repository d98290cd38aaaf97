// The fuzz targets: each takes any bytes and aborts if a promise is broken.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace egpu::testing {

void fuzzQuantity(std::string_view bytes);    ///< parseQuantity
void fuzzWatch(std::string_view bytes);       ///< line framing, watch events, lists, statuses
void fuzzKubeconfig(std::string_view bytes);  ///< kubeconfig files
void fuzzObject(std::string_view bytes);      ///< YAML → JSON → objects → validation, and back
void fuzzDriver(std::string_view bytes);      ///< what NVIDIA's plugins read of a host: ld.so.cache, CDI specs
void fuzzCdiSpec(std::string_view bytes);     ///< CDI files, and back
void fuzzNvml(std::string_view bytes);        ///< what NVML answers and what events say → cards, health, objects
void fuzzNode(std::string_view bytes);        ///< cgroups of processes, plugins' words on ill cards
void fuzzKubelet(std::string_view bytes);     ///< the kubelet's calls, over the sockets
void fuzzExtender(std::string_view bytes);    ///< a scheduler's questions, and the answers to them

/// Aborts with the promise that was broken.
inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace egpu::testing
