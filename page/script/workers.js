/*
 * workers.js: the page's worker and its service worker. The worker runs the WebAssembly
 * module, which decides (page/module.c), and has the bytes of the pasted text. The service
 * worker keeps the page's own files for use without a network.
 *
 * tools/make_page.sh joins the files of this folder to one page.js, in the order that it
 * lists. The browser loads that file three times: as page, worker and service worker;
 * start.js finds out as which.
 */
"use strict";

const RELEASE = "development"; // `make page` writes a digest of all files here
const FILES = ["./", "style.css", "page.js", "icon.svg", `anyflash.wasm?${RELEASE}`];

/* -- The service worker: keeps the files of this release, and no others. -- */

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

/* -- The worker. -- */

const PIECE_BYTES = 1 << 20;
const CONTEXT_LINES = 2;
const LINE_CHARACTERS = 2000;

/* Passes bytes on and tells the page how many have come. */
function progress() {
    let received = 0;
    return new TransformStream({
        transform(piece, next) {
            received += piece.length;
            postMessage({ received });
            next.enqueue(piece);
        },
    });
}

/* A page in one file sets `moduleUrl`, a data: URL. */
async function loadModule() {
    const response = await fetch(self.moduleUrl ?? `anyflash.wasm?${RELEASE}`);
    if (!response.ok)
        throw new Error(`anyflash.wasm: ${response.status}`);
    const source = await WebAssembly.instantiateStreaming(
        new Response(response.body.pipeThrough(progress()), { headers: { "content-type": "application/wasm" } }), {});
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

/* Removes terminal colours; writes other control characters and bidirectional marks as \xNN. */
function printable(text) {
    return text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").slice(0, LINE_CHARACTERS).replace(
        /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
        (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/* Returns the lines with these numbers and the lines around them, in order. */
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
 * What kind of text this is: "log" if the log reader finds a cause in it, "record" or
 * "output" if it describes a machine, or null. A description of a machine mentions compilers
 * and versions, so neither a cause that is merely possible nor a message that is known to be
 * harmless makes it a log.
 */
const RECORD_BYTES_MAX = 48 << 20;
const DESCRIBED_MIN = 3;

function recognise(wasm, name, bytes) {
    const readable = readLog(wasm, name, bytes);
    const diagnosis = readable ? ask(wasm, { command: "doctor" }) : { causes: [] };
    const best = diagnosis.causes?.[0]?.confidence ?? (diagnosis.harmless && "harmless");
    if (["proved", "likely"].includes(best))
        return { kind: "log" };
    const text = bytes.length <= RECORD_BYTES_MAX ? new TextDecoder().decode(bytes) : null;
    const machine = text === null ? { error: {} }
        : ask(wasm, { command: "choices", machines: [{ name, record: text }] });
    const described = machine.facts?.filter((fact) => fact.value !== null).length ?? 0;
    if (best && described < DESCRIBED_MIN)
        return { kind: "log" };
    if (machine.error === undefined)
        return { kind: /^\s*\{/.test(text) ? "record" : "output", record: text };
    return { kind: null };
}

function startWorker() {
    const loaded = loadModule();
    let bytes = new Uint8Array();
    let record = null;
    let newestPaste = 0;
    loaded.then(() => postMessage({ ready: true }),
                (error) => postMessage({ problem: String(error.message ?? error) }));
    const jobs = {
        async paste(wasm, message) {
            if (message.id !== newestPaste)
                return { kind: null }; // the page waits for a later one, and ignores this
            bytes = new Uint8Array(await message.blob.arrayBuffer());
            const found = recognise(wasm, message.name, bytes);
            record = found.record ?? null;
            const start = new TextDecoder().decode(bytes.subarray(0, PIECE_BYTES));
            return { kind: found.kind, isPortable: /ComfyUI_windows_portable|python_embeded/.test(start) };
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
    const work = async (data) => {
        try {
            postMessage({ id: data.id, answer: await jobs[data.job](await loaded, data) });
        } catch (error) {
            postMessage({ id: data.id, answer: { error: { message: String(error.message ?? error), hint: null } } });
        }
    };
    let last = loaded.catch(() => null);
    self.addEventListener("message", ({ data }) => {
        if (data.job === "paste")
            newestPaste = data.id;
        last = last.then(() => work(data)); // one after the other
    });
}
