#include "barcode.h"

/* Every second digit counts three times; the sum is filled up to the next ten. */
int barcode_check_digit(const char *digits) {
  int sum = 0;
  for (int at = 0; digits[at]; at++) {
    sum += (digits[at] - '0') * (at % 2 ? 3 : 1);
  }
  return (10 - sum % 10) % 10;
}
