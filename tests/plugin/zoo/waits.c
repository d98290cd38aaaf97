/* provision writes a mark to the file that the class names, waits until the host has cancelled the call, and adds to
 * its mark; or it ignores the cancellation. */
#define NAME "waits.example.com"
#define HAVE_PROVISION
#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  const int mark = open(parameter(device, "mark"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (mark < 0) return outcome(call, mark);
  if (write(mark, "begun", 5) != 5) return EGPU_INTERNAL;
  while (*parameter(device, "regardless") || !host->cancelled(call)) usleep(1000);
  const int added = write(mark, ", cancelled", 11) == 11;
  close(mark);
  return added ? EGPU_UNAVAILABLE : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
