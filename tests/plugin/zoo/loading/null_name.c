/* Replies a null name. */
#define NAME 0
#include "tests/plugin/zoo/good.h"
