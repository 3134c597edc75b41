#ifndef BARCODE_H
#define BARCODE_H
/* Reads the check digit of a barcode. */
int barcode_check_digit(const char *digits);
#endif
