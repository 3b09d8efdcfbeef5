/*
 * page.js: the web page, its worker and its service worker, in one file.
 *
 * The page shows menus and answers. The worker runs the WebAssembly module, which
 * decides (page/module.c). The service worker keeps the page's own files for use
 * without a network. Texts from outside only ever become text nodes.
 */
"use strict";

const RELEASE = "development"; // `make page` writes a digest of all files here
const FILES = ["./", "style.css", "page.js", "icon.svg", `anyflash.wasm?${RELEASE}`];

/* ---- Service worker: the files of this release, and nothing else. ---- */

function startServiceWorker() {
    const cacheName = `anyflash-${RELEASE}`;
    self.addEventListener("install", (event) => {
        self.skipWaiting();
        event.waitUntil(caches.open(cacheName).then((cache) => cache.addAll(
            FILES.map((file) => new Request(file, { cache: "reload" })))));
    });
    self.addEventListener("activate", (event) => {
        const forgetOthers = (names) => Promise.all(
            names.filter((name) => name.startsWith("anyflash-") && name !== cacheName)
                .map((name) => caches.delete(name)));
        event.waitUntil(caches.keys().then(forgetOthers));
    });
    self.addEventListener("fetch", (event) => {
        const wanted = event.request.mode === "navigate" ? "./" : event.request; // also index.html
        event.respondWith(caches.open(cacheName)
            .then((cache) => cache.match(wanted, { ignoreVary: true }))
            .then((kept) => kept ?? fetch(event.request)));
    });
}

/* ---- Worker: the module, and the bytes of the pasted text. ---- */

const PIECE_BYTES = 1 << 20;
const CONTEXT_LINES = 2;
const LINE_CHARACTERS = 2000;

async function loadModule() {
    const response = await fetch(`anyflash.wasm?${RELEASE}`);
    if (!response.ok)
        throw new Error(`anyflash.wasm: ${response.status}`);
    const isWasm = response.headers.get("content-type") === "application/wasm";
    const source = isWasm ? await WebAssembly.instantiateStreaming(response, {})
        : await WebAssembly.instantiate(await response.arrayBuffer(), {});
    return source.instance.exports;
}

/* Calls a function of the module with bytes; throws if there is no memory for them. */
function passBytes(wasm, bytes, call) {
    const at = wasm.anyflash_alloc(bytes.length + 1);
    if (at === 0)
        throw new RangeError("there is not enough memory for this text");
    new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
    const result = call(at, bytes.length);
    wasm.anyflash_free(at);
    return result;
}

function ask(wasm, request) {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const at = passBytes(wasm, bytes, wasm.anyflash_answer);
    const memory = new Uint8Array(wasm.memory.buffer);
    return JSON.parse(new TextDecoder().decode(memory.subarray(at, memory.indexOf(0, at))));
}

function readLog(wasm, name, bytes) {
    wasm.anyflash_log_clear();
    let failed = passBytes(wasm, new TextEncoder().encode(name), wasm.anyflash_log_begin);
    for (let at = 0; !failed && at < bytes.length; at += PIECE_BYTES)
        failed = passBytes(wasm, bytes.subarray(at, at + PIECE_BYTES), wasm.anyflash_log_feed);
    return failed === 0;
}

/* Terminal colours are left out; other control characters and bidirectional marks are named. */
function printable(text) {
    return text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").slice(0, LINE_CHARACTERS).replace(
        /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
        (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/* The lines of those numbers with their neighbours, in order. */
function excerpt(bytes, numbers) {
    const wanted = new Set();
    for (const number of numbers)
        for (let near = number - CONTEXT_LINES; near <= number + CONTEXT_LINES; near++)
            wanted.add(near);
    const last = Math.max(0, ...wanted);
    const lines = [];
    for (let number = 1, at = 0; number <= last && at < bytes.length; number++) {
        const newline = bytes.indexOf(10, at);
        const end = newline < 0 ? bytes.length : newline;
        if (wanted.has(number)) {
            const line = new TextDecoder().decode(bytes.subarray(at, end));
            const state = line.replace(/\r+$/, "").split("\r").pop(); // of a progress bar
            lines.push({ number, text: printable(state) });
        }
        at = end + 1;
    }
    return lines;
}

/*
 * What a text is: "log" if the log reader finds a cause in it, "record" or "output"
 * if it describes a machine, or null. Descriptions of machines mention compilers and
 * versions, so a cause that is only possible does not make a log of them.
 */
const RECORD_BYTES_MAX = 48 << 20;
const DESCRIBED_MIN = 3;

function recognise(wasm, name, bytes) {
    const readable = readLog(wasm, name, bytes);
    const diagnosis = readable ? ask(wasm, { command: "doctor" }) : { causes: [] };
    const best = diagnosis.causes?.[0]?.confidence;
    if (best !== undefined && best !== "possible")
        return { kind: "log" };
    const text = bytes.length <= RECORD_BYTES_MAX ? new TextDecoder().decode(bytes) : null;
    const machine = text === null ? { error: {} }
        : ask(wasm, { command: "choices", machines: [{ name, record: text }] });
    const described = machine.facts?.filter((fact) => fact.value !== null).length ?? 0;
    if (best !== undefined && described < DESCRIBED_MIN)
        return { kind: "log" };
    if (machine.error === undefined)
        return { kind: /^\s*\{/.test(text) ? "record" : "output", record: text };
    return { kind: null };
}

function startWorker() {
    const loaded = loadModule();
    let bytes = new Uint8Array();
    let record = null;
    loaded.then(() => postMessage({ ready: true }),
                (error) => postMessage({ problem: String(error.message ?? error) }));
    const jobs = {
        paste(wasm, message) {
            bytes = message.bytes;
            const found = recognise(wasm, message.name, bytes);
            record = found.record ?? null;
            return { kind: found.kind };
        },
        ask(wasm, message) {
            for (const machine of message.request.machines ?? [])
                if (machine.record === true)
                    machine.record = record; // the page does not send the text each time
            return ask(wasm, message.request);
        },
        excerpt(_, message) {
            return excerpt(bytes, message.numbers);
        },
    };
    self.addEventListener("message", async ({ data }) => {
        try {
            postMessage({ id: data.id, answer: jobs[data.job](await loaded, data) });
        } catch (error) {
            postMessage({ id: data.id, answer: { error: { message: String(error.message ?? error), hint: null } } });
        }
    });
}

/* ---- The page. ---- */

const byId = (id) => document.getElementById(id);
const UNKNOWN = "";
const SHOWN_CHARACTERS = 200000; // of a pasted text, in the box
const SHELLS = [["command", "sh"], ["powershell", "PowerShell"], ["cmd", "cmd"]];
const NAME = "your text";

let policy = { createScriptURL: (url) => url };
let worker = null;
const waiting = new Map();
let nextId = 1;
const model = {
    paste: null,     // {id, kind}
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

/* Text where `...` is code. */
function withCode(text) {
    return text.split("`").map((part, index) => index % 2 === 1 ? element("code", null, part) : part);
}

function send(job, more, transfer = []) {
    const id = nextId++;
    worker.postMessage({ id, job, ...more }, transfer);
    return new Promise((resolve) => waiting.set(id, resolve));
}

const say = (text) => { byId("said").textContent = text; };

/* -- What is asked of the module. -- */

/* The words of --given for what differs from the text. */
function givenWords(values = model.values) {
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

function planRequest(values) {
    const options = model.package === "" ? {} : { package: model.package };
    return { command: "plan", options, machines: [machineOf([...givenWords(values), ...installerWords()])] };
}

/* -- Parts of an answer. -- */

async function copyText(text, button) {
    let copied = true;
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const box = element("textarea", { class: "unseen" });
        box.value = text;
        document.body.append(box);
        box.select();
        copied = document.execCommand("copy");
        box.remove();
        button.focus();
    }
    const label = button.dataset.label ?? button.textContent;
    button.dataset.label = label;
    button.textContent = copied ? "Copied" : "Not copied";
    say(button.textContent);
    setTimeout(() => { button.textContent = label; }, 1500);
}

function commandBlock(command, isMain, what) {
    const button = element("button", { type: "button", class: "copy", "aria-label": `Copy: ${what}`,
                                       onclick: () => copyText(command, button) }, "Copy");
    return element("div", { class: isMain ? "command main" : "command" },
                   element("pre", { tabindex: "0" }, element("code", null, command)), button);
}

const commandOf = (step) => step[shellInUse()] ?? step.command;

function shellInUse() {
    return model.shell || (model.values.os === "windows" ? "powershell" : "command");
}

function stepsList(steps) {
    const main = steps.find((step) => ["wheel", "torch", "own", "build"].includes(step.kind)) ?? steps.find((step) => step.command);
    return element("ol", { class: "steps" }, ...steps.map((step) => element(
        "li", null, ...withCode(step.title ?? ""),
        step.command === null ? null : commandBlock(commandOf(step), step === main, step.title ?? "the command"))));
}

function reasonItem(reason) {
    const parts = withCode(reason.detail ? `${reason.message}: ${reason.detail}` : reason.message);
    if (reason.hint)
        parts.push(element("br"), element("span", { class: "quiet" }, ...withCode(`hint: ${reason.hint}`)));
    return element("li", null, ...parts);
}

function details(summary, ...children) {
    return element("details", null, element("summary", null, ...summary), ...children);
}

function buildParts(builds) {
    return builds.flatMap((one) => [
        element("p", null, `${one.name === "slim" ? "partial" : one.name} build, ${one.time}: ${one.holds}; ${one.needs}`),
        commandBlock(one.command, false, `${one.name} build`)]);
}

function rungDetails(rung, plan) {
    const moves = rung.moves.map((move) => element("li", null, move.to === null
        ? `breaks: ${move.name} ${move.from ?? ""}${move.why ? `: ${move.why}` : ""}`
        : `changes: ${move.name} ${move.from ?? "(not installed)"} → ${move.to}${move.why ? `: ${move.why}` : ""}`));
    const needs = rung.prerequisites.map((need) => element("li", null,
        `${need.name}: ${need.verdict}${need.evidence ? `, ${need.evidence}` : ""}`,
        need.fix ? element("span", { class: "quiet" }, ...withCode(` hint: ${need.fix}`)) : null));
    const cost = rung.name === "build" && plan.builds.length > 0 ? null : rung.cost;
    return details(
        [element("span", { class: "verdict" }, rung.verdict), ` ${rung.name} `,
         element("span", { class: "quiet" }, rung.summary ?? "")],
        cost ? element("p", null, `cost: ${cost}`) : null,
        ...(rung.name === "build" ? buildParts(plan.builds) : []),
        element("ul", null, ...moves, ...rung.reasons.map(reasonItem), ...needs));
}

function nearMisses(plan) {
    const misses = plan.near_misses.map((miss) => element(
        "li", null, `${miss.what}:`, element("br"), element("code", null, miss.filename),
        element("ul", null, ...miss.reasons.filter((reason) => reason.effect === "blocks").map(reasonItem))));
    if (misses.length === 0)
        return null;
    const sieve = plan.sieve.map((group) => `${group.left.toLocaleString("en")} ${group.what}`).join(" → ");
    const none = plan.rungs.some((rung) => rung.name === "wheel" && rung.verdict === "no");
    return details([none ? "Why no published wheel fits" : "Wheels that do not fit"],
                   element("p", { class: "quiet" }, sieve), element("ul", null, ...misses));
}

function proofParts(plan) {
    if (plan.prove_first === null)
        return [];
    const { wheel, inspect, install } = plan.prove_first;
    return [element("h3", null, "A wheel that may load: prove it first"),
            element("p", null, element("code", null, wheel.filename)),
            element("p", null, "This reads its binaries and changes nothing:"), commandBlock(inspect, false, "prove the wheel"),
            element("p", null, "This proves it, installs it, and removes it if it does not load:"),
            commandBlock(install, false, "prove and install the wheel")];
}

/* What keeps the answer open; an unknown fact has its hint. */
function openReasons(plan) {
    const wheel = plan.rungs.find((rung) => rung.name === "wheel");
    return plan.decision === null || plan.decision === "wheel"
        ? wheel.reasons.filter((reason) => reason.effect === "open") : [];
}

function showError(error) {
    byId("answer-title").textContent = error.message;
    byId("answer-body").replaceChildren(...(error.hint ? [element("p", null, error.hint)] : []));
    for (const id of ["unsure", "switches", "share"])
        byId(id).hidden = true;
}

function showPlan(plan) {
    if (plan.error !== undefined) {
        showError(plan.error);
        return;
    }
    const open = openReasons(plan);
    const others = plan.rungs.filter((rung) => rung.name !== plan.decision);
    const chosen = plan.rungs.find((rung) => rung.name === plan.decision);
    const commands = plan.steps.filter((step) => step.command !== null && step.kind !== "advice");
    const all = element("button", { type: "button", onclick: () => copyText(commands.map(commandOf).join("\n"), all) },
                        "Copy all commands");
    byId("answer-title").textContent = plan.headline;
    byId("unsure").hidden = open.length === 0;
    byId("unsure").textContent = open.length === 0 ? ""
        : `${plan.decision === null ? "Not known yet" : "Unsure because"}: ${open.map((reason) => reason.message).join("; ")}.`;
    byId("answer-body").replaceChildren(...[
        plan.faster === null ? null
            : element("p", null, ...withCode(`Made for this GPU: choose \`${plan.faster}\` in the menu Package.`)),
        plan.steps.length > 0 ? stepsList(plan.steps) : null,
        commands.length > 1 ? element("p", { class: "row" }, all) : null,
        ...proofParts(plan),
        nearMisses(plan),
        chosen === undefined || chosen.reasons.length === 0 ? null
            : details(["What to know about this way"], element("p", null, `cost: ${chosen.cost}`),
                      element("ul", null, ...chosen.reasons.map(reasonItem))),
        element("h3", null, "Every other way"),
        ...others.map((rung) => rungDetails(rung, plan)),
    ].filter((part) => part !== null));
    byId("switches").hidden = commands.length === 0;
    byId("share").hidden = false;
    say(plan.headline);
    performance.mark("answered");
}

/* -- The diagnosis of a log. -- */

function logView(lines, evidence) {
    const marked = new Set(evidence.map((row) => row.line));
    let before = 0;
    const rows = [];
    for (const { number, text } of lines) {
        if (before > 0 && number > before + 1)
            rows.push(element("div", { class: "quiet" }, element("span", { class: "number" }, "…")));
        rows.push(element("div", { class: marked.has(number) ? "marked" : null },
                          element("span", { class: "number" }, String(number)),
                          element("span", { class: "line" }, marked.has(number) ? element("mark", null, text) : text)));
        before = number;
    }
    return element("div", { class: "log", tabindex: "0", role: "region", "aria-label": "Lines of the log" }, ...rows);
}

function causeParts(cause, lines) {
    const facts = cause.evidence.filter((row) => row.fact !== undefined);
    const found = cause.evidence.filter((row) => row.line !== undefined);
    return [
        cause.detail ? element("p", null, ...withCode(cause.detail)) : null,
        element("h3", null, "Next step"), commandBlock(cause.next, true, "the next step"), element("p", null, ...withCode(cause.fix)),
        element("h3", null, "What shows it"), found.length > 0 ? logView(lines, found) : null,
        facts.length > 0 ? element("ul", null, ...facts.map((row) =>
            element("li", null, `${row.fact} is ${row.value} (${row.source})`))) : null,
        element("h3", null, "Why"), element("p", null, ...withCode(cause.why)),
        cause.avoid ? element("h3", null, "What not to do") : null,
        cause.avoid ? element("p", null, ...withCode(cause.avoid)) : null,
    ].filter((part) => part !== null);
}

const SURE = { proved: "", likely: "probably: ", possible: "possibly: " };

async function showDiagnosis(diagnosis, generation) {
    const best = diagnosis?.causes?.[0];
    if (best === undefined) {
        byId("diagnosis").hidden = true;
        return;
    }
    const numbers = diagnosis.causes.flatMap((cause) => cause.evidence.map((row) => row.line).filter(Boolean));
    const lines = await send("excerpt", { numbers });
    if (generation !== model.generation)
        return;
    const near = (cause) => lines.filter(({ number }) => cause.evidence.some(
        (row) => row.line !== undefined && Math.abs(row.line - number) <= CONTEXT_LINES));
    const questions = diagnosis.open.map((row) => element("li", null,
        `${row.fact}${row.command ? ", which " : ""}`, row.command ? element("code", null, row.command) : null,
        `${row.command ? " shows" : ""} (for ${row.decides})`));
    byId("diagnosis-title").textContent = SURE[best.confidence] + best.title;
    byId("diagnosis-body").replaceChildren(...[
        ...causeParts(best, near(best)),
        questions.length > 0 ? element("h3", null, "What would settle it") : null,
        questions.length > 0 ? element("ul", null, ...questions) : null,
        diagnosis.causes.length > 1 ? element("h3", null, "Other causes") : null,
        ...diagnosis.causes.slice(1).map((cause) => details([SURE[cause.confidence] + cause.title], ...causeParts(cause, near(cause)))),
        element("p", { class: "quiet" }, `${best.id} (${best.confidence}); facts: ${diagnosis.facts}`),
    ].filter((part) => part !== null));
    byId("diagnosis").hidden = false;
    say(byId("diagnosis-title").textContent);
}

/* -- Menus. -- */

function optionsFor(fact, value) {
    const known = [["", "unknown"], ...fact.choices.map((one) => [one.value, one.label])];
    const extra = [value, model.said[fact.key]].filter((one) => one && !known.some(([name]) => name === one));
    return [known[0], ...[...new Set(extra)].map((one) => [one, one]), ...known.slice(1)];
}

function fillSelect(select, options, value) {
    select.replaceChildren(...options.map(([name, label]) => element("option", { value: name }, label)));
    select.value = value;
}

function sourceText(fact) {
    const value = model.values[fact.key] ?? UNKNOWN;
    const said = model.said[fact.key] ?? UNKNOWN;
    if (value !== said)
        return said === UNKNOWN ? "chosen" : `chosen; ${NAME} says ${said}`;
    return said === UNKNOWN ? "" : fact.source ?? "";
}

function showMenus() {
    for (const fact of model.choices.facts) {
        const value = model.values[fact.key] ?? UNKNOWN;
        for (const select of document.querySelectorAll(`select[data-key="${fact.key}"]`)) {
            fillSelect(select, optionsFor(fact, value), value);
            const box = select.closest(".fact");
            box.classList.toggle("chosen", value !== (model.said[fact.key] ?? UNKNOWN));
            if (box.querySelector("small") !== null)
                box.querySelector("small").textContent = sourceText(fact);
        }
    }
    byId("package").value = model.package;
    byId("notes").hidden = !model.choices.notes;
    byId("notes").textContent = model.choices.notes ?? "";
    for (const [group, value] of [["installer", model.installer || model.choices.installer], ["shell", shellInUse()]])
        for (const input of document.querySelectorAll(`input[name="${group}"]`))
            input.checked = input.value === value;
}

function menu(fact, prefix, withSource) {
    const id = `${prefix}-${fact.key}`;
    return element("div", { class: "fact" }, element("label", { for: id }, fact.label),
                   element("select", { id, "data-key": fact.key, title: fact.help, onchange: changeFact,
                                       "aria-describedby": withSource ? `${id}-source` : null }),
                   withSource ? element("small", { id: `${id}-source` }) : null);
}

function tabs(group, rows, onchange) {
    return rows.flatMap(([value, label]) => [
        element("input", { type: "radio", name: group, id: `${group}-${value}`, value, onchange }),
        element("label", { for: `${group}-${value}` }, label)]);
}

function buildMenus() {
    const { facts, packages, installers } = model.choices;
    const packageMenu = element("select", { id: "package", onchange: changePackage });
    fillSelect(packageMenu, packages.map(({ name, count }, index) =>
        [index === 0 ? "" : name, `${name} (${count.toLocaleString("en")} wheels)`]), "");
    byId("choices").replaceChildren(...facts.map((fact) => menu(fact, "fact", true)),
        element("div", { class: "fact" }, element("label", { for: "package" }, "Package"), packageMenu, element("small")));
    byId("matrix-switches").replaceChildren(...["gpu", "os", "arch", "python"].map((key) =>
        menu(facts.find((fact) => fact.key === key), "matrix", false)));
    byId("installers").replaceChildren(...tabs("installer", installers.map((one) => [one.name, one.label]), changeInstaller));
    byId("shells").replaceChildren(...tabs("shell", SHELLS, changeShell));
}

/* -- The matrix: one plan for each build of torch, while nothing else is asked. -- */

const WHEELS = ["official", "community", "prove"]; // their cells show the version
const SHORT = { kernels: "torch", change: "change", build: "build", nothing: "–" };
let matrixRun = 0;

async function showMatrix() {
    const run = ++matrixRun;
    const { builds, ways } = model.choices;
    const titles = Object.fromEntries(ways.map((way) => [way.name, way.title]));
    const columns = [...new Set(builds.flatMap((row) => row.builds))]
        .sort((one, other) => Number(other.slice(2)) - Number(one.slice(2)));
    const cells = [];
    const row = ({ torch, builds: has }) => element("tr", null, element("th", { scope: "row" }, torch), ...columns.map((build) => {
        if (!has.includes(build))
            return element("td", { class: "absent" }, element("span", { class: "unseen" }, "not published"));
        const button = element("button", { type: "button", class: "way-wait", "aria-label": `torch ${torch}+${build}`,
                                           onclick: () => openCell(torch, build) }, "…");
        cells.push({ torch, build, button });
        return element("td", null, button);
    }));
    const table = element("table", { class: "grid" },
        element("thead", null, element("tr", null, element("th", { scope: "col" }, "torch"),
                                       ...columns.map((build) => element("th", { scope: "col" }, build)))),
        element("tbody", null, ...builds.filter((one) => one.builds.length > 0).map(row)));
    byId("matrix").replaceChildren(table);
    byId("legend").replaceChildren(...ways.map((way) => element("li", null,
        element("span", { class: `swatch way-${way.name}` }), WHEELS.includes(way.name) ? way.title : `${SHORT[way.name]}: ${way.title}`)));
    markCell();
    for (const cell of cells) {
        const request = planRequest({ ...model.values, torch: cell.torch, torch_cuda: cell.build });
        const plan = await send("ask", { request });
        if (run !== matrixRun)
            return;
        if (plan.error !== undefined) {
            cell.button.textContent = "error";
            cell.button.title = plan.error.message;
            continue;
        }
        const way = plan.way ?? "nothing";
        const version = plan.wheel?.version ?? plan.prove_first?.wheel.version;
        cell.button.className = `way-${way}`;
        cell.button.textContent = WHEELS.includes(way) && version
            ? `${version}${way === "prove" ? "?" : ""}` : SHORT[way] ?? way;
        cell.button.setAttribute("aria-label",
            `torch ${cell.torch}+${cell.build}: ${titles[way]}${WHEELS.includes(way) ? ` ${version}` : ""}`);
        cell.button.title = plan.headline ?? "";
    }
    byId("matrix").dataset.complete = String(run);
}

function markCell() {
    const name = `torch ${model.values.torch}+${model.values.torch_cuda}`;
    for (const button of byId("matrix").querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-label").split(":")[0] === name));
}

function openCell(torch, build) {
    model.values.torch = torch;
    model.values.torch_cuda = build;
    remember();
    refresh();
    byId("answer-title").focus();
    byId("answer").scrollIntoView({ block: "start" });
}

/* -- One answer. -- */

function matrixKey() {
    return JSON.stringify([model.paste?.id, model.package, ...["gpu", "os", "arch", "python", "libc", "driver"].map((key) => model.values[key])]);
}

let shownMatrix = null;

async function refresh() {
    const generation = ++model.generation;
    performance.mark("asked");
    matrixRun++;
    showMenus();
    const given = givenWords();
    const plan = await send("ask", { request: planRequest() });
    if (generation !== model.generation)
        return;
    model.plan = plan;
    showPlan(plan);
    const isLog = model.paste?.kind === "log";
    const diagnosis = isLog ? await send("ask", { request: { command: "doctor", machines: [{ name: NAME, given }] } }) : null;
    if (generation !== model.generation)
        return;
    await showDiagnosis(diagnosis, generation);
    document.documentElement.dataset.answered = String(generation);
    if (shownMatrix === matrixKey() && byId("matrix").dataset.complete !== undefined) {
        markCell();
        return;
    }
    delete byId("matrix").dataset.complete;
    shownMatrix = matrixKey();
    // The platform decides which builds there are.
    const choices = await send("ask", { request: { command: "choices", machines: [machineOf(given)] } });
    if (generation !== model.generation)
        return;
    model.choices.builds = choices.builds ?? model.choices.builds;
    showMatrix();
}

/* -- The link: choices only. -- */

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

/* From a link or the back button. What was pasted counts only in the states since then. */
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

function changeFact(event) {
    model.values[event.target.dataset.key] = event.target.value;
    remember();
    refresh();
}

function changePackage(event) {
    model.package = event.target.value;
    remember();
    refresh();
}

function changeInstaller(event) {
    model.installer = event.target.value;
    remember();
    refresh();
}

function changeShell(event) {
    model.shell = event.target.value;
    remember();
    showMenus();
    if (model.plan !== null)
        showPlan(model.plan);
}

/* -- The pasted text. -- */

let typing = 0;

function forgetPaste() {
    clearTimeout(typing);
    model.paste = null;
    model.said = {};
    model.choices = { ...model.firstChoices };
    byId("text").value = "";
    byId("recognised").textContent = "";
}

const KINDS = {
    log: "Recognised: the log of a failure.",
    output: "Recognised: output that describes a machine.",
    record: "Recognised: a record of anyflash machine.",
};

async function takeBytes(bytes) {
    const generation = ++model.generation;
    matrixRun++;
    if (bytes.length === 0) {
        forgetPaste();
        remember();
        refresh();
        return;
    }
    byId("recognised").textContent = "Reading …";
    const found = await send("paste", { name: NAME, bytes }, [bytes.buffer]);
    if (generation !== model.generation)
        return;
    if (found.error !== undefined || found.kind === null) {
        byId("recognised").textContent = found.error?.message
            ?? "Nothing in this text describes a machine or a known failure. Paste the whole output: the cause is often in earlier lines.";
        model.paste = null;
    } else {
        model.paste = { id: ++model.pasteCount, kind: found.kind };
        byId("recognised").textContent = KINDS[found.kind];
    }
    const choices = await send("ask", { request: { command: "choices", machines: [machineOf([])] } });
    if (generation !== model.generation)
        return;
    if (choices.error !== undefined) {
        showError(choices.error);
        return;
    }
    model.choices = choices;
    model.said = Object.fromEntries(choices.facts.map((fact) => [fact.key, fact.value ?? UNKNOWN]));
    if (model.paste !== null) {
        model.values = { ...model.said };
        model.installer = "";
        remember();
    }
    refresh();
}

function takeText(text) {
    clearTimeout(typing);
    typing = setTimeout(() => takeBytes(new TextEncoder().encode(text)), 150);
}

/* A long text is not put into the box whole: browsers take seconds to lay it out. */
function takeLongText(bytes) {
    const shown = new TextDecoder().decode(bytes.subarray(0, SHOWN_CHARACTERS));
    byId("text").value = bytes.length <= SHOWN_CHARACTERS ? shown
        : `${shown}\n… (${(bytes.length / 1e6).toFixed(1)} MB in all; all of it is read)`;
    clearTimeout(typing);
    takeBytes(bytes);
}

function listenToPastes() {
    byId("text").addEventListener("input", (event) => takeText(event.target.value));
    byId("text").addEventListener("paste", (event) => {
        const text = event.clipboardData?.getData("text/plain") ?? "";
        if (text.length <= SHOWN_CHARACTERS)
            return;
        event.preventDefault();
        takeLongText(new TextEncoder().encode(text));
    });
    const takeFile = async (file) => {
        if (file !== undefined)
            takeLongText(new Uint8Array(await file.arrayBuffer()));
    };
    byId("file").addEventListener("change", (event) => takeFile(event.target.files[0]));
    byId("text").addEventListener("drop", (event) => {
        if (event.dataTransfer?.files.length > 0) {
            event.preventDefault();
            takeFile(event.dataTransfer.files[0]);
        }
    });
    byId("clear").addEventListener("click", () => {
        byId("text").value = "";
        byId("file").value = "";
        model.values = {};
        takeBytes(new Uint8Array());
        byId("text").focus();
    });
    document.querySelector(".skip").addEventListener("click", (event) => {
        event.preventDefault(); // a new fragment would be a link with other choices
        byId("answer-title").focus();
    });
    byId("link").addEventListener("click", (event) => {
        const fragment = fragmentOf();
        copyText(`${location.href.split("#")[0]}${fragment === "" ? "" : `#${fragment}`}`, event.target);
    });
}

/* -- Start. -- */

function showCatalog() {
    const { catalog, sources } = model.choices;
    byId("catalog").textContent = `Catalog of ${catalog.date}: ${catalog.count.toLocaleString("en")} published wheels of `
        + `${sources.length} publishers. A wheel that was published later is not in it.`;
    byId("sources").replaceChildren(...sources.map((source) => element("li", null,
        `${source.name}: ${source.count.toLocaleString("en")} wheels${source.official ? ", official" : ""}`)));
}

async function begin() {
    const choices = await send("ask", { request: { command: "choices" } });
    if (choices.error !== undefined) {
        showError(choices.error);
        return;
    }
    model.choices = model.firstChoices = choices;
    buildMenus();
    showCatalog();
    listenToPastes();
    for (const form of document.querySelectorAll("form"))
        form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("popstate", (event) => restore(event.state));
    restore(null);
    if (byId("text").value !== "") // typed while the module was loading
        takeText(byId("text").value);
    navigator.serviceWorker?.register(policy.createScriptURL("page.js")).catch(() => {});
}

function startPage() {
    if (globalThis.trustedTypes !== undefined)
        policy = trustedTypes.createPolicy("page", { createScriptURL: (url) => url });
    worker = new Worker(policy.createScriptURL("page.js"));
    const cannot = (why) => showError({
        message: "The page could not load its WebAssembly module",
        hint: `${why}. It needs a web server: in its folder, python3 -m http.server` });
    worker.addEventListener("error", (event) => cannot(event.message ?? "the worker did not start"));
    worker.addEventListener("message", ({ data }) => {
        if (data.ready) {
            performance.mark("ready");
            begin();
        } else if (data.problem !== undefined)
            cannot(data.problem);
        else {
            waiting.get(data.id)(data.answer);
            waiting.delete(data.id);
        }
    });
}

if (typeof ServiceWorkerGlobalScope !== "undefined" && self instanceof ServiceWorkerGlobalScope)
    startServiceWorker();
else if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope)
    startWorker();
else
    startPage();
