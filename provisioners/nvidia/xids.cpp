#include "provisioners/nvidia/xids.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace egpu::nvidia {
namespace {

/// Graphics engine exception, page fault, channel stopped, preemptive cleanup, video processor exception, context switch
/// timeout.
constexpr std::array<unsigned, 6> kApplicationErrors = {13, 31, 43, 45, 68, 109};

constexpr const char* kReplace = "have the card replaced";
constexpr const char* kWatch = "nothing to do unless it comes again; then have the card tested";

struct Row {
  unsigned xid;
  const char *what, *remedy;
  bool passes = false;
};
constexpr Row kRows[] = {
    {48, "a memory error of two bits that ECC could not correct", kReset},
    {61, "its microcontroller stopped at a breakpoint", kReset},
    {62, "its microcontroller halted", kReset},
    {63, "broken memory was marked to be taken out of use at the next reset", kReset},
    {64, "broken memory could not be marked to be taken out of use", kReplace},
    {74, "an error of its NVLink; check the bridge, the baseboard and the peer", kReset},
    {79, "it has fallen off the bus", "reboot the machine, and check its seat and power if it happens again"},
    {92, "many memory errors of one bit", kWatch, true},
    {94, "a memory error that was contained: the program that met it was ended", kWatch, true},
    {95, "a memory error that was not contained", kReset},
    {119, "its system processor does not answer the driver", kReset},
    {120, "an error of its system processor", kReset},
    {140, "memory errors that ECC could not correct", kReset},
    {143, "it could not be started", kReset},
};

const Row* rowOf(unsigned long long xid) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.xid == xid; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

bool isApplicationError(unsigned long long xid) {
  return std::find(kApplicationErrors.begin(), kApplicationErrors.end(), xid) != kApplicationErrors.end();
}

bool passes(unsigned long long xid) {
  const Row* row = rowOf(xid);
  return !row || row->passes;
}

std::string illnessOf(unsigned long long xid) {
  const std::string head = "Xid" + std::to_string(xid) + ": ";
  if (const Row* row = rowOf(xid)) return head + row->what + "; " + row->remedy;
  return head + "the driver reports an error of the card; see the kernel's log and NVIDIA's list of XIDs";
}

}  // namespace egpu::nvidia
