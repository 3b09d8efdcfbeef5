/*
 * answer.js: shows a plan, and the diagnosis of a log.
 */
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

const OWN_ARCH = "x86_64"; // of anyflash's wheel where nothing is known

/*
 * What a command rests on that was neither read nor chosen, as [key, text]. The name of a wheel's
 * file says what it was built for. `installsTorch`: an earlier step installs its torch.
 */
function assumptionsOf(command, installsTorch) {
    const [, package_, python, platform] = /([\w.]+)-[^-/]*-(\w+)-\w+-([\w.]+)\.whl/.exec(command) ?? [];
    if (package_ === undefined && !/\btorch==/.test(command))
        return [];
    const isOwn = package_ === "anyflash";
    const keys = isOwn ? [] : ["gpu", "torch", "torch_cuda", ...python === "py3" ? [] : ["python"]];
    if (platform !== "any")
        keys.push("os", "arch");
    const text = { python: `Python ${valueOf("python")}`, torch: `torch ${valueOf("torch")}`, os: labelOf("os"),
                   arch: valueOf("arch") || OWN_ARCH, torch_cuda: `torch for ${labelOf("torch_cuda")}` };
    const assumed = keys.filter((key) => !model.values[key] && (model.assumed[key] || (key === "arch" && isOwn))).map((key) => [key, text[key] ?? valueOf(key)]);
    const [, cuda] = /(?:%2B|\+)cu(\d+)/.exec(package_ === undefined ? "" : command) ?? [];
    if (cuda !== undefined && !installsTorch && valueOf("torch_cuda") === "")
        assumed.push(["torch_cuda", `a torch for CUDA ${cuda.length < 3 ? cuda : `${cuda.slice(0, -1)}.${cuda.slice(-1)}`}`]);
    return assumed;
}

/* `about`: what else to know before the command is copied. */
function commandBlock(command, isMain, what, { installsTorch = false, about = null } = {}) {
    const label = nothingIsKnown() ? "Copy example" : "Copy";
    const button = element("button", { type: "button", class: "copy", "aria-label": `${label}: ${what}`,
                                       onclick: () => copyText(command, button) }, label);
    const assumed = assumptionsOf(command, installsTorch);
    return element("div", { class: isMain && !nothingIsKnown() ? "command main" : "command" },
                   element("pre", null, element("code", null, command)), button,
                   assumed.length === 0 ? null : element("p", { class: "assumes" },
                       `Assumes ${assumed.map(([, text]) => text).join(", ")}: `,
                       element("button", { type: "button", onclick: () => goToMenu(assumed[0][0]) }, "choose yours")),
                   about);
}

const commandOf = (step) => step[shellInUse()] ?? step.command;

function shellInUse() {
    return model.shell || (valueOf("os") === "windows" ? "powershell" : "command");
}

const mainStep = (steps) => steps.find((step) => ["wheel", "torch", "own", "build"].includes(step.kind) && step.command)
    ?? steps.find((step) => step.command);
const needsProgram = (command) => /(^|[ ;&'])(?<!-m )anyflash /.test(command ?? "");

const GUIDE = "docs/guide/install.md";

/* The platform of anyflash's wheel for the chosen Linux; "any" is the Python package without the program. */
function ownPlatform() {
    const [libc, version] = valueOf("libc").split(" ");
    const isOld = libc === "musl" || (version !== undefined && Number(version.split(".")[1]) < 28);
    return isOld ? "any" : `manylinux_2_28_${valueOf("arch") || OWN_ARCH}`;
}

/* Installs anyflash's wheel from its release; null: this page was made without the project's address. */
function getCommand() {
    const release = byId("get")?.dataset.release;
    if (release === undefined)
        return null;
    const installer = model.installer || model.choices.installer;
    const pip = { uv: "uv pip", portable: ".\\python_embeded\\python.exe -m pip" }[installer] ?? "python -m pip";
    return `${pip} install ${release}-py3-none-${ownPlatform()}.whl`;
}

/* Hints of the program name its options; the page has menus and the box. */
const nameMenus = (text) => model.choices.hints.reduce((said, { program, page }) => said.replace(program, page), text);

/* The program unpacks its own Python package; who does not have it gets both from the release. */
function forVisitors(step) {
    if (step.kind !== "own" || !needsProgram(step.command))
        return { ...step, title: step.title && nameMenus(step.title) };
    const command = getCommand();
    const title = "for programs that import flash_attn: put anyflash's Python package into this environment, "
        + "then run `python -m anyflash shim install`";
    return { ...step, title: command === null ? `${title}, as \`${GUIDE}\` in anyflash's sources says` : title,
             command, powershell: command, cmd: command };
}

/* The steps to show: those of model.pair for who has no torch. Another torch is the last resort if the list is older than torch. */
const replacesNewer = (plan) => plan.next.kind === "update";
const shownSteps = () => replacesNewer(model.plan) ? [] : (model.pair ?? model.plan).steps.map(forVisitors);

/* No step of a plan for other systems needs the program. */
const programRuns = () => !["windows", "macos"].includes(valueOf("os"));

/* How to get the program, which a visitor of the page may not have. */
function programParts() {
    const guide = byId("get")?.href;
    const command = ownPlatform() === "any" ? null : getCommand();
    const ways = command === null ? "Ways to get it" : "Other ways to get it";
    return ["Get the program anyflash; skip this if you have it. ",
            ...guide ? [element("a", { href: guide }, ways)] : ["Ways to get it: ", element("code", null, GUIDE), " in anyflash's sources."],
            command === null ? null : commandBlock(command, false, "get the program anyflash")];
}

/* Who published a wheel, and the page of its release. */
function publisherPart({ publisher, url, filename }, plan) {
    if (publisher === null)
        return null;
    const who = publisher.replace(/^huggingface:(.*)/, "$1 (Hugging Face)");
    const release = url.replace(/\/releases\/download\/([^/]+)\/.*/, "/releases/tag/$1").replace(/\/resolve\/.*/, "");
    const isOfficial = plan.wheel?.filename === filename && plan.wheel.official;
    return element("p", { class: "publisher" },
        isOfficial ? `Official build, published by ${who}. ` : `Community build by ${who}, not by the authors of flash-attn. `,
        release === url ? null : element("a", { href: release, rel: "noreferrer" }, "Its release"));
}

function stepBlock(step, steps, isMain, plan) {
    return commandBlock(commandOf(step), isMain, step.title ?? "the command", {
        installsTorch: steps.some((one) => one.kind === "torch"),
        about: step.wheel === null ? null : publisherPart(step.wheel, plan) });
}

function stepsList(steps, plan) {
    const main = mainStep(steps);
    const items = steps.map((step) => element("li", null, ...withCode(sentence(step.title ?? "")),
        step.command === null ? null : stepBlock(step, steps, step === main, plan)));
    const first = steps.findIndex((step) => needsProgram(step.command));
    if (first >= 0)
        items.splice(first, 0, element("li", { class: "program" }, ...programParts()));
    return element("ol", { class: "steps" }, ...items);
}

const hintText = (hint) => element("span", { class: "quiet" }, ...withCode(`hint: ${nameMenus(hint)}`));

/* A choice reaches the module as the program's --given, which it then names as the source. */
const nameChoices = (text) => text.replace(/--given [^:;,)]*/g, "your choice").replace(/\bsm (\d+\.\d)/g, "compute capability $1");

function reasonItem(reason) {
    const parts = withCode(nameChoices(reason.detail ? `${reason.message}: ${reason.detail}` : reason.message));
    if (reason.hint)
        parts.push(element("br"), hintText(reason.hint));
    return element("li", null, ...parts);
}

function details(summary, ...children) {
    return element("details", null, element("summary", null, ...summary), ...children);
}

function buildParts(builds) {
    return builds.flatMap((one) => [
        element("p", null, `${one.name === "slim" ? "partial" : one.name} build, ${one.time}: ${nameChoices(one.holds)}; ${one.needs}`),
        commandBlock(one.command, false, `${one.name} build`)]);
}

const OPTIONS = { wheel: "Wheel", "torch-kernels": "Kernels that are part of torch", build: "A wheel of PTX, made on your machine",
                  "torch-change": "Another torch", engine: "Without FlashAttention" };

function rungDetails(rung, plan) {
    const moves = rung.moves.map((move) => element("li", null, move.to === null
        ? `breaks: ${move.name} ${move.from ?? ""}${move.why ? `: ${move.why}` : ""}`
        : `changes: ${move.name} ${move.from ?? "(not installed)"} → ${move.to}${move.why ? `: ${move.why}` : ""}`));
    const isSaid = (need) => rung.reasons.some((reason) => reason.hint === need.fix);
    const needs = rung.prerequisites.map((need) => element("li", null,
        `${need.name}: ${need.verdict}${need.evidence ? `, ${nameChoices(need.evidence)}` : ""}`,
        ...need.fix && !isSaid(need) ? [element("br"), hintText(need.fix)] : []));
    const cost = rung.name === "build" && plan.builds.length > 0 ? null : rung.cost;
    const steps = element("div");
    const shown = details(
        [element("span", { class: "verdict" }, rung.verdict), ` ${OPTIONS[rung.name] ?? rung.name}: `,
         element("span", { class: "quiet" }, nameChoices(rung.summary ?? ""))],
        cost ? element("p", null, `Cost: ${cost}`) : null,
        rung.torch_version === null ? null : torchButton(rung),
        steps,
        ...(rung.name === "build" ? buildParts(plan.builds) : []),
        element("ul", null, ...moves, ...rung.reasons.map(reasonItem), ...needs));
    if (rung.verdict !== "no" && rung.name !== "build")
        shown.addEventListener("toggle", () => showSteps(steps, rung.name), { once: true });
    return shown;
}

function torchButton({ torch_version: torch, torch_cuda: build }) {
    return element("p", null, element("button", { type: "button", onclick: () => openCell(torch, build) },
                                      `Answer for torch ${torch}+${build}`));
}

/* The steps of an option that is not the recommended one; they are asked for when it is opened. */
async function showSteps(place, name) {
    const plan = await send("ask", { request: planRequest("plan", { prefer: name }) });
    if (plan.decision === name && plan.steps.length > 0)
        place.replaceChildren(stepsList(plan.steps.map(forVisitors), plan));
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
                   element("p", { class: "quiet" }, nameChoices(sieve)), element("ul", null, ...misses));
}

function proofParts(plan) {
    if (plan.prove_first === null || !programRuns())
        return [];
    const { wheel, inspect, install } = plan.prove_first;
    return [element("h3", null, "A wheel that may load: prove it first"),
            element("p", null, element("code", null, wheel.filename)),
            element("div", { class: "program" }, ...programParts()),
            element("p", null, "This reads its binaries and changes nothing:"), commandBlock(inspect, false, "prove the wheel"),
            element("p", null, "This proves it, installs it, and removes it if it does not load:"),
            commandBlock(install, false, "prove and install the wheel")];
}

/* Why the answer is not certain yet. */
function openReasons(plan) {
    const wheel = plan.rungs.find((rung) => rung.name === "wheel");
    return plan.decision === null || plan.decision === "wheel"
        ? wheel.reasons.filter((reason) => reason.effect === "open") : [];
}

/* The releases to look at if torch is newer than the catalog; null: it is not. */
function newerReleases(plan) {
    const reason = plan.rungs.find((rung) => rung.name === "wheel").reasons.find((one) => one.id === "torch-newer-than-catalog");
    return reason === undefined ? null : reason.detail.match(/https:\/\/[^\s,]+/g) ?? [];
}

/* Whether a newer list of wheels may have a better answer. */
const listIsOlder = (plan) => ["torch-change", "torch-kernels", "build"].includes(plan.decision) && newerReleases(plan) !== null;

const olderTitle = () => `This page's list of ${model.choices.catalog.date} is older than torch ${valueOf("torch")}`;

/* The service worker answers from its own copy, so a newer page is fetched first. */
async function reloadPage() {
    const kept = await navigator.serviceWorker?.getRegistration();
    const next = (await kept?.update().catch(() => null))?.installing;
    if (next)
        await new Promise((resolve) => next.addEventListener("statechange", () => next.state !== "installed" && next.state !== "activating" && resolve()));
    location.reload();
}

function olderParts(plan) {
    return [element("p", null, "A wheel for it may have been published since. Look at these releases, or reload this page, which gets "
                + "a newer list if there is one:"),
            element("ul", null, ...newerReleases(plan).map((url) => element("li", null, ...withLinks(url)))),
            element("p", { class: "row" }, element("button", { type: "button", onclick: reloadPage }, "Reload this page"))];
}

function pairParts(pair) {
    return [element("p", null, "If torch is not installed yet, install this torch, and then the wheel that was built for it:"),
            stepsList(shownSteps(), pair)];
}

/* Names every value that cannot be read; other errors have a hint. */
function showError(error) {
    const [, word, key, why] = /^--given ((\w+)=[^]*?: ([^]*))/.exec(error.message) ?? [];
    if (model.values[key])
        model.refused[key] = why;
    const refused = Object.keys(model.refused);
    byId("answer-title").textContent = word ?? error.message;
    byId("pinned").hidden = true;
    byId("answer-body").replaceChildren(...[
        error.hint ? element("p", null, ...withCode(error.hint)) : null,
        refused.length === 0 ? null : element("p", { class: "row" }, "No answer before these are chosen again:",
            ...refused.map((key) => element("button", { type: "button", onclick: () => goToMenu(key) }, factOf(key).label))),
    ].filter((part) => part !== null));
    byId("table").hidden = true;
    for (const id of ["for", "unsure", "switches", "share"])
        byId(id).hidden = true;
}

/* For which machine the answer is, and what of it is assumed. */
function answeredFor() {
    if (nothingIsKnown())
        return `An example, for ${summary()}. Paste or choose what you have to get your own answer.`;
    const assumed = model.choices.facts.filter(({ key }) => !model.values[key] && model.assumed[key]);
    return `For ${summary()}.${assumed.length === 0 ? "" : ` Assumed: ${assumed.map((fact) =>
        `${fact.label} ${labelOf(fact.key)}`).join(", ")}.`}`;
}

function showPlan(plan) {
    if (plan.error !== undefined) {
        showError(plan.error);
        return;
    }
    const open = openReasons(plan);
    const isOlder = listIsOlder(plan);
    const isLast = (rung) => isOlder && rung.name === "torch-change";
    const isOther = (rung) => rung.name !== plan.decision || isLast(rung);
    const others = [...plan.rungs.filter((rung) => isOther(rung) && !isLast(rung)), ...plan.rungs.filter(isLast)];
    const chosen = plan.rungs.find((rung) => !isOther(rung));
    const steps = shownSteps();
    const commands = steps.filter((step) => step.command !== null && step.kind !== "advice");
    const all = element("button", { type: "button", onclick: () => copyText(commands.map(commandOf).join("\n"), all) },
                        "Copy all commands");
    // From one of these on, the module assumes the rest.
    const isDescribed = valueOf("gpu") !== "" || valueOf("torch") !== "" || ["output", "record"].includes(model.paste?.kind);
    const headline = isOlder ? olderTitle() : model.pair ? `No torch yet? ${model.pair.headline}` : plan.headline;
    const title = isDescribed ? headline : `Choose your GPU${valueOf("os") === "macos" ? "" : " and torch"}`;
    byId("answer-title").textContent = byId("pinned").textContent = (nothingIsKnown() ? "For example: " : "") + title;
    document.title = `anyflash: ${nothingIsKnown() ? "which FlashAttention wheel fits?" : title}`;
    byId("for").textContent = answeredFor();
    byId("for").hidden = !isDescribed;
    byId("unsure").hidden = open.length === 0 || !isDescribed || isOlder || model.pair !== null;
    byId("unsure").textContent = open.length === 0 ? ""
        : `${plan.decision === null ? "Not known yet" : "Unsure because"}: ${open.map((reason) => reason.message).join("; ")}.`;
    byId("answer-body").replaceChildren(...!isDescribed ? [askForFacts()] : [
        plan.faster === null ? null
            : element("p", null, ...withCode(`Made for this GPU: choose \`${plan.faster}\` in the menu Package.`)),
        ...isOlder ? olderParts(plan) : [askForFacts()],
        isOlder && steps.length > 0 ? element("h3", null, `Or: ${plan.headline}`) : null,
        ...model.pair ? pairParts(model.pair) : steps.length > 0 ? [stepsList(steps, plan)] : [],
        commands.length > 1 ? element("p", { class: "row" }, all) : null,
        ...proofParts(plan),
        element("div", { id: "wheels" }),
        nearMisses(plan),
        chosen === undefined || chosen.reasons.length === 0 ? null
            : details(["About this option"], element("p", null, `Cost: ${chosen.cost}`),
                      element("ul", null, ...chosen.reasons.map(reasonItem))),
        element("h3", null, "Other options"),
        ...others.map((rung) => rungDetails(rung, plan)),
    ].filter((part) => part !== null));
    byId("switches").hidden = commands.length === 0 && !isOlder;
    byId("share").hidden = nothingIsKnown();
    say(byId("answer-title").textContent);
    performance.mark("answered");
}

/* -- All wheels that fit, with their versions and publishers. -- */

const WHEELS_MAX = 300;

/* Files of the same name differ by their release: ", release v0.9.0". */
function releaseOf(url) {
    const [, tag] = /\/releases\/download\/([^/]+)\//.exec(url) ?? [];
    return tag === undefined ? "" : `, release ${decodeURIComponent(tag)}`;
}

function showWheels(candidates) {
    const fitting = (candidates ?? []).filter((one) => one.verdict === "yes");
    const fillFrom = (id, key, none) => {
        const names = [...new Set([model[id], ...fitting.map((one) => one[key])])].filter(Boolean);
        fillSelect(byId(id), [["", none], ...names.map((one) => [one, one])], model[id]);
    };
    fillFrom("version", "version", "the best");
    fillFrom("publisher", "source", "any");
    const shown = fitting.filter((one) => ["", one.version].includes(model.version) && ["", one.source].includes(model.publisher));
    const place = byId("wheels");
    if (place === null || shown.length === 0)
        return;
    const rows = shown.map((one) => element("li", null,
        element("a", { href: one.url, rel: "noreferrer" }, one.filename),
        element("span", { class: "quiet" }, ` ${one.source}${releaseOf(one.url)}${one.official ? ", official" : ""}`)));
    const isChosen = shown.length < fitting.length;
    place.replaceChildren(details([`${isChosen ? "Chosen" : "All"} wheels that fit (${shown.length}${isChosen ? ` of ${fitting.length}` : ""}${
        candidates.length === WHEELS_MAX && candidates.at(-1).verdict !== "no" ? " or more" : ""})`], element("ul", null, ...rows)));
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

/* Whether the answer differs for another Python: most wheels are for one. */
const pythonDecides = () => !nothingIsKnown() && (model.plan.decision === null || /-cp\d+-/.test(model.plan.wheel?.filename));

/* A button for each menu that the answer still needs. */
function askForFacts() {
    const hasBuilds = !["", "none"].includes(valueOf("torch")) && makerOfGpu() === "NVIDIA";
    const isMac = valueOf("os") === "macos"; // there, torch and Python decide nothing
    const isMissing = { gpu: valueOf("gpu") === "", torch: valueOf("torch") === "" && !isMac,
                        torch_cuda: hasBuilds && !nothingIsKnown() && !model.values.torch_cuda,
                        python: pythonDecides() && !model.values.python && !isMac };
    const missing = model.choices.facts.filter(({ key }) => isMissing[key]);
    if (missing.length === 0)
        return null;
    return element("p", { class: "row ask" }, "For the exact command, choose what is still unknown:",
                   ...missing.map(({ key, label }) => element("button", { type: "button", onclick: () => goToMenu(key) }, label)));
}

function goToMenu(key) {
    byId("have").open = true;
    byId(`fact-${key}`).focus();
}

function programCommand(command) {
    return !programRuns() ? null : details(["With the program anyflash"], element("ol", { class: "steps" },
        element("li", { class: "program" }, ...programParts()), element("li", null, commandBlock(command, false, "the next step"))));
}

/* ComfyUI's portable Python is on no path: its pip is a module. */
const withPip = (text) => model.installer === "portable" ? text.replace(/`(python -m )?pip /g, "`.\\python_embeded\\python.exe -m pip ") : text;

const packageButton = (name) => element("p", null,
    element("button", { type: "button", onclick: () => choosePackage(name) }, `Answer for ${name}`));

/* The answer's command where the program would plan, install or build; else what the cause says. */
function nextParts(cause) {
    const fix = element("p", null, ...withCode(withPip(cause.fix)));
    if (cause.next === null) // of another package
        return [fix];
    const wanted = /^anyflash plan --package (\w+)$/.exec(cause.next)?.[1] ?? model.package;
    if (wanted !== model.package)
        return [fix, packageButton(wanted)];
    const plans = /^anyflash (plan|install|build)( --package \w+)?$/.test(cause.next);
    if (plans && listIsOlder(model.plan))
        return [element("p", null, `${olderTitle()}.`), ...olderParts(model.plan), fix];
    const step = plans && model.plan.decision ? mainStep(shownSteps()) : undefined;
    if (step !== undefined && !needsProgram(step.command))
        return [element("p", null, ...withCode(sentence(step.title ?? ""))), stepBlock(step, shownSteps(), true, model.plan),
                askForFacts(), fix].filter((part) => part !== null);
    if (!needsProgram(cause.next))
        return [commandBlock(cause.next, true, "the next step"), fix];
    return [fix, plans ? askForFacts() : null, programCommand(step === undefined ? cause.next : commandOf(step))];
}

/* A name such as scaled_dot_product_attention stays as it is. */
const sentence = (text) => /^\w*_/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);

function causeParts(cause, lines) {
    const facts = cause.evidence.filter((row) => row.fact !== undefined);
    const found = cause.evidence.filter((row) => row.line !== undefined);
    return [
        cause.detail ? element("p", null, ...withCode(cause.detail)) : null,
        cause.doubt ? element("p", null, `${sentence(cause.doubt)}.`) : null,
        element("h3", null, "Next step"), ...nextParts(cause),
        cause.evidence.length > 0 ? element("h3", null, "Evidence") : null, found.length > 0 ? logView(lines, found) : null,
        facts.length > 0 ? element("ul", null, ...facts.map((row) =>
            element("li", null, `${factName(row.fact)}: ${row.value} (${nameChoices(row.source)})`))) : null,
        cause.why ? element("h3", null, "Why") : null, cause.why ? element("p", null, ...withCode(cause.why)) : null,
        cause.avoid ? element("h3", null, "What not to do") : null,
        cause.avoid ? element("p", null, ...withCode(cause.avoid)) : null,
    ].filter((part) => part !== null);
}

const SURE = { proved: "", likely: "probably: ", possible: "possibly: " };
const titleOf = (cause) => sentence(SURE[cause.confidence] + cause.title);

const FACT_NAMES = { "platform.os": "the system", "platform.arch": "the processor", "resources.memory_gib": "the memory in GiB",
                     "given.installer": "the installer", "gpu.sm": "the GPU's compute capability" };

/* "the compiler version" for "compiler.version". */
const factName = (fact) => FACT_NAMES[fact] ?? `the ${fact.replace(/[._]/g, " ")}`;

/* A fact that would tell which cause it is, and how to see it. */
function questionItem(row) {
    const isUnix = /\b(uname|free|ldd|nproc)\b/.test(row.command ?? "");
    const command = isUnix && valueOf("os") === "windows" ? null : row.command;
    return element("li", null, sentence(factName(row.fact)), command ? ", which " : null, command ? element("code", null, command) : null,
                   command ? " shows" : null);
}

function causesParts({ causes, open }, lines) {
    const near = (cause) => lines.filter(({ number }) => cause.evidence.some(
        (row) => row.line !== undefined && Math.abs(row.line - number) <= CONTEXT_LINES));
    const questions = open.map(questionItem);
    return [
        ...causeParts(causes[0], near(causes[0])),
        questions.length > 0 ? element("h3", null, "What would settle it") : null,
        questions.length > 0 ? element("ul", null, ...questions) : null,
        causes.length > 1 ? element("h3", null, "Other causes") : null,
        ...causes.slice(1).map((cause) => details([titleOf(cause)], ...causeParts(cause, near(cause)))),
        element("p", { class: "quiet" }, model.paste === null ? "The link names this cause; the log is not in it."
            : `Decided from the log${givenWords().length > 0 ? ", then your choices" : ""}.`),
    ].filter((part) => part !== null);
}

/* The error of a text without a cause. */
function errorParts(error, lines) {
    return [element("h3", null, "What failed"), logView(lines, [error]),
            element("p", null, "Search for this message in the issues of the program that printed it.")];
}

/* The program's words for a log whose only finding is a message that is known to be harmless. */
function harmlessParts(harmless, lines) {
    return [element("p", null, ...withCode(sentence(harmless.why))), logView(lines, [harmless])];
}

/* What is shown of a diagnosis: its title, the lines that it is about, and the parts of its text. */
function viewOf(diagnosis, causes) {
    const { harmless = null, other = null, error = null } = diagnosis; // a link has none of them
    const failed = (lines) => error === null ? [] : errorParts(error, lines);
    if (harmless !== null)
        return { title: "Nothing in this log is a failure of flash-attn", evidence: [harmless, error].filter((row) => row !== null),
                 parts: (lines) => [...harmlessParts(harmless, lines), ...failed(lines)] };
    if (causes.length === 0 && other === null)
        return { title: "No known failure of flash-attn is in this log", evidence: [error], parts: failed };
    if (causes.length === 0)
        return { title: `What failed here is ${other.package}`, evidence: [other],
                 parts: (lines) => [element("p", null, "Search for the first error above this line in that project's issues."),
                                    logView(lines, [other])] };
    return { title: titleOf(causes[0]), evidence: causes.flatMap((cause) => cause.evidence),
             parts: (lines) => causesParts(diagnosis, lines) };
}

/* Possible causes in a description of a machine are not worth saying. */
async function showDiagnosis(diagnosis, generation) {
    const causes = model.paste?.kind === "output" ? [] : diagnosis?.causes ?? [];
    model.cause = causes[0]?.id ?? "";
    const { harmless, other, error } = diagnosis ?? {};
    byId("diagnosis").hidden = causes.length === 0 && !harmless && !other && !(error && model.paste?.kind !== "output");
    if (byId("diagnosis").hidden)
        return;
    const { title, evidence, parts } = viewOf(diagnosis, causes);
    const lines = await send("excerpt", { numbers: evidence.map((row) => row.line).filter(Boolean) });
    if (generation !== model.generation)
        return;
    byId("diagnosis-title").textContent = byId("pinned").textContent = title;
    document.title = `anyflash: ${title}`;
    byId("diagnosis-body").replaceChildren(...parts(lines));
    say(title);
}

/* -- The answer as text, for an issue or a chat. -- */

function answerAsText() {
    const facts = model.choices.facts.filter((fact) => valueOf(fact.key) !== "").map((fact) =>
        `${fact.label}: ${valueOf(fact.key)}${model.values[fact.key] ? "" : " (assumed)"}`);
    const commands = shownSteps().filter((step) => step.command !== null).map((step) => `${step.title}\n    ${commandOf(step)}`);
    const parts = [byId("answer-title").textContent, facts.join("\n"), ...commands];
    if (!byId("diagnosis").hidden) {
        const lines = [...byId("diagnosis-body").querySelectorAll(":scope > .log > div")].map((one) => `    ${[...one.children].map((part) => part.textContent).join("  ")}`);
        parts.unshift(byId("diagnosis-title").textContent, lines.join("\n"));
    }
    return `${parts.join("\n\n")}\n\n${byId("catalog").textContent}\n`;
}
