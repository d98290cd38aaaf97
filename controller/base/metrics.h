// Metrics interface. Modules record values through it; cmd/ chooses the implementation. The one for prometheus-cpp is
// server/operations/prometheus_metrics.cpp, which also holds the help texts.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace egpu::base {

using MetricLabels = std::map<std::string, std::string>;

/// Thread-safe. Names follow Prometheus' rules. Each name is always used with the same kind of metric.
class Metrics {
 public:
  virtual ~Metrics() = default;
  virtual void add(std::string_view counter, double by, const MetricLabels& labels) = 0;
  virtual void set(std::string_view gauge, double value, const MetricLabels& labels) = 0;
  virtual void observe(std::string_view histogram, double seconds, const MetricLabels& labels) = 0;
  virtual void forget(std::string_view gauge, const MetricLabels& labels) = 0;
};

/// Discards all metrics.
class NoMetrics final : public Metrics {
 public:
  void add(std::string_view, double, const MetricLabels&) override {}
  void set(std::string_view, double, const MetricLabels&) override {}
  void observe(std::string_view, double, const MetricLabels&) override {}
  void forget(std::string_view, const MetricLabels&) override {}
};

}  // namespace egpu::base
