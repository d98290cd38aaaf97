/* provision goes on until nobody waits any more, and then leaves a mark where the class says; or it leaves its mark and
 * goes on regardless. */
#define NAME "waits.example.com"
#define HAVE_PROVISION
#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  const int regardless = *parameter(device, "regardless") != 0;
  while (!regardless && !host->cancelled(call)) usleep(1000);
  const int mark = open(parameter(device, "mark"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (mark >= 0) close(mark);
  while (regardless) sleep(3600);
  return EGPU_UNAVAILABLE;
}
#include "tests/plugin/zoo/good.h"
