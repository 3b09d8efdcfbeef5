/*
 * start.js: asks for an answer whenever a choice changes, and starts the page.
 */
function matrixKey() {
    return JSON.stringify([model.paste?.id, model.package, model.publisher, model.official, ...["gpu", "os", "arch", "python", "libc", "driver"].map(valueOf)]);
}

let shownMatrix = null;

/* What the module assumed, or could not use, of the facts that were chosen. */
function takeAssumptions({ facts, columns, rows }) {
    model.choices = { ...model.choices, columns, rows };
    model.assumed = Object.fromEntries(facts.filter((fact) => fact.source === "assumed").map((fact) => [fact.key, fact.value]));
    for (const [key, { value }] of Object.entries(guesses()))
        model.assumed[key] = value;
    model.refused = {};
    for (const { key, value, source } of facts) {
        if (model.values[key] && source === "assumed")
            model.refused[key] = "not understood";
        else if (model.values[key] && value === null)
            model.refused[key] = `counts as unknown: ${(source ?? "").replace(/^--given [^:]*: /, "")}`;
    }
}

/* Of the text, or of a link that names a cause; null: of neither. */
async function askDiagnosis(given) {
    if (["log", "output"].includes(model.paste?.kind))
        return send("ask", { request: { command: "doctor", machines: [{ name: NAME, given }] } });
    if (model.paste !== null || model.cause === "")
        return null;
    const cause = await send("ask", { request: { command: "cause", cause: model.cause } });
    return cause.error === undefined ? { causes: [{ ...cause, confidence: "proved", detail: null, evidence: [] }], open: [] } : null;
}

async function refresh() {
    const generation = ++model.generation;
    performance.mark("asked");
    matrixRun++;
    const given = givenWords();
    // What is assumed; the platform decides which builds there are.
    const choices = await send("ask", { request: { command: "choices", machines: [machineOf([...given, ...guessedWords()])] } });
    if (generation !== model.generation)
        return;
    if (choices.error === undefined)
        takeAssumptions(choices);
    showMenus();
    const plan = await send("ask", { request: planRequest() });
    if (generation !== model.generation)
        return;
    const needsTorch = plan.decision === null && valueOf("torch") === "" && valueOf("gpu") !== "";
    const pair = needsTorch ? await send("ask", { request: planRequest("plan", {}, ["torch=none"]) }) : null;
    if (generation !== model.generation)
        return;
    model.plan = plan;
    model.pair = pair?.decision === "torch-change" ? pair : null;
    showPlan(plan);
    if (plan.error !== undefined) {
        showMenus(); // marks the refused one
        byId("diagnosis").hidden = true;
        shownMatrix = null;
        document.documentElement.dataset.answered = String(generation);
        return;
    }
    const diagnosis = await askDiagnosis(given);
    if (generation !== model.generation)
        return;
    await showDiagnosis(diagnosis, generation);
    const { candidates } = await send("ask", { request: { ...planRequest("candidates"), limit: WHEELS_MAX } });
    if (generation !== model.generation)
        return;
    showWheels(candidates);
    showPinned();
    document.documentElement.dataset.answered = String(generation);
    if (shownMatrix === matrixKey() && byId("matrix").dataset.complete !== undefined) {
        markCell();
        return;
    }
    delete byId("matrix").dataset.complete;
    shownMatrix = matrixKey();
    showMatrix();
}

/* -- Start. -- */

function showCatalog() {
    const { catalog, sources } = model.choices;
    byId("catalog").textContent = `Catalog of ${catalog.date}: ${catalog.count.toLocaleString("en")} published wheels of `
        + `${new Set(sources.map(({ name }) => name.split("/")[0])).size} publishers. Wheels published later are not in it.`;
    byId("sources").replaceChildren(...sources.map((source) => element("li", null,
        `${source.name}: ${source.count.toLocaleString("en")} wheels${source.official ? ", official" : ""}`)));
}

let answerIsSeen = true;

function showPinned() {
    byId("pinned").hidden = answerIsSeen;
}

function listenToLinks() {
    document.querySelector(".skip").addEventListener("click", (event) => {
        event.preventDefault(); // a new fragment would be a link with other choices
        byId("answer-title").focus();
    });
    byId("pinned").addEventListener("click", (event) => {
        event.preventDefault();
        byId(byId("diagnosis").hidden ? "answer" : "diagnosis").scrollIntoView({ block: "start" });
    });
    // The headline stays in sight on a small screen while the answer is not.
    new IntersectionObserver(([seen]) => {
        answerIsSeen = seen.isIntersecting;
        showPinned();
    }, { rootMargin: "0px 0px -25% 0px" }).observe(document.querySelector(".answers"));
    byId("as-text").addEventListener("click", (event) => copyText(answerAsText(), event.target));
    byId("matrix").addEventListener("keydown", moveInMatrix);
    byId("matrix").addEventListener("scroll", showMore);
    new ResizeObserver(showMore).observe(byId("matrix"));
    byId("link").addEventListener("click", (event) => {
        const fragment = fragmentOf();
        copyText(`${location.href.split("#")[0]}${fragment === "" ? "" : `#${fragment}`}`, event.target);
    });
}

async function begin() {
    const choices = await send("ask", { request: { command: "choices" } });
    if (choices.error !== undefined) {
        showError(choices.error);
        return;
    }
    model.choices = model.firstChoices = choices;
    model.browserGpu = findBrowserGpu(choices.facts.find((fact) => fact.key === "gpu").choices.map((one) => one.value));
    buildMenus();
    showCatalog();
    listenToPastes();
    listenToLinks();
    for (const form of document.querySelectorAll("form"))
        form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("popstate", (event) => restore(event.state));
    const early = byId("text").value; // typed while the module was loading
    if (early === "")
        restore(history.state);
    else {
        await restore(null);
        takeBox();
    }
    navigator.serviceWorker?.register(policy.createScriptURL("page.js")).catch(() => {});
}

/* Why the module does not answer, and what the visitor can do. */
function cannot(why) {
    const isOwn = ["localhost", "127.0.0.1"].includes(location.hostname);
    showError(location.protocol === "file:"
        ? { message: "This page cannot run when it is opened as a file",
            hint: "Open `page.html` beside this folder, which has everything in one file, or run `python3 -m http.server` "
                + "in this folder and open http://localhost:8000." }
        : { message: "The page could not load its WebAssembly module",
            hint: `${why}. ${isOwn ? "`make page` puts anyflash.wasm beside index.html." : "Reload the page; if that does not help, tell whoever runs this site."}` });
}

function showProgress(received) {
    byId("answer-title").textContent = `Loading the catalog of wheels: ${(received / 1e6).toFixed(1)} MB`;
    showWaiting();
}

/* Says that a text will be read, until the module is there. */
function showWaiting() {
    if (model.choices === null && byId("text").value !== "")
        byId("recognised").textContent = "Your text will be read as soon as the catalog is loaded.";
}

/* The URL of this script for a worker. In a page of one file it is made from the file's own text. */
function workerUrl() {
    const module = byId("module");
    return policy.createScriptURL(module === null ? "page.js" : URL.createObjectURL(new Blob(
        [`self.moduleUrl = "data:application/wasm;base64,${module.textContent}";\n`, document.currentScript.textContent])));
}

function startPage() {
    byId("main").hidden = false;
    byId("text").addEventListener("input", showWaiting);
    if (globalThis.trustedTypes !== undefined)
        policy = trustedTypes.createPolicy("page", { createScriptURL: (url) => url });
    try {
        worker = new Worker(workerUrl());
    } catch {
        cannot("The browser did not start a worker");
        return;
    }
    worker.addEventListener("error", (event) => cannot(event.message ?? "the worker did not start"));
    worker.addEventListener("message", ({ data }) => {
        if (data.ready) {
            performance.mark("ready");
            begin();
        } else if (data.received !== undefined)
            showProgress(data.received);
        else if (data.problem !== undefined)
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
