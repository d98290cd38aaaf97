// The steps of a what-if question: from parameters to the question's form, and on to what the scheduler tries.
#pragma once

#include <string>
#include <vector>

#include "controller/base/status.h"
#include "controller/cache/stores.h"
#include "controller/codec/question.h"
#include "controller/scheduler/what_if.h"
#include "controller/server/subject.h"

namespace egpu::server {

/// Whether a parameter is a step: drain, add, release, resize. They may be repeated and are tried in their order.
bool isStep(const std::string& field);

///   drain=NODE                            release=[NAMESPACE/]CLAIM
///   resize=[NAMESPACE/]CLAIM,gpu-core=40,gpu-memory=8Gi
///   add=NAME,like=NODE[,count=2]          add=NAME,model=T4,cards=4,memory=16Gi[,tflops=65][,count=2]
/// Fields that are no steps are passed over. Code::invalid names the field.
base::Result<std::vector<codec::QuestionStep>> stepsOfFields(const QueryFields& fields);

/// space: the namespace of claims that name none. Code::notFound or Code::invalid name the step: "steps[1].resize: …".
base::Result<std::vector<scheduler::Step>> schedulerSteps(const cache::Stores& stores,
                                                          const std::vector<codec::QuestionStep>& steps,
                                                          const std::string& space);

/// "drain train-0", for people.
std::string stepText(const codec::QuestionStep& step, const std::string& space);

}  // namespace egpu::server
