/* provision sends a well-formed answer to a call that was never made. */
#define NAME "wrong-answers.example.com"
#define HAVE_PROVISION
#include <string.h>
#include <unistd.h>

#include "api/plugin/provisioner.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  /* type 3 (answer), id, outcome ok, message, four texts of the description, flags for prefer and resize (both false),
   * eleven lists, all empty, the flag for isolation (false), and the source: two texts and a list */
  static unsigned char frame[4 + 9 + 1 + 19 * 4 + 3];
  (void)call, (void)device;
  frame[0] = sizeof frame - 4;
  frame[4] = 3;
  memset(frame + 5, 0x55, 8);
  return write(3, frame, sizeof frame) > 0 ? EGPU_OK : EGPU_INTERNAL;
}
#include "tests/plugin/zoo/good.h"
