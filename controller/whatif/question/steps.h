// The steps of a what-if question: converts parameters to AskedStep, and those to the steps that the scheduler
// tries.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/allocator/allocator.h"
#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/scheduler/what_if.h"
#include "controller/whatif/question/question_body.h"
#include "controller/whatif/question/subject.h"

namespace egpu::whatif {

/// True for the step parameters drain, add, release, resize. They may be repeated and are tried in their order.
bool isStep(const std::string& field);

///   drain=NODE                            release=[NAMESPACE/]CLAIM
///   resize=[NAMESPACE/]CLAIM,gpu-core=40,gpu-memory=8Gi
///   add=NAME,like=NODE[,count=2]          add=NAME,model=T4,cards=4,memory=16Gi[,tflops=65][,count=2]
/// Ignores fields that are not steps. Code::invalid names the field.
base::Result<std::vector<AskedStep>> stepsOfFields(const QueryFields& fields);

/// Steps in the scheduler's form, and the claims that they change.
struct StepsToTry {
  std::vector<scheduler::Step> steps;
  std::vector<std::string> texts;  ///< "drain train-0", for messages, in the order of the steps
  /// Claims that a step creates or resizes, with their requests after all steps.
  std::map<core::ObjectKey, v1alpha::ElasticGPUClaim> changed;
};

/// Obstacles to a resize that are not in the stores. Each function may be null.
struct ResizeLimits {
  /// Returns why the device's plugin never resizes the device; empty: it may.
  std::function<std::string(const cache::Gpu& device)> cannot{};
  /// Returns the capacity held for other claims within the growth of the resized claim.
  std::function<allocator::Allocator::WithheldFromResize(const v1alpha::ElasticGPUClaim& claim,
                                                         const cache::Gpu& device, const scheduler::Request& request)>
      withheld{};
};

/// space: namespace of claims that name none. A resize changes only the requests that it names; the other requests stay
/// as the claim, or an earlier step, has them. Code::notFound and Code::invalid name the step: "steps[1].resize: …".
base::Result<StepsToTry> stepsToTry(const cache::Stores& stores, const std::vector<AskedStep>& steps,
                                    const std::string& space, const ResizeLimits& limits = {});

}  // namespace egpu::whatif
