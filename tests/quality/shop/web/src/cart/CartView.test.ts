import { CartView } from "./CartView";

test("the sum of an empty cart is nothing", () => {
  expect(new CartView([]).sum()).toBe("€0.00");
});
