// Renders answers as JSON for programs and as tables for a terminal.
#pragma once

#include <string>

#include "controller/whatif/answer/answer.h"
#include "controller/whatif/render/text_table.h"

namespace egpu::whatif {

std::string toJson(const Answer& answer);
/// Control characters of names are not made visible yet; see forTerminal().
std::string toText(const Answer& answer, const TextStyle& style);

}  // namespace egpu::whatif
