#include "controller/scheduler/choice/class_models.h"

#include "controller/scheduler/choice/parameters.h"

namespace egpu::scheduler {

std::vector<std::string> modelsOf(const v1alpha::ElasticGPUClass& cls) {
  std::vector<Refusal> refusals;
  return readParameters(cls, refusals).models;
}

}  // namespace egpu::scheduler
