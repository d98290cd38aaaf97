#include "tests/nvml/fake_nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/nvml/mig_state.h"
#include "tests/nvml/node_file.h"

namespace egpu::nvidia::testing {

namespace fs = std::filesystem;

FakeNvml::FakeNvml(const std::string& node) : file(YAML::LoadFile(EGPU_FAKE_NVML_NODES "/" + node + ".yaml")) {
  chmod(folder_.c_str(), 0755);  // a plugin's process has a different user
  write();
  setenv("ELASTICGPU_FAKE_NVML", (folder_ + "/node.yaml").c_str(), 1);
  reboot();
  setenv("ELASTICGPU_SYSTEM_ROOT", folder_.c_str(), 1);
  // Opened under its soname, it is the library that dlopen("libnvidia-ml.so.1") finds.
  library_ = dlopen(EGPU_FAKE_NVML_FOLDER "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library_, nullptr) << dlerror();
}

FakeNvml::~FakeNvml() {
  uninstall();
  unsetenv("ELASTICGPU_FAKE_NVML");
  unsetenv("ELASTICGPU_SYSTEM_ROOT");
}

void FakeNvml::uninstall() {
  if (library_) dlclose(library_);
  library_ = nullptr;
}

void FakeNvml::write() {
  const std::string path = folder_ + "/node.yaml";
  std::ofstream(path + "~") << file;
  fs::rename(path + "~", path);
  writeKernelFiles();
}

namespace {

/// Replaces the file unless it has this content, so that a reader at any moment finds it complete.
void replaceFile(const fs::path& path, const std::string& content) {
  std::ostringstream have;
  have << std::ifstream(path).rdbuf();
  if (have.str() == content) return;
  fs::create_directories(path.parent_path());
  std::ofstream(path.string() + "~") << content;
  fs::rename(path.string() + "~", path);
}

void removeOthers(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<fs::path> others;
  for (const auto& each : fs::directory_iterator(folder))
    if (names.count(each.path().filename()) == 0) others.push_back(each.path());
  for (const fs::path& other : others) fs::remove_all(other);
}

}  // namespace

void FakeNvml::writeKernelFiles() const {
  const fs::path bus = folder_ + "/sys/bus/pci/devices", gpus = folder_ + "/proc/driver/nvidia/gpus";
  fs::create_directories(bus);
  fs::create_directories(gpus);
  std::set<std::string> addresses;
  for (const FakeDevice& device : readFakeNode(folder_ + "/node.yaml").devices) {
    addresses.insert(device.pci);
    const std::string place =
        "devices/" + (device.path.empty() ? "pci0000:00" : device.path.front()) + "/" + device.pci;
    replaceFile(folder_ + "/sys/" + place + "/numa_node", std::to_string(device.numa) + "\n");
    if (const fs::path target = "../../../" + place;
        !fs::is_symlink(bus / device.pci) || fs::read_symlink(bus / device.pci) != target) {
      fs::remove(bus / device.pci);
      fs::create_directory_symlink(target, bus / device.pci);
    }
    replaceFile(gpus / device.pci / "information", "Model: \t\t " + device.name + "\nIRQ:   \t\t 77\nGPU UUID: \t " +
                                                       device.uuid + "\nBus Type: \t PCIe\nBus Location: \t " +
                                                       device.pci + "\nDevice Minor: \t " +
                                                       std::to_string(device.minor) + "\nGPU Excluded:\t No\n");
  }
  writeMigMinors();
  removeOthers(bus, addresses);
  removeOthers(gpus, addresses);
}

/// Numbers the capabilities as the kernel module does: each instance has one, and each compute instance in it.
void FakeNvml::writeMigMinors() const {
  constexpr int kGpuInstances = 15, kComputeInstances = 8;
  int next = 1;
  std::string text = "config " + std::to_string(next++) + "\n";
  text += "monitor " + std::to_string(next++) + "\n";
  for (const FakeDevice& device : readFakeNode(folder_ + "/node.yaml").devices)
    for (int gi = 0; device.mig >= 0 && gi < kGpuInstances; ++gi) {
      const std::string instance = "gpu" + std::to_string(device.minor) + "/gi" + std::to_string(gi);
      text += instance + "/access " + std::to_string(next++) + "\n";
      for (int ci = 0; ci < kComputeInstances; ++ci)
        text += instance + "/ci" + std::to_string(ci) + "/access " + std::to_string(next++) + "\n";
    }
  replaceFile(folder_ + "/proc/driver/nvidia-caps/mig-minors", text);
}

void FakeNvml::reboot() {
  const std::string instances = fakeInstancesPath();
  std::ofstream(instances, std::ios::trunc).flush();
  chmod(instances.c_str(), 0666);  // a plugin's process has a different user
  replaceFile(folder_ + "/proc/sys/kernel/random/boot_id", "boot-" + std::to_string(++boots_) + "\n");
}

void FakeNvml::unplug(std::size_t place) {
  const auto devices = readFakeNode(folder_ + "/node.yaml").devices;
  fs::remove_all(folder_ + "/proc/driver/nvidia/gpus/" + devices.at(place).pci);
}

std::vector<std::string> FakeNvml::environment() const {
  return {"LD_LIBRARY_PATH=" EGPU_FAKE_NVML_FOLDER, "ELASTICGPU_FAKE_NVML=" + folder_ + "/node.yaml",
          "ELASTICGPU_SYSTEM_ROOT=" + folder_};
}

}  // namespace egpu::nvidia::testing
