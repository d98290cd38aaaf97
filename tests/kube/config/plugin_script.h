// A credential plugin: a shell script in a folder of the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "controller/kube/config/endpoint.h"

namespace egpu::kube {

inline std::string readText(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// Returns the answer of a plugin that succeeds.
inline std::string execAnswer(const std::string& status) {
  return R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)" + status + "}";
}

class PluginFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(::testing::TempDir()) /
             (std::string("plugin-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// Replaces the file atomically, as configuration is updated: a reader sees the old text or the new one.
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = folder / name;
    std::ofstream(path.string() + ".new", std::ios::binary) << text;
    std::filesystem::rename(path.string() + ".new", path);
    return path.string();
  }
  /// A script that counts its runs, one byte each, in the file "runs".
  ExecPlugin script(const std::string& body) const {
    ExecPlugin plugin;
    plugin.apiVersion = "client.authentication.k8s.io/v1";
    plugin.command = write("login", "#!/bin/sh\nprintf x >>'" + folder.string() + "/runs'\n" + body + "\n");
    ::chmod(plugin.command.c_str(), 0755);
    return plugin;
  }
  std::size_t runs() const { return readText(folder / "runs").size(); }

  std::filesystem::path folder;
};

}  // namespace egpu::kube
