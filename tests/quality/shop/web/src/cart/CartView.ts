import { formatMoney } from "../format/money";

/** Shows the cart and keeps its sum up to date when the user changes a count. */
export class CartView {
  constructor(private readonly items: { name: string; cents: number; count: number }[]) {}

  render(): string {
    return this.items.map((item) => `${item.count} x ${item.name}`).join("\n");
  }

  sum(): string {
    return formatMoney(this.items.reduce((sum, item) => sum + item.cents * item.count, 0));
  }
}
