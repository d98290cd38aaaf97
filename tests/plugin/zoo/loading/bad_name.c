/* Has a name that no class can use. */
#define NAME "Not A Name"
#include "tests/plugin/zoo/good.h"
