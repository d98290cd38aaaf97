// Implements base::Metrics with prometheus-cpp and renders it as Prometheus text.
#pragma once

#include <memory>
#include <string>

#include "controller/base/metrics.h"

namespace egpu::server {

/// Thread-safe. A family appears with its first use; help texts of known families are in one table in the .cpp.
class PrometheusMetrics final : public base::Metrics {
 public:
  PrometheusMetrics();
  ~PrometheusMetrics() override;
  void add(std::string_view counter, double by, const base::MetricLabels& labels) override;
  void set(std::string_view gauge, double value, const base::MetricLabels& labels) override;
  void observe(std::string_view histogram, double seconds, const base::MetricLabels& labels) override;
  void forget(std::string_view gauge, const base::MetricLabels& labels) override;
  /// Returns the text exposition format 0.0.4.
  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace egpu::server
