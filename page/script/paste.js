/*
 * paste.js: the box for a text of any size, pasted, typed, dropped or opened as a file.
 */
let typing = 0;

function forgetPaste() {
    clearTimeout(typing);
    model.paste = null;
    model.said = {};
    model.choices = { ...model.firstChoices };
    byId("text").value = "";
    showRest(null);
    byId("recognised").textContent = "";
}

const KINDS = {
    log: "Recognised: the log of a failure.",
    output: "Recognised: output that describes a machine.",
    record: "Recognised: the output of anyflash machine.",
};

async function takeBlob(blob) {
    const generation = ++model.generation;
    matrixRun++;
    if (blob.size === 0) {
        forgetPaste();
        remember();
        refresh();
        return;
    }
    byId("recognised").textContent = "Reading …";
    const found = await send("paste", { name: NAME, blob });
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
async function takeLongText(blob) {
    const start = new Uint8Array(await blob.slice(0, SHOWN_BYTES).arrayBuffer().catch(() => [])); // of a file that is gone
    const end = start.length < blob.size ? start.lastIndexOf(10) + 1 || start.length : start.length;
    byId("text").value = new TextDecoder().decode(start.subarray(0, end));
    showRest(end < blob.size ? blob.slice(end) : null);
    clearTimeout(typing);
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
    box.addEventListener("drop", (event) => {
        if (event.dataTransfer?.files.length > 0) {
            event.preventDefault();
            takeFile(event.dataTransfer.files[0]);
        }
    });
    byId("clear").addEventListener("click", () => {
        byId("file").value = "";
        model.values = {};
        showRest(null);
        takeBlob(new Blob());
        box.focus();
    });
}
