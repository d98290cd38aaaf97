/* A second plugin with the name good.example.com. */
#define NAME "good.example.com"
#include "tests/plugin/zoo/good.h"
