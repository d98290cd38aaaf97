/* Keeps what it must, with only the required slots. */
#define NAME "good.example.com"
#include "tests/plugin/zoo/good.h"
