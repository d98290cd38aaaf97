/* Follows the contract, with only the required slots. */
#define NAME "good.example.com"
#include "tests/plugin/zoo/good.h"
