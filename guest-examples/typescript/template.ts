// The language of the templates: text, `{{name}}`, and `{{#each name}}…{{/each}}`, which may nest.

/** A piece of a template. `at` is where it starts. */
export type Node =
    | { kind: "text"; text: string }
    | { kind: "value"; path: string; at: number }
    | { kind: "each"; path: string; at: number; body: Node[] };

/** What is wrong with a template, and where in it. */
export class TemplateError extends Error {
    readonly code: string;
    readonly at: number;

    constructor(code: string, message: string, at: number) {
        super(message);
        this.code = code;
        this.at = at;
    }
}

const TAG = /\{\{\s*(?:(#each)\s+([\w.]+)|(\/each)|([\w.]+))\s*\}\}/y;

interface Open {
    body: Node[];
    /** Where its `{{#each …}}` is; the template as a whole has none. */
    at?: number;
}

export function parse(template: string): Node[] {
    const root: Open = { body: [] };
    const open = [root];
    let position = 0;
    while (position < template.length) {
        const innermost = open.at(-1) ?? root;
        const start = template.indexOf("{{", position);
        if (start < 0) {
            innermost.body.push({ kind: "text", text: template.slice(position) });
            break;
        }
        if (start > position) innermost.body.push({ kind: "text", text: template.slice(position, start) });
        position = parseTag(template, start, open, innermost);
    }
    const unclosed = open.at(-1)?.at;
    if (unclosed !== undefined) throw new TemplateError("unclosed-each", "{{#each}} is never closed", unclosed);
    return root.body;
}

/** Reads the tag that starts there and returns where the text goes on. */
function parseTag(template: string, at: number, open: Open[], innermost: Open): number {
    TAG.lastIndex = at;
    const tag = TAG.exec(template);
    if (!tag) throw new TemplateError("bad-tag", "this is not a tag", at);
    const [, each, list, close, value] = tag;
    if (each && list) {
        const body: Node[] = [];
        innermost.body.push({ kind: "each", path: list, at, body });
        open.push({ body, at });
    } else if (close) {
        if (innermost.at === undefined) throw new TemplateError("unopened-each", "{{/each}} closes nothing", at);
        open.pop();
    } else if (value) {
        innermost.body.push({ kind: "value", path: value, at });
    }
    return TAG.lastIndex;
}
