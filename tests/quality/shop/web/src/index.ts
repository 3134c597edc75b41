export { CartView } from "./cart/CartView";
export { formatMoney } from "./format/money";
export { ApiClient } from "./api/client";
