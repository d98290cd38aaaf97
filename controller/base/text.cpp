#include "controller/base/text.h"

#include <string_view>

namespace egpu::base {

namespace {
constexpr std::string_view kGap = " … ";
bool inside(unsigned char byte) { return (byte & 0xC0) == 0x80; }  // of a sequence, not its first byte
}  // namespace

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto room = most - kGap.size();
  auto head = room - room / 4;
  auto tail = text.size() - room / 4;
  while (head > 0 && inside(static_cast<unsigned char>(text[head]))) --head;
  while (tail < text.size() && inside(static_cast<unsigned char>(text[tail]))) ++tail;
  return text.substr(0, head).append(kGap).append(text, tail);
}

}  // namespace egpu::base
