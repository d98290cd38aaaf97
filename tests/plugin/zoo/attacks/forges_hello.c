/* A constructor forges the first frames of the host process before that sends them: all is confined, and the plugin is
 * up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char frame[256];
static uint32_t size;
static void raw(const void* p, uint32_t n) {
  memcpy(frame + size, p, n);
  size += n;
}
static void byte(uint8_t value) { raw(&value, 1); }
static void number(uint32_t value) { raw(&value, 4); }
static void text(const char* value) {
  number((uint32_t)strlen(value));
  raw(value, (uint32_t)strlen(value));
}
static void begin(uint8_t type) {
  const uint64_t id = 0;
  size = 4;
  byte(type);
  raw(&id, 8);
}
static void end(void) {
  const uint32_t length = size - 4;
  memcpy(frame, &length, 4);
  if (write(3, frame, size) != (ssize_t)size) _exit(1);
}
__attribute__((constructor)) static void speak(void) {
  const char* forges = getenv("ELASTICGPU_FORGES");
  if (forges && strcmp(forges, "both") == 0) {
    begin(5); /* confined: no gaps */
    number(3);
    text("");
    end();
  }
  begin(1); /* hello: loaded, no error */
  byte(1);
  text("");
  for (const char* const* value = (const char* const[]){"forges.example.com", "1", "gpuShare", "Advisory", NULL};
       *value; ++value)
    text(*value);
  end();
  for (;;) pause();
}
