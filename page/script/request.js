/*
 * request.js: what the user has chosen and pasted, and what is asked of the worker.
 *
 * Texts from outside only ever become text nodes.
 */
const byId = (id) => document.getElementById(id);
const UNKNOWN = "";
const SHOWN_BYTES = 200000; // of a pasted text, in the box
const SHELLS = [["command", "sh"], ["powershell", "PowerShell"], ["cmd", "cmd"]];
const NAME = "your text";

let policy = { createScriptURL: (url) => url };
let worker = null;
const waiting = new Map();
let nextId = 1;
const model = {
    paste: null,     // {id, kind}
    rest: null,      // Blob: what follows the text in the box
    pasteCount: 0,
    said: {},        // value of each fact, as the text says it
    values: {},      // value of each fact, as chosen
    package: "",
    installer: "",   // "": what the steps use anyway
    shell: "",
    choices: null,   // the module's menus
    plan: null,
    generation: 0,
};

/* element("p", {class: "x", onclick: f}, "text", child, ...) */
function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes ?? {})) {
        if (key.startsWith("on"))
            made.addEventListener(key.slice(2), value);
        else if (value !== null && value !== false)
            made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
}

/* The nodes of a text, with what stands between backticks as code. */
function withCode(text) {
    return text.split("`").map((part, index) => index % 2 === 1 ? element("code", null, part) : part);
}

function send(job, more) {
    const id = nextId++;
    worker.postMessage({ id, job, ...more });
    return new Promise((resolve) => waiting.set(id, resolve));
}

const say = (text) => { byId("said").textContent = text; };

/* -- What is asked of the module. -- */

/* The choices that differ from what the text says, as words for --given. */
function givenWords() {
    const { values } = model;
    const words = [];
    const changed = (key) => (values[key] ?? UNKNOWN) !== (model.said[key] ?? UNKNOWN);
    for (const { key } of model.choices.facts)
        if (key !== "torch" && key !== "torch_cuda" && changed(key))
            words.push(`${key}=${values[key] || "unknown"}`);
    if (changed("torch") || changed("torch_cuda")) {
        const torch = values.torch || "unknown";
        const build = values.torch_cuda;
        words.push(build && torch !== "unknown" && torch !== "none" ? `torch=${torch}+${build}` : `torch=${torch}`);
        if (torch === "unknown" && build)
            words.push(`torch_cuda=${build}`);
    }
    return words;
}

function installerWords() {
    const chosen = model.choices.installers.find((one) => one.name === model.installer);
    return chosen === undefined || chosen.name === model.choices.installer ? [] : chosen.words;
}

function machineOf(given) {
    if (model.paste === null || model.paste.kind === null)
        return { name: "your choices", given };
    return model.paste.kind === "log" ? { name: NAME, log: true, given }
        : { name: NAME, record: true, given };
}

function planRequest() {
    const options = model.package === "" ? {} : { package: model.package };
    return { command: "plan", options, machines: [machineOf([...givenWords(), ...installerWords()])] };
}

/* -- The address: it carries the choices, and never the pasted text. -- */

function fragmentOf() {
    const words = new URLSearchParams();
    for (const { key } of model.choices.facts)
        if (model.values[key])
            words.set(key, model.values[key]);
    for (const [key, value] of [["package", model.package], ["installer", model.installer], ["shell", model.shell]])
        if (value)
            words.set(key, value);
    return String(words);
}

function remember() {
    const fragment = fragmentOf();
    history.pushState({ paste: model.paste?.id ?? null }, "", fragment === "" ? location.pathname + location.search : `#${fragment}`);
}

/* Takes the choices from the address: of a link, or after the back button. Going back to before a paste forgets it. */
function restore(state) {
    const words = new URLSearchParams(location.hash.slice(1));
    if (model.paste !== null && state?.paste !== model.paste.id)
        forgetPaste();
    for (const { key } of model.choices.facts)
        model.values[key] = (words.get(key) ?? UNKNOWN).slice(0, 200);
    const known = (list, value) => list.includes(value) ? value : "";
    model.package = known(model.choices.packages.map((one) => one.name), words.get("package"));
    model.installer = known(model.choices.installers.map((one) => one.name), words.get("installer"));
    model.shell = known(SHELLS.map(([name]) => name), words.get("shell"));
    refresh();
}
