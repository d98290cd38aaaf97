// What the commands that ask a running controller share: one request to its operations address, its answer printed.
#pragma once

#include <string>

#include "controller/cmd/options.h"
#include "controller/kube/transport/transport.h"

namespace egpu::cmd {

/// Whether to colour: "always", "never", or "auto": on a terminal, unless NO_COLOR is set or TERM is dumb.
bool wantsColor(const std::string& mode);

/// A value in a query.
std::string queryEncoded(const std::string& text);

/// Prints the body of a 200 to standard output, ended by a newline, anything else as an error. The process's exit
/// status: 0, 1 no answer or a refusal, 2 `server` is no address, or `caller` has no token.
int printAnswer(const std::string& server, const CallerOptions& caller, kube::HttpRequest request);

}  // namespace egpu::cmd
