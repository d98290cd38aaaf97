// The fuzz targets: each takes any bytes and aborts if an invariant is broken.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace egpu::testing {

void fuzzQuantity(std::string_view bytes);    ///< parseQuantity
void fuzzWatch(std::string_view bytes);       ///< line framing, watch events, lists, statuses
void fuzzKubeconfig(std::string_view bytes);  ///< kubeconfig files
void fuzzObject(std::string_view bytes);      ///< YAML → JSON → objects → validation, and back
void fuzzDriver(std::string_view bytes);      ///< host files that NVIDIA's plugins read: ld.so.cache, CDI specs
void fuzzCdiSpec(std::string_view bytes);     ///< CDI files, and back
void fuzzNvml(std::string_view bytes);        ///< answers and events of NVML → cards, health, objects
void fuzzNode(std::string_view bytes);        ///< cgroups of processes, plugins' messages about unhealthy cards
void fuzzKubelet(std::string_view bytes);     ///< the kubelet's calls, over the sockets
void fuzzExtender(std::string_view bytes);    ///< a scheduler's requests, and the answers to them

/// Aborts with the broken invariant's text unless `holds`.
inline void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace egpu::testing
