/*
 * start.js: asks for an answer whenever a choice changes, and starts the page.
 */
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
    model.choices.columns = choices.columns ?? model.choices.columns;
    model.choices.rows = choices.rows ?? model.choices.rows;
    showMatrix();
}

/* -- Start. -- */

function showCatalog() {
    const { catalog, sources } = model.choices;
    byId("catalog").textContent = `Catalog of ${catalog.date}: ${catalog.count.toLocaleString("en")} published wheels of `
        + `${sources.length} publishers. Wheels published later are not in it.`;
    byId("sources").replaceChildren(...sources.map((source) => element("li", null,
        `${source.name}: ${source.count.toLocaleString("en")} wheels${source.official ? ", official" : ""}`)));
}

function listenToLinks() {
    document.querySelector(".skip").addEventListener("click", (event) => {
        event.preventDefault(); // a new fragment would be a link with other choices
        byId("answer-title").focus();
    });
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
    buildMenus();
    showCatalog();
    listenToPastes();
    listenToLinks();
    for (const form of document.querySelectorAll("form"))
        form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("popstate", (event) => restore(event.state));
    restore(null);
    if (byId("text").value !== "") // typed while the module was loading
        takeBox();
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
