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
    paste: null,     // {id, kind, isPortable}
    rest: null,      // Blob: what follows the text in the box
    pasteCount: 0,
    said: {},        // value of each fact, as the text says it
    values: {},      // value of each fact, as chosen
    assumed: {},     // value of each fact that is neither said nor chosen but assumed
    browserGpu: "",  // the GPU of this computer
    refused: {},     // why a value that a link or a person gave counts as unknown
    package: "",
    version: "",     // "": the best
    publisher: "",   // "": any; a row of the catalog's sources
    cause: "",       // id of the cause that is shown, or that a link names
    official: false, // only official wheels
    installer: "",   // "": what the steps use anyway
    shell: "",
    choices: null,   // the module's menus
    plan: null,
    pair: null,      // the plan if torch is not installed, where its version decides and is unknown
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

/* The nodes of a text with links to projects' pages. */
function withLinks(text) {
    return text.split(/(https:\/\/github\.com\/[\w./-]*\w)/).map((part, index) =>
        index % 2 === 1 ? element("a", { href: part, rel: "noreferrer" }, part) : part);
}

/* The same, with what stands between backticks as code. */
function withCode(text) {
    return text.split("`").flatMap((part, index) => index % 2 === 1 ? element("code", null, part) : withLinks(part));
}

function send(job, more) {
    const id = nextId++;
    worker.postMessage({ id, job, ...more });
    return new Promise((resolve) => waiting.set(id, resolve));
}

const say = (text) => { byId("said").textContent = text; };

/* -- What is asked of the module. -- */

/* The system of this browser, as PyTorch's selector takes it. No build for NVIDIA's GPUs is for macOS. */
function browserSystem() {
    const platform = navigator.userAgentData?.platform ?? navigator.platform ?? "";
    const gpu = model.values.gpu || model.said.gpu;
    if (/^win/i.test(platform))
        return "windows";
    if (/^mac/i.test(platform) && navigator.maxTouchPoints === 0)
        return gpu && !gpu.startsWith("M") ? "" : "macos";
    return /linux/i.test(platform) && !/android/i.test(navigator.userAgent) ? "linux" : "";
}

const longestIn = (names) => names.sort((a, b) => b.length - a.length)[0] ?? "";

/* The GPU that this browser draws with, as the menu names it; "": another one, or a program. */
function findBrowserGpu(names) {
    const context = document.createElement("canvas").getContext("webgl", { failIfMajorPerformanceCaveat: true });
    const extension = context?.getExtension("WEBGL_debug_renderer_info");
    const drawn = extension ? context.getParameter(extension.UNMASKED_RENDERER_WEBGL) : "";
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    if (/or similar/.test(drawn)) // Firefox names one GPU for many
        return "";
    return longestIn(names.filter((name) => /\d/.test(name) && drawn.includes(name)));
}

const nothingIsKnown = () => model.paste === null && model.cause === "" && model.choices.facts.every(({ key }) => !model.values[key]);

/* The page begins with an answer: to this. */
const EXAMPLE = { gpu: "RTX 4090", python: "3.12", torch: "2.9.1", torch_cuda: "cu128" };
const EXAMPLE_MAC = { gpu: "M3", python: "3.12", torch: "2.9.1" };

/* What the page assumes and the module cannot: {key: {value, source}}. */
function guesses() {
    const guessed = {};
    const system = browserSystem();
    const add = (source, facts) => {
        for (const [key, value] of Object.entries(facts))
            if (value && !guessed[key] && !model.values[key] && !model.said[key])
                guessed[key] = { value, source };
    };
    const isHere = model.paste === null && ["", "WSL2", system].includes(model.values.os ?? "");
    add("of this browser", { os: system, gpu: isHere ? model.browserGpu : "" });
    if (nothingIsKnown())
        add("an example", system === "macos" ? EXAMPLE_MAC : EXAMPLE);
    return guessed;
}

const valueOf = (key) => model.values[key] || model.assumed[key] || "";

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

/* What the page assumes, as words for --given. */
function guessedWords() {
    const { torch_cuda: build, ...guessed } = guesses();
    return Object.entries(guessed).map(([key, { value }]) => `${key}=${value}${key === "torch" && build ? `+${build.value}` : ""}`);
}

function installerWords() {
    const chosen = model.choices.installers.find((one) => one.name === model.installer);
    return chosen === undefined || chosen.name === model.choices.installer ? [] : chosen.words;
}

function machineOf(given) {
    if (model.paste === null || model.paste.kind === null)
        return { name: "your choices", given, assume: true };
    return model.paste.kind === "log" ? { name: NAME, log: true, given, assume: true }
        : { name: NAME, record: true, given, assume: true };
}

/* Asks the module a command with the options and the machine that are chosen; `given`: more words for --given. */
function planRequest(command = "plan", more = {}, given = []) {
    const options = { official: model.official, ...more };
    if (model.package !== "")
        options.package = model.package;
    if (model.version !== "" && command === "plan")
        options.version = model.version;
    if (model.publisher !== "" && command !== "candidates")
        options.publishers = model.publisher;
    return { command, options, machines: [machineOf([...givenWords(), ...guessedWords(), ...installerWords(), ...given])] };
}

/* -- The address: it carries the choices, and never the pasted text. -- */

function fragmentOf() {
    const words = new URLSearchParams();
    for (const { key } of model.choices.facts)
        if (model.values[key])
            words.set(key, model.values[key]);
    for (const [key, value] of [["package", model.package], ["version", model.version],
                                ["publisher", model.publisher], ["official", model.official ? "yes" : ""],
                                ["installer", model.installer], ["shell", model.shell],
                                ["cause", model.cause]])
        if (value)
            words.set(key, value);
    for (const [key, { value, source }] of Object.entries(String(words) === "" ? {} : guesses()))
        if (source === "of this browser")
            words.set(key, value); // who opens the link may have another
    return String(words);
}

function remember() {
    const fragment = fragmentOf();
    history.pushState({ paste: model.paste?.id ?? null }, "", fragment === "" ? location.pathname + location.search : `#${fragment}`);
}

/*
 * Texts of this tab, by the number of the paste, so that reloading and going back find them
 * again. Browsers keep about 5 MB; without them the page works as a new one does.
 */
function keepText(id, text) {
    try {
        if (text.length <= 1 << 20)
            sessionStorage.setItem(`paste-${id}`, text);
    } catch {
        clearKeptTexts(); // the storage is full
    }
}

function clearKeptTexts() {
    try {
        sessionStorage.clear();
    } catch {
        // the browser does not allow storage
    }
}

function keptText(id) {
    try {
        return sessionStorage.getItem(`paste-${id}`);
    } catch {
        return null;
    }
}

/*
 * Takes the choices from the address: of a link, or after a reload or the back button. The text
 * pasted at that time is read again; going back to before a paste forgets it.
 */
async function restore(state) {
    const words = new URLSearchParams(location.hash.slice(1));
    if (model.paste !== null && state?.paste !== model.paste.id)
        forgetPaste();
    const text = state?.paste && model.paste === null ? keptText(state.paste) : null;
    if (text !== null) {
        model.pasteCount = Math.max(model.pasteCount, state.paste);
        if (!await takeKeptText(text, state.paste))
            return;
    }
    for (const { key } of model.choices.facts)
        model.values[key] = (words.get(key) ?? UNKNOWN).slice(0, 200);
    const known = (list, value) => list.includes(value) ? value : "";
    model.package = known(model.choices.packages.map((one) => one.name), words.get("package"));
    model.version = (words.get("version") ?? "").slice(0, 40);
    model.publisher = known(model.choices.sources.map((one) => one.name), words.get("publisher"));
    model.official = words.get("official") === "yes";
    model.installer = known(model.choices.installers.map((one) => one.name), words.get("installer"));
    model.cause = (words.get("cause") ?? "").slice(0, 80);
    model.shell = known(SHELLS.map(([name]) => name), words.get("shell"));
    refresh();
}
