#include "controller/plugin/wire.h"

#include <type_traits>

namespace egpu::plugin::wire {
namespace {

constexpr std::size_t kPrefix = 4;
constexpr std::size_t kHeader = 1 + 8;

void put(std::string& out, std::string_view text);

template <class N, class = std::enable_if_t<std::is_integral_v<N>>>
void put(std::string& out, N number) {
  auto bits = static_cast<std::make_unsigned_t<N>>(number);
  for (std::size_t i = 0; i < sizeof(N); ++i)
    out.push_back(static_cast<char>((static_cast<uint64_t>(bits) >> (8 * i)) & 0xff));
}
void put(std::string& out, std::string_view text) {
  put(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}
void put(std::string& out, const std::string& text) { put(out, std::string_view(text)); }

/// Reads the output of put. After the first error, good() stays false and all values are zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool done() const { return good_ && bytes_.empty(); }
  std::string_view raw(std::size_t n) {
    if (n > bytes_.size()) good_ = false;
    if (!good_) return {};
    const std::string_view out = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return out;
  }
  template <class N>
  N number() {
    uint64_t bits = 0;
    const std::string_view b = raw(sizeof(N));
    for (std::size_t i = 0; i < b.size(); ++i) bits |= uint64_t{static_cast<unsigned char>(b[i])} << (8 * i);
    return static_cast<N>(static_cast<std::make_unsigned_t<N>>(bits));
  }
  /// Rejects a NUL, because the text becomes a C string later.
  std::string text() {
    const std::string_view t = raw(number<uint32_t>());
    if (t.find('\0') != std::string_view::npos) good_ = false;
    return std::string(t);
  }
  /// Reads a list item by item. Every item takes at least one byte, so a wrong count ends soon.
  template <class Item>
  void list(Item item) {
    const auto count = number<uint32_t>();
    if (count > bytes_.size()) good_ = false;
    for (uint32_t i = 0; good_ && i < count; ++i) item();
  }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

void put(std::string& out, const Description& d) {
  put(out, d.name), put(out, d.version), put(out, d.source), put(out, d.isolation);
  put(out, static_cast<uint8_t>(d.prefers)), put(out, static_cast<uint8_t>(d.resizes));
}
Description description(Reader& r) {
  Description d;
  d.name = r.text(), d.version = r.text(), d.source = r.text(), d.isolation = r.text();
  d.prefers = r.number<uint8_t>() != 0;
  d.resizes = r.number<uint8_t>() != 0;
  return d;
}

void put(std::string& out, const core::StringMap& map) {
  put(out, static_cast<uint32_t>(map.size()));
  for (const auto& [key, value] : map) put(out, key), put(out, value);
}
core::StringMap map(Reader& r) {
  core::StringMap out;
  r.list([&] {
    std::string key = r.text();
    out[std::move(key)] = r.text();
  });
  return out;
}

void put(std::string& out, const std::vector<CardShare>& cards) {
  put(out, static_cast<uint32_t>(cards.size()));
  for (const auto& c : cards) {
    put(out, c.uuid), put(out, c.model);
    put(out, c.index), put(out, c.core), put(out, c.memory), put(out, c.cardMemory), put(out, c.pciAddress);
    put(out, c.migProfile), put(out, c.slots.bits);
  }
}
std::vector<CardShare> cards(Reader& r) {
  std::vector<CardShare> out;
  r.list([&] {
    CardShare c;
    c.uuid = r.text(), c.model = r.text();
    c.index = r.number<int64_t>(), c.core = r.number<int64_t>();
    c.memory = r.number<int64_t>(), c.cardMemory = r.number<int64_t>();
    c.pciAddress = r.text();
    c.migProfile = r.text(), c.slots.bits = r.number<uint16_t>();
    out.push_back(std::move(c));
  });
  return out;
}

void put(std::string& out, const Wish& wish) {
  put(out, wish.claim);
  put(out, static_cast<uint32_t>(wish.candidates.size()));
  for (const auto& c : wish.candidates) put(out, c.node), put(out, c.cards);
  put(out, wish.parameters);
}
Wish wish(Reader& r) {
  Wish out;
  out.claim = r.text();
  r.list([&] {
    Candidate c;
    c.node = r.text(), c.cards = cards(r);
    out.candidates.push_back(std::move(c));
  });
  out.parameters = map(r);
  return out;
}

void put(std::string& out, const SourceValues& source) {
  put(out, source.deviceName), put(out, source.endpoint);
  put(out, static_cast<uint32_t>(source.paths.size()));
  for (const auto& path : source.paths) put(out, path);
}
SourceValues source(Reader& r) {
  SourceValues out;
  out.deviceName = r.text(), out.endpoint = r.text();
  r.list([&] { out.paths.push_back(r.text()); });
  return out;
}

/// Begins a frame; finish fills in its length.
std::string begin(Type type, uint64_t id) {
  std::string out(kPrefix, '\0');
  put(out, static_cast<uint8_t>(type));
  put(out, id);
  return out;
}
std::string finish(std::string frame) {
  std::string length;
  put(length, static_cast<uint32_t>(frame.size() - kPrefix));
  frame.replace(0, kPrefix, length);
  return frame;
}

}  // namespace

std::string encodeConfined(const Confined& confined) {
  std::string out = begin(Type::confined, 0);
  put(out, confined.version), put(out, confined.gaps);
  return finish(std::move(out));
}

bool decode(std::string_view body, Confined& out) {
  Reader r(body);
  out.version = r.number<uint32_t>();
  out.gaps = r.text();
  return r.done();
}

std::string encodeHello(const Hello& hello) {
  std::string out = begin(Type::hello, 0);
  put(out, static_cast<uint8_t>(hello.loaded)), put(out, hello.error);
  put(out, hello.description);
  return finish(std::move(out));
}

bool decode(std::string_view body, Hello& out) {
  Reader r(body);
  out.loaded = r.number<uint8_t>() != 0;
  out.error = r.text();
  out.description = description(r);
  return r.done();
}

std::string encodeCall(uint64_t id, const Call& call) {
  std::string out = begin(Type::call, id);
  put(out, static_cast<uint8_t>(call.slot));
  put(out, call.key);
  put(out, static_cast<int64_t>(call.deadline.time_since_epoch().count()));
  const DeviceRequest& d = call.device;
  put(out, d.key), put(out, d.device), put(out, d.claim), put(out, d.node);
  put(out, d.cards);
  put(out, d.parameters), put(out, d.resizeNumber), put(out, d.source), put(out, d.capacity);
  put(out, call.parameters);
  put(out, call.pod), put(out, call.container);
  put(out, call.wish);
  return finish(std::move(out));
}

bool decode(std::string_view body, Call& out) {
  Reader r(body);
  const auto slot = r.number<uint8_t>();
  if (slot >= kSlots) return false;
  out.slot = static_cast<Slot>(slot);
  out.key = r.text();
  out.deadline = std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(r.number<int64_t>()));
  DeviceRequest& d = out.device;
  d.key = r.text(), d.device = r.text(), d.claim = r.text(), d.node = r.text();
  d.cards = cards(r);
  d.parameters = map(r);
  d.resizeNumber = r.number<int64_t>();
  d.source = source(r);
  d.capacity = map(r);
  out.parameters = map(r);
  out.pod = r.text(), out.container = r.text();
  out.wish = wish(r);
  return r.done();
}

std::string encodeAnswer(uint64_t id, const Answer& answer) {
  std::string out = begin(Type::answer, id);
  put(out, static_cast<uint8_t>(answer.outcome));
  put(out, answer.message);
  put(out, answer.description);
  const auto list = [&out](const auto& items, auto item) {
    put(out, static_cast<uint32_t>(items.size()));
    for (const auto& i : items) item(i);
  };
  list(answer.keys, [&](const auto& k) { put(out, k); });
  list(answer.edits.env, [&](const auto& e) { put(out, e.first), put(out, e.second); });
  list(answer.edits.deviceNodes,
       [&](const auto& n) { put(out, n.path), put(out, n.hostPath), put(out, n.permissions); });
  list(answer.edits.mounts, [&](const auto& m) {
    put(out, m.hostPath), put(out, m.containerPath);
    list(m.options, [&](const auto& o) { put(out, o); });
  });
  list(answer.edits.cdiDevices, [&](const auto& c) { put(out, c); });
  list(answer.gpus, [&](const auto& g) {
    put(out, g.uuid), put(out, g.model), put(out, g.pciAddress);
    put(out, g.index), put(out, g.memory), put(out, g.smCount), put(out, g.numaNode), put(out, g.milliTflops);
    list(g.links, [&](const auto& l) { put(out, l.peer), put(out, l.type), put(out, l.count); });
    put(out, g.attributes);
    list(g.mig, [&](const auto& p) {
      put(out, p.name), put(out, p.memory), put(out, p.compute), put(out, p.size);
      put(out, p.starts.bits), put(out, static_cast<uint8_t>(p.media));
    });
  });
  list(answer.health,
       [&](const auto& h) { put(out, h.uuid), put(out, static_cast<uint8_t>(h.healthy)), put(out, h.message); });
  list(answer.processes,
       [&](const auto& p) { put(out, p.uuid), put(out, p.pid), put(out, p.memory), put(out, p.smPercent); });
  list(answer.use,
       [&](const auto& u) { put(out, u.uuid), put(out, u.memory), put(out, u.smPercent), put(out, u.processes); });
  list(answer.order, [&](const auto& n) { put(out, n); });
  list(answer.vetoes, [&](const auto& v) { put(out, v.candidate), put(out, v.why); });
  put(out, static_cast<uint8_t>(answer.isolation.has_value()));
  if (const auto& isolation = answer.isolation)
    put(out, isolation->mode), put(out, isolation->memory), put(out, isolation->compute), put(out, isolation->faults),
        put(out, isolation->managedMemory);
  put(out, answer.source);
  return finish(std::move(out));
}

namespace {

Gpu gpu(Reader& r) {
  Gpu g;
  g.uuid = r.text(), g.model = r.text(), g.pciAddress = r.text();
  g.index = r.number<int64_t>(), g.memory = r.number<int64_t>();
  g.smCount = r.number<int64_t>(), g.numaNode = r.number<int64_t>(), g.milliTflops = r.number<int64_t>();
  r.list([&] {
    GpuLink link;
    link.peer = r.text(), link.type = r.text(), link.count = r.number<int64_t>();
    g.links.push_back(std::move(link));
  });
  g.attributes = map(r);
  r.list([&] {
    v1alpha::MigProfile p;
    p.name = r.text(), p.memory = r.number<int64_t>(), p.compute = r.number<int64_t>(), p.size = r.number<int64_t>();
    p.starts.bits = r.number<uint16_t>(), p.media = r.number<uint8_t>() != 0;
    g.mig.push_back(std::move(p));
  });
  return g;
}

/// Reads the answer of health.
void health(Reader& r, Answer& out) {
  r.list([&] {
    CardHealth h;
    h.uuid = r.text(), h.healthy = r.number<uint8_t>() != 0, h.message = r.text();
    out.health.push_back(std::move(h));
  });
  r.list([&] {
    CardProcess p;
    p.uuid = r.text(), p.pid = r.number<int64_t>();
    p.memory = r.number<int64_t>(), p.smPercent = r.number<int64_t>();
    out.processes.push_back(std::move(p));
  });
  r.list([&] {
    CardUse u;
    u.uuid = r.text(), u.memory = r.number<int64_t>();
    u.smPercent = r.number<int64_t>(), u.processes = r.number<int64_t>();
    out.use.push_back(std::move(u));
  });
}

}  // namespace

bool decode(std::string_view body, Answer& out) {
  Reader r(body);
  const auto outcome = r.number<uint8_t>();
  if (outcome > static_cast<uint8_t>(ReplyCode::garbage)) return false;
  out.outcome = static_cast<ReplyCode>(outcome);
  out.message = r.text();
  out.description = description(r);
  r.list([&] { out.keys.push_back(r.text()); });
  r.list([&] {
    std::string name = r.text();
    out.edits.env.emplace_back(std::move(name), r.text());
  });
  r.list([&] {
    DeviceNode n;
    n.path = r.text(), n.hostPath = r.text(), n.permissions = r.text();
    out.edits.deviceNodes.push_back(std::move(n));
  });
  r.list([&] {
    Mount m;
    m.hostPath = r.text(), m.containerPath = r.text();
    r.list([&] { m.options.push_back(r.text()); });
    out.edits.mounts.push_back(std::move(m));
  });
  r.list([&] { out.edits.cdiDevices.push_back(r.text()); });
  r.list([&] { out.gpus.push_back(gpu(r)); });
  health(r, out);
  r.list([&] { out.order.push_back(r.number<uint32_t>()); });
  r.list([&] {
    Veto veto;
    veto.candidate = r.number<uint32_t>(), veto.why = r.text();
    out.vetoes.push_back(std::move(veto));
  });
  if (r.number<uint8_t>() != 0) {
    auto& isolation = out.isolation.emplace();
    isolation.mode = r.text(), isolation.memory = r.text();
    isolation.compute = r.text(), isolation.faults = r.text();
    isolation.managedMemory = r.text();
  }
  out.source = source(r);
  return r.done();
}

std::string encodeCancel(uint64_t id) { return finish(begin(Type::cancel, id)); }

void FrameBuffer::append(std::string_view bytes) {
  // Drops consumed bytes before growing, so that the buffer stays at the size of one frame.
  bytes_.erase(0, at_);
  at_ = 0;
  bytes_.append(bytes);
}

std::optional<Frame> FrameBuffer::next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (broken_ || rest.size() < kPrefix) return std::nullopt;
  const auto length = Reader(rest.substr(0, kPrefix)).number<uint32_t>();
  if (length < kHeader || length > kMaxFrame) {
    broken_ = true;
    return std::nullopt;
  }
  if (rest.size() < kPrefix + length) return std::nullopt;
  Reader r(rest.substr(kPrefix, length));
  Frame frame;
  const auto type = r.number<uint8_t>();
  if (type < static_cast<uint8_t>(Type::hello) || type > static_cast<uint8_t>(Type::confined)) {
    broken_ = true;
    return std::nullopt;
  }
  frame.type = static_cast<Type>(type);
  frame.id = r.number<uint64_t>();
  frame.body = r.raw(length - kHeader);
  at_ += kPrefix + length;
  return frame;
}

}  // namespace egpu::plugin::wire
