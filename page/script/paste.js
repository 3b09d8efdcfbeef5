/*
 * paste.js: the box for a text of any size, pasted, typed, dropped or opened as a file.
 */
let typing = 0;
const SENTENCE_BYTES = 200;

/* What PowerShell 5 writes starts with one of these marks. */
const UTF16 = { "255,254": "utf-16le", "254,255": "utf-16be" };
const isUtf16 = (bytes) => String(bytes.subarray(0, 2)) in UTF16;

/* Returns UTF-16 as UTF-8, and all other bytes as they are. */
function asUtf8(bytes) {
    return isUtf16(bytes) ? new TextEncoder().encode(new TextDecoder(UTF16[bytes.subarray(0, 2)]).decode(bytes)) : bytes;
}

function forgetPaste() {
    clearTimeout(typing);
    model.paste = null;
    model.cause = "";
    model.said = {};
    model.values = {};
    model.choices = { ...model.firstChoices };
    byId("text").value = "";
    showRest(null);
    byId("recognised").textContent = "";
}

const KINDS = {
    log: "Recognised: a log.",
    output: "Recognised: a description of a machine.",
    record: "Recognised: the output of anyflash machine.",
};

/* Reads a text; false: a later one came before this was read. */
async function readBlob(blob, id) {
    const generation = ++model.generation;
    matrixRun++;
    byId("recognised").textContent = "Reading …";
    model.cause = "";
    const found = await send("paste", { name: NAME, blob });
    if (generation !== model.generation)
        return false;
    if (found.error !== undefined || found.kind === null) {
        byId("recognised").textContent = found.error?.message
            ?? "Nothing in this text describes a machine or a known failure. Paste the whole output: the cause is often in earlier lines.";
        model.paste = null;
    } else {
        model.paste = { id, kind: found.kind, isPortable: found.isPortable };
        byId("recognised").textContent = KINDS[found.kind];
    }
    const machine = { ...machineOf([]), assume: false };
    const choices = await send("ask", { request: { command: "choices", machines: [machine] } });
    if (generation !== model.generation)
        return false;
    if (choices.error !== undefined) {
        showError(choices.error);
        return false;
    }
    model.choices = choices;
    model.said = Object.fromEntries(choices.facts.map((fact) => [fact.key, fact.value ?? UNKNOWN]));
    return true;
}

async function takeBlob(blob) {
    if (blob.size === 0) {
        forgetPaste();
        remember();
        refresh();
        return;
    }
    const id = ++model.pasteCount;
    if (!await readBlob(blob, id))
        return;
    if (model.paste !== null) {
        model.values = { ...model.said };
        model.installer = model.paste.isPortable ? "portable" : "";
        keepText(id, await blob.text());
        remember();
    }
    const isNamed = model.paste === null && blob.size <= SENTENCE_BYTES && takeNamedGpu(await blob.text());
    await refresh();
    if (model.paste !== null || isNamed)
        showFirstAnswer();
}

/* A text that names only a GPU chooses it. */
function takeNamedGpu(text) {
    const names = model.firstChoices.facts.find(({ key }) => key === "gpu").choices.map((one) => one.value);
    const gpu = longestIn(names.filter((name) => /\d/.test(name) && new RegExp(`\\b${name}\\b`, "i").test(text)));
    if (gpu === "")
        return false;
    Object.assign(model.values, { gpu }, makerOfGpu(gpu) === "Apple" ? { os: "macos" } : {});
    byId("recognised").textContent = `Recognised: the GPU ${gpu}.`;
    remember();
    return true;
}

/* Reads again a text of this tab; false: a later one came before. */
async function takeKeptText(text, id) {
    const blob = new Blob([text]);
    await showStart(blob);
    return readBlob(blob, id);
}

/* On a small screen: folds the menus, which the text has filled, and scrolls to the answer. */
function showFirstAnswer() {
    if (matchMedia("(min-width: 1000px)").matches)
        return;
    byId("have").open = false;
    const title = byId("diagnosis").hidden ? "answer" : "diagnosis";
    byId(title).scrollIntoView({ block: "start" });
}

function showRest(rest) {
    model.rest = rest;
    byId("rest").hidden = rest === null;
    byId("rest-size").textContent = rest === null ? "" : `${(rest.size / 1e6).toFixed(1)} MB`;
}

function takeBox() {
    clearTimeout(typing);
    typing = setTimeout(() => takeBlob(new Blob([byId("text").value, model.rest ?? ""])), 150);
}

/*
 * The box shows, and lets one edit, the beginning of a long text: browsers take seconds to
 * lay out all of it. The rest is kept beside it.
 */
async function showStart(blob) {
    const start = new Uint8Array(await blob.slice(0, SHOWN_BYTES).arrayBuffer().catch(() => [])); // of a file that is gone
    const end = start.length < blob.size ? start.lastIndexOf(10) + 1 || start.length : start.length;
    byId("text").value = new TextDecoder().decode(start.subarray(0, end));
    showRest(end < blob.size ? blob.slice(end) : null);
    clearTimeout(typing);
}

async function takeLongText(file) {
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer().catch(() => []));
    const blob = isUtf16(head) ? new Blob([asUtf8(new Uint8Array(await file.arrayBuffer()))]) : file;
    await showStart(blob);
    takeBlob(blob);
}

function listenToPastes() {
    const box = byId("text");
    box.addEventListener("beforeinput", () => {
        if (box.selectionStart === 0 && box.selectionEnd === box.value.length)
            showRest(null); // the whole text is replaced or deleted
    });
    box.addEventListener("input", takeBox);
    box.addEventListener("paste", (event) => {
        const text = event.clipboardData?.getData("text/plain") ?? "";
        if (text.length <= SHOWN_BYTES)
            return;
        event.preventDefault();
        const { value, selectionStart, selectionEnd } = box;
        const all = selectionStart === 0 && selectionEnd === value.length;
        takeLongText(new Blob([value.slice(0, selectionStart), text, value.slice(selectionEnd), all ? "" : model.rest ?? ""]));
    });
    byId("drop-rest").addEventListener("click", () => {
        showRest(null);
        takeBox();
        box.focus();
    });
    const takeFile = (file) => {
        if (file !== undefined)
            takeLongText(file);
    };
    byId("file").addEventListener("change", (event) => takeFile(event.target.files[0]));
    // Anywhere: a file dropped beside the box would replace the page.
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    addEventListener("drop", (event) => {
        if (hasFiles(event)) {
            event.preventDefault();
            takeFile(event.dataTransfer.files[0]);
        }
    });
    byId("clear").addEventListener("click", () => {
        byId("file").value = "";
        Object.assign(model, { values: {}, package: "", version: "", publisher: "", official: false, installer: "", shell: "" });
        byId("have").open = true;
        clearKeptTexts();
        takeBlob(new Blob());
        box.focus();
    });
}
