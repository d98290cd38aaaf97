/* Names itself as no class can. */
#define NAME "Not A Name"
#include "tests/plugin/zoo/good.h"
