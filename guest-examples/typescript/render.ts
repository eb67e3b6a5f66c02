// A template and its values in, HTML out.
//
// The payload is JSON: {"template": "Hello {{name}}", "values": {"name": "world"}}. Values are escaped.
// A name without a value makes the task fail for good, with line and column: half a letter must not be
// sent.

import { type Node, parse, TemplateError } from "./template.ts";
import { log, permanent, task, text } from "./wasmq-task.ts";

type Value = string | number | boolean | null | Value[] | Values;

interface Values {
    [name: string]: Value;
}

interface Letter {
    template: string;
    values: Values;
}

export const handler = task((_, payload) => {
    const { template, values } = letter(text(payload));
    try {
        const html = render(parse(template), [values]);
        log("info", "rendered", { characters: html.length });
        return html;
    } catch (error) {
        if (!(error instanceof TemplateError)) throw error;
        const before = template.slice(0, error.at).split("\n");
        const place = `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
        const row = template.split("\n")[before.length - 1] ?? "";
        throw permanent(error.code, `${place} of the template: ${error.message}`, { details: row });
    }
});

function letter(json: string): Letter {
    let payload: unknown;
    try {
        payload = JSON.parse(json);
    } catch (cause) {
        throw permanent("bad-json", "the payload is not JSON", { cause });
    }
    if (!isLetter(payload)) {
        throw permanent("bad-letter", "the payload is not an object with a text `template` and an object `values`");
    }
    return payload;
}

function isLetter(payload: unknown): payload is Letter {
    if (typeof payload !== "object" || payload === null) return false;
    const { template, values } = payload as Partial<Record<keyof Letter, unknown>>;
    return typeof template === "string" && typeof values === "object" && values !== null && !Array.isArray(values);
}

/** The innermost scope, the element of a list, comes last and is asked first. */
function render(nodes: Node[], scopes: Values[]): string {
    return nodes.map((node) => renderNode(node, scopes)).join("");
}

function renderNode(node: Node, scopes: Values[]): string {
    switch (node.kind) {
        case "text":
            return node.text;
        case "value": {
            const value = lookUp(node.path, node.at, scopes);
            if (typeof value === "object" && value !== null) {
                throw new TemplateError("not-a-text", `${node.path} is not a text or a number`, node.at);
            }
            return escapeHtml(String(value ?? ""));
        }
        case "each": {
            const list = lookUp(node.path, node.at, scopes);
            if (!Array.isArray(list)) throw new TemplateError("not-a-list", `${node.path} is not a list`, node.at);
            return list.map((item) => render(node.body, [...scopes, isValues(item) ? item : { this: item }])).join("");
        }
    }
}

function lookUp(path: string, at: number, scopes: Values[]): Value {
    const [first = "", ...rest] = path.split(".");
    const scope = scopes.findLast((values) => Object.hasOwn(values, first));
    let value: Value | undefined = scope?.[first];
    for (const name of rest) value = isValues(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    if (value === undefined) throw new TemplateError("unknown-name", `there is no value for ${path}`, at);
    return value;
}

function isValues(value: Value | undefined): value is Values {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function escapeHtml(text: string): string {
    const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
    return text.replace(/[&<>"']/g, (character) => escapes[character] ?? character);
}
