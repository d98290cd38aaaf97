// Streams, events, kernels and graphs. Kernels are not run: each takes the time that the machine's file gives for its
// name, and kernels of one card follow one another.
#include <algorithm>
#include <memory>
#include <mutex>

#include "tests/gpu/fake/machine.h"

namespace egpu::gpu::testing {

struct Function {
  std::string name;
  int64_t duration = 0;
};

struct Module {
  std::vector<std::unique_ptr<Function>> functions;
};

struct FakeEvent {
  int64_t time = -1;  ///< at which the work before it ends; -1: never recorded
};

struct GraphNode {
  int type = 5;  ///< 0 kernel, 4 child graph, 5 empty, 10 allocation, 11 release
  KernelParams kernel{};
  Graph* child = nullptr;
  uint64_t bytes = 0;
  Address address = 0;
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

/// A graph at its instantiation.
struct Executable {
  int64_t duration = 0;
  std::vector<std::pair<Address, uint64_t>> allocations;
  std::vector<Address> releases;
};

namespace {

struct Streams {
  std::map<void*, std::unique_ptr<Stream>> all;
  std::map<Context*, std::unique_ptr<Stream>> defaults;
};

Streams& streams() {
  static auto* out = new Streams;  // guarded by the machine's mutex
  return *out;
}

int createStream(void** out, unsigned flags, int priority) {
  if (current() == nullptr) return invalidContext;
  auto stream = std::make_unique<Stream>(Stream{current(), flags, priority, 0, nullptr});
  *out = stream.get();
  const std::lock_guard lock(GpuMachine::get().mutex);
  streams().all[*out] = std::move(stream);
  return success;
}

/// Appends work to a stream. The machine's mutex is held.
void run(Stream* stream, int64_t duration) {
  int64_t& card = GpuMachine::get().deviceEnd[stream->context->device];
  stream->end = card = std::max({now(), stream->end, card}) + duration;
}

int launch(const KernelParams& of, void* handle) {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  if (of.function == nullptr) return invalidHandle;
  const std::lock_guard lock(GpuMachine::get().mutex);
  if (stream->capture != nullptr) {
    auto node = std::make_unique<GraphNode>();
    node->type = 0;
    node->kernel = of;
    stream->capture->nodes.push_back(std::move(node));
    return success;
  }
  run(stream, static_cast<Function*>(of.function)->duration);
  return success;
}

int recordEvent(void* handle, void* onStream) {
  Stream* stream = streamOf(onStream);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::make_unique<GraphNode>());
    return success;
  }
  static_cast<FakeEvent*>(handle)->time = std::max(now(), stream->end);
  return success;
}

int synchronize(void* handle) {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  int64_t end;
  {
    const std::lock_guard lock(GpuMachine::get().mutex);
    if (stream->capture != nullptr) return captureUnsupported;
    end = stream->end;
  }
  waitUntil(end);
  trimPools();
  return success;
}

int synchronizeContext(const Context* context) {
  if (context == nullptr) return invalidContext;
  int64_t end = 0;
  {
    const std::lock_guard lock(GpuMachine::get().mutex);
    end = GpuMachine::get().deviceEnd[context->device];
  }
  waitUntil(end);
  trimPools();
  return success;
}

void addToExecutable(const Graph* graph, Executable* out) {
  for (const auto& node : graph->nodes) {
    if (node->type == 0) out->duration += static_cast<Function*>(node->kernel.function)->duration;
    if (node->type == 4) addToExecutable(node->child, out);
    if (node->type == 10) out->allocations.emplace_back(node->address, node->bytes);
    if (node->type == 11) out->releases.push_back(node->address);
  }
}

int instantiate(void** out, const void* graph) {
  auto executable = std::make_unique<Executable>();
  const std::lock_guard lock(GpuMachine::get().mutex);
  addToExecutable(static_cast<const Graph*>(graph), executable.get());
  *out = executable.release();
  return success;
}

uint64_t chunks(uint64_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk; }

/// Makes the memory of a graph's allocations available. The machine's mutex is held.
CudaResult reserveGraph(const Executable* executable, Device device) {
  auto& machine = GpuMachine::get();
  uint64_t needed = machine.graphUsed[device];
  for (const auto& [address, bytes] : executable->allocations)
    if (!machine.allocations.contains(address)) needed += bytes;
  if (chunks(needed) <= machine.graphReserved[device]) return success;
  const uint64_t growth = chunks(needed) - machine.graphReserved[device];
  if (const CudaResult result = machine.charge(device, growth)) return result;
  machine.graphReserved[device] += growth;
  return success;
}

int launchGraph(void* handle, void* onStream) {
  auto& machine = GpuMachine::get();
  const auto* executable = static_cast<Executable*>(handle);
  Stream* stream = streamOf(onStream);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(machine.mutex);
  const Device device = stream->context->device;
  if (const CudaResult result = reserveGraph(executable, device)) return result;
  for (const auto& [address, bytes] : executable->allocations) {
    if (machine.allocations.contains(address)) return invalidValue;  // not released since the last launch
    machine.allocations[address] = {bytes, device, 6, nullptr, nullptr, machine.nextId++};
    machine.graphUsed[device] += bytes;
  }
  for (const Address address : executable->releases)
    if (const auto found = machine.allocations.find(address); found != machine.allocations.end()) {
      machine.graphUsed[device] -= found->second.size;
      machine.allocations.erase(found);
    }
  run(stream, executable->duration);
  return success;
}

int uploadGraph(void* handle, void* onStream) {
  Stream* stream = streamOf(onStream);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  return reserveGraph(static_cast<Executable*>(handle), stream->context->device);
}

int beginCapture(void* handle) {
  Stream* stream = streamOf(handle);
  if (stream == nullptr || reinterpret_cast<std::uintptr_t>(handle) <= 2) return invalidValue;
  const std::lock_guard lock(GpuMachine::get().mutex);
  if (stream->capture != nullptr) return invalidValue;
  stream->capture = new Graph;
  return success;
}

}  // namespace

Stream* streamOf(void* handle) {
  Context* context = current();
  if (context == nullptr) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(handle) > 2) return static_cast<Stream*>(handle);
  const std::lock_guard lock(GpuMachine::get().mutex);
  auto& stream = streams().defaults[context];
  if (stream == nullptr) stream = std::make_unique<Stream>(Stream{context, 0, 0, 0, nullptr});
  return stream.get();
}

CudaResult captureAlloc(Stream* stream, Address* out, uint64_t bytes) {
  auto node = std::make_unique<GraphNode>();
  node->type = 10;
  node->bytes = bytes;
  node->address = *out = GpuMachine::get().reserve(bytes);
  stream->capture->nodes.push_back(std::move(node));
  return success;
}

CudaResult captureFree(Stream* stream, Address address) {
  auto node = std::make_unique<GraphNode>();
  node->type = 11;
  node->address = address;
  stream->capture->nodes.push_back(std::move(node));
  return success;
}

#define EGPU_BOTH(name, parameters, ...) \
  EGPU_FAKE name parameters __VA_ARGS__ EGPU_FAKE name##_ptsz parameters __VA_ARGS__

EGPU_FAKE cuStreamCreate(void** out, unsigned flags) { return createStream(out, flags, 0); }
EGPU_FAKE cuStreamCreateWithPriority(void** out, unsigned flags, int priority) {
  return createStream(out, flags, priority);
}
EGPU_FAKE cuStreamDestroy_v2(void* stream) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  return streams().all.erase(stream) == 0 ? invalidHandle : success;
}
EGPU_BOTH(cuStreamSynchronize, (void* stream), { return synchronize(stream); })
EGPU_BOTH(cuStreamQuery, (void* handle), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  return stream->end > now() ? notReady : success;
})
EGPU_BOTH(cuStreamGetCtx, (void* handle, void** out), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  return *out = stream->context, success;
})
EGPU_BOTH(cuStreamGetFlags, (void* handle, unsigned* out), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  return *out = stream->flags, success;
})
EGPU_BOTH(cuStreamWaitEvent, (void* handle, void* event, unsigned), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  stream->end = std::max(stream->end, static_cast<FakeEvent*>(event)->time);
  return success;
})
EGPU_BOTH(cuStreamIsCapturing, (void* handle, int* out), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  return *out = stream->capture != nullptr ? 1 : 0, success;
})
EGPU_BOTH(cuStreamBeginCapture_v2, (void* stream, int), { return beginCapture(stream); })
EGPU_BOTH(cuStreamBeginCapture, (void* stream), { return beginCapture(stream); })
EGPU_BOTH(cuStreamEndCapture, (void* handle, void** out), {
  Stream* stream = streamOf(handle);
  if (stream == nullptr) return invalidContext;
  const std::lock_guard lock(GpuMachine::get().mutex);
  if (stream->capture == nullptr) return invalidValue;
  *out = stream->capture;
  stream->capture = nullptr;
  return success;
})
EGPU_BOTH(cuLaunchHostFunc, (void* stream, void (*function)(void*), void* data), {
  if (streamOf(stream) == nullptr) return invalidContext;
  function(data);
  return success;
})
EGPU_FAKE cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int ofThread = 0;
  std::swap(ofThread, *mode);
  return success;
}

EGPU_FAKE cuCtxSynchronize() { return synchronizeContext(current()); }
EGPU_FAKE cuCtxSynchronize_v2(void* context) {
  return synchronizeContext(context == nullptr ? current() : static_cast<Context*>(context));
}

// ---- events

EGPU_FAKE cuEventCreate(void** out, unsigned) {
  if (current() == nullptr) return invalidContext;
  return *out = new FakeEvent, success;
}
EGPU_FAKE cuEventDestroy_v2(void* event) { return delete static_cast<FakeEvent*>(event), success; }
EGPU_BOTH(cuEventRecord, (void* event, void* stream), { return recordEvent(event, stream); })
EGPU_BOTH(cuEventRecordWithFlags, (void* event, void* stream, unsigned), { return recordEvent(event, stream); })
EGPU_FAKE cuEventQuery(void* handle) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  return static_cast<FakeEvent*>(handle)->time > now() ? notReady : success;
}
EGPU_FAKE cuEventSynchronize(void* handle) {
  int64_t time;
  {
    const std::lock_guard lock(GpuMachine::get().mutex);
    time = static_cast<FakeEvent*>(handle)->time;
  }
  waitUntil(time);
  trimPools();
  return success;
}
static int elapsed(float* out, void* from, void* to) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  const auto *first = static_cast<FakeEvent*>(from), *last = static_cast<FakeEvent*>(to);
  if (first->time < 0 || last->time < 0) return invalidHandle;
  if (last->time > now()) return notReady;
  *out = static_cast<float>(static_cast<double>(last->time - first->time) / 1e6);
  return success;
}
EGPU_FAKE cuEventElapsedTime(float* out, void* from, void* to) { return elapsed(out, from, to); }
EGPU_FAKE cuEventElapsedTime_v2(float* out, void* from, void* to) { return elapsed(out, from, to); }

// ---- modules and launches: any image is accepted, and has any function

EGPU_FAKE cuModuleLoadData(void** out, const void*) { return *out = new Module, success; }
EGPU_FAKE cuModuleLoadDataEx(void** out, const void*, unsigned, void*, void*) { return *out = new Module, success; }
EGPU_FAKE cuModuleUnload(void* module) { return delete static_cast<Module*>(module), success; }
EGPU_FAKE cuModuleGetFunction(void** out, void* handle, const char* name) {
  auto* module = static_cast<Module*>(handle);
  module->functions.push_back(std::make_unique<Function>(Function{name, GpuMachine::get().durationOf(name)}));
  return *out = module->functions.back().get(), success;
}
// A library is a module of no context, and a kernel of it is accepted in place of a function.
EGPU_FAKE cuLibraryLoadData(void** out, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  return *out = new Module, success;
}
EGPU_FAKE cuLibraryUnload(void* library) { return cuModuleUnload(library); }
EGPU_FAKE cuLibraryGetModule(void** out, void* library) { return *out = library, success; }
EGPU_FAKE cuLibraryGetKernel(void** out, void* library, const char* name) {
  return cuModuleGetFunction(out, library, name);
}
EGPU_FAKE cuKernelGetFunction(void** out, void* kernel) { return *out = kernel, success; }
EGPU_FAKE cuKernelGetAttribute(int* out, int, void*, Device) { return *out = 0, success; }
EGPU_FAKE cuFuncGetAttribute(int* out, int, void*) { return *out = 0, success; }

EGPU_BOTH(cuLaunchKernel,
          (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared, void* stream, void** parameters, void** extra),
          {
            return launch({function, gx, gy, gz, bx, by, bz, shared, parameters, extra}, stream);
          })
EGPU_BOTH(cuLaunchCooperativeKernel,
          (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared, void* stream, void** parameters),
          {
            return launch({function, gx, gy, gz, bx, by, bz, shared, parameters, nullptr}, stream);
          })
EGPU_BOTH(cuLaunchKernelEx, (const LaunchConfig* of, void* function, void** parameters, void** extra), {
  return launch({function, of->gridX, of->gridY, of->gridZ, of->blockX, of->blockY, of->blockZ, of->sharedBytes,
                 parameters, extra},
                of->stream);
})

// ---- graphs

EGPU_FAKE cuGraphCreate(void** out, unsigned) { return *out = new Graph, success; }
EGPU_FAKE cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), success; }
EGPU_FAKE cuGraphExecDestroy(void* executable) { return delete static_cast<Executable*>(executable), success; }
EGPU_FAKE cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) { return instantiate(out, graph); }
EGPU_FAKE cuGraphInstantiate_v2(void** out, void* graph, void**, char*, std::size_t) { return instantiate(out, graph); }
EGPU_BOTH(cuGraphInstantiateWithParams, (void** out, void* graph, void*), { return instantiate(out, graph); })
EGPU_BOTH(cuGraphLaunch, (void* executable, void* stream), { return launchGraph(executable, stream); })
EGPU_BOTH(cuGraphUpload, (void* executable, void* stream), { return uploadGraph(executable, stream); })

static int addNode(void** out, void* graph, std::unique_ptr<GraphNode> node) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  *out = node.get();
  static_cast<Graph*>(graph)->nodes.push_back(std::move(node));
  return success;
}
EGPU_FAKE cuGraphAddKernelNode(void** out, void* graph, const void*, std::size_t, const KernelParams* of) {
  auto node = std::make_unique<GraphNode>();
  node->type = 0;
  node->kernel = *of;
  return addNode(out, graph, std::move(node));
}
EGPU_FAKE cuGraphAddChildGraphNode(void** out, void* graph, const void*, std::size_t, void* child) {
  auto node = std::make_unique<GraphNode>();
  node->type = 4;
  node->child = static_cast<Graph*>(child);
  return addNode(out, graph, std::move(node));
}
EGPU_FAKE cuGraphAddMemAllocNode(void** out, void* graph, const void*, std::size_t, MemAllocParams* of) {
  auto node = std::make_unique<GraphNode>();
  node->type = 10;
  node->bytes = of->bytes;
  node->address = of->address = GpuMachine::get().reserve(of->bytes);
  return addNode(out, graph, std::move(node));
}
EGPU_FAKE cuGraphAddMemFreeNode(void** out, void* graph, const void*, std::size_t, Address address) {
  auto node = std::make_unique<GraphNode>();
  node->type = 11;
  node->address = address;
  return addNode(out, graph, std::move(node));
}
EGPU_FAKE cuGraphGetNodes(void* handle, void** out, std::size_t* count) {
  const std::lock_guard lock(GpuMachine::get().mutex);
  const auto* graph = static_cast<Graph*>(handle);
  for (std::size_t i = 0; out != nullptr && i < *count && i < graph->nodes.size(); ++i) out[i] = graph->nodes[i].get();
  *count = graph->nodes.size();
  return success;
}
EGPU_FAKE cuGraphNodeGetType(void* node, int* out) { return *out = static_cast<GraphNode*>(node)->type, success; }
EGPU_FAKE cuGraphKernelNodeGetParams(void* node, KernelParams* out) {
  return *out = static_cast<GraphNode*>(node)->kernel, success;
}
EGPU_FAKE cuGraphChildGraphNodeGetGraph(void* node, void** out) {
  return *out = static_cast<GraphNode*>(node)->child, success;
}
EGPU_FAKE cuGraphMemAllocNodeGetParams(void* node, MemAllocParams* out) {
  *out = {};
  out->bytes = static_cast<GraphNode*>(node)->bytes;
  out->address = static_cast<GraphNode*>(node)->address;
  return success;
}
EGPU_FAKE cuDeviceGetGraphMemAttribute(Device device, int attribute, void* value) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  *static_cast<uint64_t*>(value) = attribute < 2 ? machine.graphUsed[device] : machine.graphReserved[device];
  return success;
}
EGPU_FAKE cuDeviceGraphMemTrim(Device device) {
  auto& machine = GpuMachine::get();
  const std::lock_guard lock(machine.mutex);
  const uint64_t needed = chunks(machine.graphUsed[device]);
  machine.release(device, machine.graphReserved[device] - needed);
  machine.graphReserved[device] = needed;
  return success;
}

}  // namespace egpu::gpu::testing
