#include "tests/reconcile/properties/trial.h"

#include <cstdlib>

namespace egpu::reconcile {

using support::World;

namespace {

uint64_t numberOf(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

std::vector<uint64_t> seeds(int count) {
  const auto first = numberOf("EGPU_FIRST_SEED", 1);
  const auto number = numberOf("EGPU_SEEDS", static_cast<uint64_t>(count));
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < number; ++i) all.push_back(first + i);
  return all;
}

Trial::Trial(uint64_t seed, Runs runs) : runs_(runs), random_(seed) {
  for (const auto* name : {"a", "b", "c", "default"}) world.addNamespace(name);
}

Trial::~Trial() {
  controller.reset();
  driver.reset();
  world.registry.forgetListeners();
}

void Trial::start() {
  if (runs_ == Runs::stepped) return restart();
  client_ = std::make_unique<kube::Client>(line, world.clock, world.random, world.metrics);
  ControllerOptions options;
  options.reservationLimits.freeCardPercent = 100;  // as Driver, because the clusters are small
  // A claim that waits for a plugin's call limit would wait for time to pass.
  options.reconciler.callsPerPlugin = options.workers;
  controller =
      std::make_unique<Controller>(*client_, world.registry, world.clock, events_, world.metrics, std::move(options));
  controller->start();
  if (!controller->waitUntilReady()) throw std::runtime_error("the controller does not get ready");
}

void Trial::restart() {
  world.registry.forgetListeners();
  driver.reset();
  driver = std::make_unique<support::Driver>(world.handler(), line, world.registry, world.clock);
  driver->limit = 2'000'000;
  driver->start();
  settle();
}

void Trial::settle(std::chrono::milliseconds horizon) {
  if (driver) driver->run(horizon);
}

bool Trial::comesTrue(const std::function<bool()>& holds) {
  if (driver) {
    settle();
    return holds();
  }
  base::SystemClock real;
  const auto deadline = real.now() + std::chrono::seconds(60);
  for (;;) {
    const bool quiet = controller->quiet();
    if (quiet && holds()) return true;
    if (real.now() > deadline) return false;
    real.sleepFor(std::chrono::milliseconds(5), {});
    if (quiet && controller->quiet()) world.clock.advance(std::chrono::milliseconds(20));
  }
}

cache::Claim Trial::claim(const ClaimWish& wish) {
  cache::Claim made;
  made.metadata.name = "c" + std::to_string(++made_);
  made.metadata.namespace_ = wish.namespace_;
  made.metadata.annotations = wish.annotations;
  made.spec.className = wish.cls;
  made.spec.priorityClassName = wish.priorityClass;
  made.spec.elasticGPUName = wish.gpu;
  made.spec.firstAvailable = wish.firstAvailable;
  for (const auto& [key, value] : wish.requests) made.spec.requests["elasticgpu.io/" + key] = value;
  return World::must(world.client.create(made));
}

void Trial::removeClaim(const core::ObjectKey& key) { World::mustOk(world.client.remove<cache::Claim>(key)); }

core::Pod Trial::pod(const std::string& namespace_, const std::vector<std::string>& claims) {
  auto made = World::podOf("p" + std::to_string(++made_), claims);
  made.metadata.namespace_ = namespace_;
  return World::must(world.client.create(made));
}

void Trial::addPriorityClass(const std::string& name, int64_t value) {
  core::PriorityClass made;
  made.metadata.name = name;
  made.value = value;
  (void)World::must(world.client.create(made));
}

void Trial::addNode(const std::string& name, int cards, core::StringMap labels) {
  world.addNode(name, std::move(labels));
  for (int i = 0; i < cards; ++i) world.addCard(name, i);
}

void Trial::cordon(const std::string& node, bool isCordoned) {
  world.json<core::Node>({"", node},
                         std::string(R"({"spec":{"unschedulable":)") + (isCordoned ? "true" : "false") + "}}");
}

std::vector<std::string> Trial::addCordonedNode(const std::string& name, int cards) {
  world.addNode(name);
  cordon(name, true);
  // Nodes and cards arrive by different watches.
  const auto isKnown = [&] {
    const auto node = stores().nodes.get({"", name});
    return node && node->unschedulable;
  };
  if (!comesTrue(isKnown)) throw std::runtime_error("the controller does not see node " + name);
  std::vector<std::string> names;
  for (int i = 0; i < cards; ++i) names.push_back(world.addCard(name, i));
  if (!comesTrue([&] { return static_cast<int>(stores().cardsOnNode(name).size()) == cards; }))
    throw std::runtime_error("the controller does not see the cards of node " + name);
  return names;
}

void Trial::setQuota(const std::string& namespace_, const core::StringMap& hard) {
  const core::ObjectKey key{namespace_, "team"};
  if (world.client.get<cache::Quota>(key).ok()) {
    std::string body;
    for (const auto& [name, value] : hard)
      body.append(body.empty() ? "" : ",").append("\"" + name + R"(":")" + value + "\"");
    world.json<cache::Quota>(key, R"({"spec":{"hard":{)" + body + "}}}");
    return;
  }
  cache::Quota quota;
  quota.metadata.name = key.name;
  quota.metadata.namespace_ = namespace_;
  quota.spec.hard = hard;
  (void)World::must(world.client.create(quota));
}

}  // namespace egpu::reconcile
