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

/* Hints of the program name its options; the page has menus and the box. */
function hintText(hint) {
    const own = model.choices.hints.find((one) => one.program === hint);
    return element("span", { class: "quiet" }, ...withCode(`hint: ${own?.page ?? hint}`));
}

/* A choice reaches the module as the program's --given, which it then names as the source. */
const nameChoices = (text) => text.replace(/--given [^:;,)]*/g, "your choice");

function reasonItem(reason) {
    const parts = withCode(reason.detail ? `${reason.message}: ${nameChoices(reason.detail)}` : reason.message);
    if (reason.hint)
        parts.push(element("br"), hintText(reason.hint));
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
        `${need.name}: ${need.verdict}${need.evidence ? `, ${nameChoices(need.evidence)}` : ""}`,
        need.fix ? element("br") : null, need.fix ? hintText(need.fix) : null));
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

/* Why the answer is not certain yet. */
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
            : details(["About this option"], element("p", null, `cost: ${chosen.cost}`),
                      element("ul", null, ...chosen.reasons.map(reasonItem))),
        element("h3", null, "Other options"),
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
        element("h3", null, "Evidence"), found.length > 0 ? logView(lines, found) : null,
        facts.length > 0 ? element("ul", null, ...facts.map((row) =>
            element("li", null, `${row.fact} is ${row.value} (${nameChoices(row.source)})`))) : null,
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
        element("p", { class: "quiet" }, `${best.id} (${best.confidence}); facts: the log${givenWords().length > 0 ? ", then your choices" : ""}`),
    ].filter((part) => part !== null));
    byId("diagnosis").hidden = false;
    say(byId("diagnosis-title").textContent);
}
