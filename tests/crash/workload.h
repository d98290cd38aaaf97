// User actions of the crash tests, and the check that no card was ever over-committed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace egpu::crash {

using support::World;

/// Adds a namespace, classes, and two nodes with two cards each.
void furnish(World& world);

struct Act {
  std::string what;
  std::function<void(World&)> run;
};

/// Binds on one and two cards, re-binds, releases with Delete and Retain, uses a ResourceClaim with a gated pod, and
/// WaitForFirstConsumer.
std::vector<Act> workload();

/// Changes that a tenant may make to the objects between the tenant's running pod and its card: marks removed, claim
/// and ResourceClaim deleted despite their finalizers, another claim of that name; and a deletion that orphans.
std::vector<Act> tornOut();

/// ResourceClaims of users with parameters of their own, and a pod with amounts, for which a template is created.
std::vector<Act> askedForByOthers();

/// Cards lose and regain memory while claims of whole cards are bound, used and deleted.
std::vector<Act> cardsChange();

/// Claims grow, shrink, ask for too much, change their requests, and are deleted while they are resized.
std::vector<Act> resizes();

/// Claims with several alternatives, in both binding modes; their first alternative becomes free later. Also claims
/// with admin access.
std::vector<Act> alternatives();

/// Claims of remote GPUs, in both binding modes: used by pods alone and beside a card, released in use, and bound again
/// under the same names. One gets a device that an administrator made.
std::vector<Act> remoteGpus();

/// Claims of higher priority arrive. Three claims are preempted: two in use by pods and one unused. One nomination ends
/// early because capacity becomes free elsewhere. Preempted claims wait and are bound again.
std::vector<Act> preemption();

/// Claims are asked to move: an unused one, one that a pod uses until it ends while the next pod waits, and one whose
/// request is withdrawn before its pod ends.
std::vector<Act> moves();

/// Gangs of higher priority arrive. For the first, three of four claims are preempted, two of which have pods. The
/// second is deleted before those pods end and leaves all claims as they were. The third is too large and preempts
/// nothing.
std::vector<Act> gangPreemption();

/// A pod of higher priority with two claims preempts two claims on one node, one of which has a pod. Then a claim of
/// another such pod is deleted before its preemption ends.
std::vector<Act> podPreemption();

/// A PodGroup is created after some of its pods. All are bound with the last pod, another pod follows, one succeeds.
std::vector<Act> podGroups();

/// Gangs of both binding modes: they are bound with the last member, their pods' gates are removed together, they
/// release their devices while a member is missing and none of their pods runs, and they are bound again.
std::vector<Act> gangs();

/// Returns the first version after `from` at which a card was over-committed, or empty.
std::string overCommitSince(World& world, const std::string& from);

}  // namespace egpu::crash
