// A cluster of random contents for property tests, and a controller for it: stepped by the test, or with its own
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/reconcile/controller.h"
#include "tests/support/refusing_transport.h"
#include "tests/support/world.h"

namespace egpu::reconcile {

/// Returns the seeds of a test: EGPU_SEEDS of them if the environment sets it, otherwise `count`. The first is
/// EGPU_FIRST_SEED, or 1.
std::vector<uint64_t> seeds(int count);

class Trial {
 public:
  enum class Runs {
    stepped,   ///< one step at a time, in a virtual time that settle() advances
    threaded,  ///< a Controller with many workers, in a time that passes only while no key is ready
  };
  explicit Trial(uint64_t seed, Runs runs = Runs::stepped);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// Random numbers: in [0, bound); in [from, to]; true once in n.
  int below(int bound) { return static_cast<int>(random_.below(static_cast<uint64_t>(bound))); }
  int between(int from, int to) { return from + below(to - from + 1); }
  bool once(int n) { return below(n) == 0; }
  template <class T>
  const T& oneOf(const std::vector<T>& all) {
    return all.at(static_cast<std::size_t>(below(static_cast<int>(all.size()))));
  }

  /// Starts reconciling. Existing objects are listed, later ones are watched.
  void start();
  /// Stepped: starts a new controller process on the same cluster. It knows only the objects.
  void restart();
  /// Stepped: reconciles until nothing is left to do within `horizon` of virtual time.
  void settle(std::chrono::milliseconds horizon = std::chrono::seconds(30));
  /// Returns true as soon as `holds` is true while the controller is idle. Stepped: checks after settle(). Threaded:
  /// returns false after a minute.
  bool comesTrue(const std::function<bool()>& holds);

  struct ClaimWish {
    std::string namespace_ = "a", cls = "share", priorityClass;
    core::StringMap requests{{"gpu", "1"}};
    core::StringMap annotations;
    std::string gpu;
    std::vector<v1alpha::ClaimAlternative> firstAvailable{};
  };
  /// Creates a claim with a new name. "gpu" in the requests stands for "elasticgpu.io/gpu".
  cache::Claim claim(const ClaimWish& wish);
  void removeClaim(const core::ObjectKey& key);
  /// Creates a gated pod with a new name that uses the claims.
  core::Pod pod(const std::string& namespace_, const std::vector<std::string>& claims);
  void addPriorityClass(const std::string& name, int64_t value);
  /// Adds a node with `cards` cards of 16Gi.
  void addNode(const std::string& name, int cards, core::StringMap labels = {});
  void cordon(const std::string& node, bool isCordoned);
  /// Adds a node with `cards` cards that the controller knows as cordoned. Uncordoning it frees all of them at once.
  /// Returns the cards.
  std::vector<std::string> addCordonedNode(const std::string& name, int cards);
  void setQuota(const std::string& namespace_, const core::StringMap& hard);
  /// Keys of claims whose devices exist, which the controller gave them.
  bool isServed(const cache::Claim& claim) const { return !stores().devicesOfClaim(claim.metadata.uid).empty(); }

  const cache::Stores& stores() const { return controller ? controller->stores() : driver->stores; }
  allocator::Allocator& cluster() { return controller ? controller->cluster() : driver->cluster; }
  Reconciler& reconciler() { return controller ? controller->reconciler() : driver->reconciler; }

  support::World world;
  support::RefusingTransport line{*world.transport};  ///< from the controller to the API server
  std::unique_ptr<support::Driver> driver;            ///< null: threaded
  std::unique_ptr<Controller> controller;             ///< null: stepped

 private:
  const Runs runs_;
  base::Random random_;
  /// Drops events.
  struct NoEvents final : kube::EventSink {
    void event(const core::ObjectReference&, std::string_view, std::string_view, std::string_view) override {}
  };
  NoEvents events_;
  std::unique_ptr<kube::Client> client_;
  int made_ = 0;
};

}  // namespace egpu::reconcile
