// A shop's orders in, an invoice for each order out.
//
// The payload is a JSON array of orders. All that is wrong with them is found in one go and told by
// its path, such as `orders[2].lines[0].quantity`: whoever repairs them should not have to guess.
// Money is counted in whole cents.

import { log, permanent, progress, task, text } from "./wasmq-task.js";

const CURRENCIES = ["CHF", "EUR", "GBP", "USD"];
const PRICE = /^(\d{1,6})\.(\d{2})$/;
const MOST_PIECES = 100_000;

export const handler = task((invocation, payload) => {
    const orders = parse(text(payload));
    const problems = orders.flatMap((order, index) => check(order, `orders[${index}]`));
    if (problems.length > 0) {
        const others = problems.length > 1 ? `, and ${problems.length - 1} more` : "";
        throw permanent("bad-orders", `${problems[0]}${others}`, { details: problems.join("\n") });
    }
    const invoices = orders.map((order, index) => {
        progress(index, orders.length, order.number);
        return invoice(order);
    });
    log("info", "invoices made", { invoices: invoices.length });
    return `${JSON.stringify(invoices, null, 2)}\n`;
});

function parse(json) {
    let orders;
    try {
        orders = JSON.parse(json);
    } catch (cause) {
        throw permanent("bad-json", `the payload is not JSON: ${cause.message}`, { cause });
    }
    if (!Array.isArray(orders)) throw permanent("bad-orders", "the payload is not an array of orders");
    return orders;
}

// --- checking ----------------------------------------------------------------------------------

function check(order, path) {
    return [
        ...must(isText(order?.number), `${path}.number`, "a text"),
        ...must(isText(order?.customer), `${path}.customer`, "a text"),
        ...must(CURRENCIES.includes(order?.currency), `${path}.currency`, `one of ${CURRENCIES.join(", ")}`),
        ...(Array.isArray(order?.lines) && order.lines.length > 0
            ? order.lines.flatMap((line, index) => checkLine(line, `${path}.lines[${index}]`))
            : [`${path}.lines is not an array with at least one line`]),
    ];
}

function checkLine(line, path) {
    return [
        ...must(isText(line?.article), `${path}.article`, "a text"),
        ...must(isCount(line?.quantity), `${path}.quantity`, `a count from 1 to ${MOST_PIECES}`),
        ...must(PRICE.test(line?.price), `${path}.price`, `a text such as "12.90"`),
        ...must(line?.vat >= 0 && line.vat <= 100, `${path}.vat`, "a rate from 0 to 100"),
    ];
}

const isText = (value) => typeof value === "string" && value.trim() !== "";

const isCount = (value) => Number.isInteger(value) && value >= 1 && value <= MOST_PIECES;

const must = (holds, path, what) => (holds ? [] : [`${path} is not ${what}`]);

// --- calculating -------------------------------------------------------------------------------

function invoice({ number, customer, currency, lines }) {
    const netByRate = new Map();
    for (const line of lines) {
        netByRate.set(line.vat, (netByRate.get(line.vat) ?? 0) + line.quantity * cents(line.price));
    }
    const vat = [...netByRate].sort(([a], [b]) => a - b).map(([rate, net]) => {
        return { rate, net, tax: Math.round((net * rate) / 100) };
    });
    const net = sum(vat.map((part) => part.net));
    const total = net + sum(vat.map((part) => part.tax));
    return {
        order: number,
        customer,
        currency,
        net: money(net),
        vat: vat.map((part) => ({ rate: part.rate, net: money(part.net), tax: money(part.tax) })),
        total: money(total),
    };
}

function cents(price) {
    const [, whole, hundredths] = PRICE.exec(price);
    return Number(whole) * 100 + Number(hundredths);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

const money = (cents) => `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}`;
