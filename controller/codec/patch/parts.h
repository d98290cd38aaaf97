// Parts that several patches have. Internal to codec/.
#pragma once

#include <string>
#include <string_view>

#include "controller/codec/json/text.h"

namespace egpu::codec::patch {

/// Begins the object `metadata` and writes the preconditions that are not empty. The caller ends the object.
void beginMetadata(JsonText& j, std::string_view uid, std::string_view resourceVersion);
/// Writes `metadata` with the preconditions, if there are any.
void putPreconditions(JsonText& j, std::string_view uid, std::string_view resourceVersion);
/// Begins an operation of a JSON patch. The caller ends the object.
void op(JsonText& j, std::string_view name, std::string_view path);
/// Writes the operation that makes a JSON patch fail unless the text at `path` is this one.
void testText(JsonText& j, std::string_view path, std::string_view text);
/// Returns the name escaped as a part of a JSON pointer.
std::string escaped(std::string_view name);

}  // namespace egpu::codec::patch
