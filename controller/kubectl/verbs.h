// The verbs of `kubectl egpu`. Each returns the exit status of the process (options.h).
#pragma once

#include "controller/kubectl/options.h"

namespace egpu::kubectl {

int mapVerb(const MapOptions& options);
int whyVerb(const WhyOptions& options);
int topVerb(const TopOptions& options);
int fitVerb(const QuestionOptions& options);
int tryVerb(const QuestionOptions& options);
int drainCardVerb(const DrainCardOptions& options);
int checkVerb(const CheckOptions& options);
int bundleVerb(const BundleOptions& options);
int billVerb(const BillOptions& options);

}  // namespace egpu::kubectl
