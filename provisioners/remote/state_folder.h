// Folder of this plugin, $ELASTICGPU_STATE_DIR/remote. All plugins share $ELASTICGPU_STATE_DIR, each as a user of its
// own, so a folder or file there may come from another plugin. The settings in these files decide which file is sent as
// a token, and to which server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/plugin/provisioner.hpp"

namespace egpu::remote {

/// A folder that only the plugin's user can enter. Every call checks this, and follows no symbolic link. Thread-safe.
class StateFolder {
 public:
  /// subfolder: a folder in `remote`; empty = `remote` itself.
  explicit StateFolder(std::string subfolder = {}) : subfolder_(std::move(subfolder)) {}

  /// Replaces the file as a whole. UNAVAILABLE: it can't be written. INVALID: the folder is not this user's.
  sdk::Status write(const std::string& name, const std::string& text) const;
  /// NO_CHANGE: there is no such file. Otherwise as write().
  sdk::Status remove(const std::string& name) const;
  /// Nullopt: there is no such file, or it can't be read.
  std::optional<std::string> read(const std::string& name) const;
  bool has(const std::string& name) const;
  /// Returns the names of the files. Appends nothing to `names` if there is no folder. INVALID: it is not this user's.
  sdk::Status list(std::vector<std::string>& names) const;
  std::string path() const;

 private:
  /// Opens the folder, and creates it if `make` is set. Returns the descriptor, or -1 and why in `status`; NO_CHANGE:
  /// there is no folder.
  int open(bool make, sdk::Status& status) const;

  const std::string subfolder_;
};

}  // namespace egpu::remote
