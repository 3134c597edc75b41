/** Cents as people write them, by the rules of a locale. */
export function formatMoney(cents: number, locale = "en", currency = "EUR"): string {
  return new Intl.NumberFormat(locale, { style: "currency", currency }).format(cents / 100);
}
