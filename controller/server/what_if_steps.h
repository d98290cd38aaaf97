// The steps of a what-if question: from parameters to the question's form, and on to what the scheduler tries.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/cache/cluster_view.h"
#include "controller/cache/stores.h"
#include "controller/codec/what_if_question.h"
#include "controller/scheduler/what_if.h"
#include "controller/server/what_if_subject.h"

namespace egpu::server {

/// Whether a parameter is a step: drain, add, release, resize. They may be repeated and are tried in their order.
bool isStep(const std::string& field);

///   drain=NODE                            release=[NAMESPACE/]CLAIM
///   resize=[NAMESPACE/]CLAIM,gpu-core=40,gpu-memory=8Gi
///   add=NAME,like=NODE[,count=2]          add=NAME,model=T4,cards=4,memory=16Gi[,tflops=65][,count=2]
/// Fields that are no steps are passed over. Code::invalid names the field.
base::Result<std::vector<codec::WhatIfStep>> stepsOfFields(const QueryFields& fields);

/// Steps as the scheduler tries them, and what they say of claims.
struct StepsToTry {
  std::vector<scheduler::Step> steps;
  std::vector<std::string> texts;  ///< "drain train-0", for people, in their order
  /// Claims that a step creates or resizes, as they ask after all steps.
  std::map<core::ObjectKey, v1alpha::ElasticGPUClaim> changed;
};

/// What stands in the way of a resize, beside what the stores say. Each may be null.
struct ResizeLimits {
  /// Why the device's plugin never resizes it; empty: it may.
  std::function<std::string(const cache::Gpu& device)> cannot{};
  /// What is kept for others of what the claim, as it would be, could grow into.
  std::function<cache::ClusterView::KeptFromResize(const v1alpha::ElasticGPUClaim& claim, const cache::Gpu& device,
                                                   const scheduler::Request& request)>
      kept{};
};

/// space: the namespace of claims that name none. A resize changes the requests that it names: the others stay as the
/// claim, or an earlier step, has them. Code::notFound or Code::invalid name the step: "steps[1].resize: …".
base::Result<StepsToTry> stepsToTry(const cache::Stores& stores, const std::vector<codec::WhatIfStep>& steps,
                                    const std::string& space, const ResizeLimits& limits = {});

}  // namespace egpu::server
