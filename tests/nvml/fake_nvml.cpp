#include "tests/nvml/fake_nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/nvml/node_file.h"

namespace egpu::nvidia::testing {

namespace fs = std::filesystem;

FakeNvml::FakeNvml(const std::string& node) : file(YAML::LoadFile(EGPU_FAKE_NVML_NODES "/" + node + ".yaml")) {
  chmod(folder_.c_str(), 0755);  // a plugin's process has a different user
  write();
  setenv("ELASTICGPU_FAKE_NVML", (folder_ + "/node.yaml").c_str(), 1);
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

void FakeNvml::writeKernelFiles() const {
  for (const char* folder : {"/sys", "/proc"}) fs::remove_all(folder_ + folder);
  const fs::path bus = folder_ + "/sys/bus/pci/devices";
  fs::create_directories(bus);
  for (const FakeDevice& device : readFakeNode(folder_ + "/node.yaml").devices) {
    const std::string place =
        "devices/" + (device.path.empty() ? "pci0000:00" : device.path.front()) + "/" + device.pci;
    fs::create_directories(folder_ + "/sys/" + place);
    std::ofstream(folder_ + "/sys/" + place + "/numa_node") << device.numa << "\n";
    fs::create_directory_symlink("../../../" + place, bus / device.pci);
    const fs::path known = folder_ + "/proc/driver/nvidia/gpus/" + device.pci;
    fs::create_directories(known);
    std::ofstream(known / "information") << "Model: \t\t " << device.name << "\nIRQ:   \t\t 77\nGPU UUID: \t "
                                         << device.uuid << "\nBus Type: \t PCIe\nBus Location: \t " << device.pci
                                         << "\nDevice Minor: \t " << device.minor << "\nGPU Excluded:\t No\n";
  }
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
